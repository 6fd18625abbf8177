"""`check_source`: counts, sizes, formats, duplicates and pixels of a whole source."""

import io
import json

import numpy as np
import pytest
import tensorflow as tf
from odd_trees import clean, make_tree, put
from picture_bytes import clean_jpeg, encode
from PIL import Image

from keras_vit.data import DataConfig, DataError, check_source


def check(source, **settings):
    return check_source(DataConfig(source=source, **settings))


def make_png(red, green, blue, width=4, height=4):
    pixels = np.broadcast_to(np.array([red, green, blue], np.uint8), (height, width, 3))
    return encode(Image.fromarray(pixels), "PNG")


def test_digits_are_counted_as_they_are():
    report = check("digits")
    assert report.num_images == 1797
    assert {name: sum(counts.values()) for name, counts in report.counts.items()} == {
        "train": 1257,
        "validation": 180,
        "test": 360,
    }
    assert report.formats == {"array": 1797} and report.widths == report.heights == (8, 8, 8)
    assert report.imbalance == pytest.approx(128 / 122, abs=0.01)
    assert report.nearly_empty == [] and report.num_duplicates == 0


def test_counts_imbalance_and_nearly_empty_classes(tmp_path):
    tree = make_tree(tmp_path, "imbalanced")
    report = check(f"folder:{tree.path}", validation_fraction=0.2)
    assert report.counts == {
        "train": {"few": 4, "many": 36},
        "validation": {"few": 1, "many": 9},
    }
    assert report.imbalance == 9.0
    assert report.nearly_empty == ["few"]


def test_sizes_and_formats(tmp_path):
    for number, (width, height) in enumerate([(4, 9), (5, 8), (40, 8)]):
        put(tmp_path / f"a/{number}.png", make_png(1, 2, 3, width, height))
    put(tmp_path / "b/0.jpg", clean_jpeg(0, 0))
    put(tmp_path / "b/1.jpg", make_png(9, 9, 9, 40, 8))  # the name lies
    report = check(f"folder:{tmp_path}")
    assert report.formats == {"PNG": 4, "JPEG": 1}
    jpeg = Image.open(io.BytesIO(clean_jpeg(0, 0)))
    assert report.widths == (4, 40, jpeg.width) and report.heights == (8, 8, jpeg.height)
    assert report.num_sizes == 4


def test_mean_and_spread_count_every_picture_alike(tmp_path):
    put(tmp_path / "a/0.png", make_png(0, 100, 50, 2, 2))
    put(tmp_path / "b/0.png", make_png(200, 100, 150, 90, 90))
    report = check(f"folder:{tmp_path}")
    assert report.pixel_mean == (100, 100, 100)
    assert report.pixel_std == (100, 0, 50)


def test_large_pictures_are_sampled_fairly(tmp_path):
    ramp = np.broadcast_to(np.linspace(0, 255, 900).astype(np.uint8)[:, None], (900, 900))
    for name in "ab":
        put(tmp_path / name / "0.png", encode(Image.fromarray(ramp), "PNG"))
    report = check(f"folder:{tmp_path}")
    np.testing.assert_allclose(report.pixel_mean, ramp.mean(), atol=1)
    np.testing.assert_allclose(report.pixel_std, ramp.std(), atol=1)


def test_equal_pictures_under_two_labels_and_in_two_splits_are_named(tmp_path):
    clean(tmp_path / "train")
    clean(tmp_path / "val", each=1)  # the first of each class, again
    put(tmp_path / "train/b/other.jpg", clean_jpeg(0, 2))
    report = check(f"folder:{tmp_path}")
    assert report.duplicates_across_labels == [
        ["train: train/a/clean_02.jpg", "train: train/b/other.jpg"]
    ]
    assert report.duplicates_across_splits == [
        [f"train: train/{c}/clean_00.jpg", f"validation: val/{c}/clean_00.jpg"] for c in "ab"
    ]
    assert report.num_duplicates == 3


def test_unreadable_and_unlisted_files_are_told_and_not_counted(tmp_path):
    tree = make_tree(tmp_path, "three_bad")
    put(tree.path / "a/photo.heic", b"?")
    report = check(f"folder:{tree.path}")
    assert report.num_images == 8
    assert sum(report.counts["train"].values()) + sum(report.counts["validation"].values()) == 8
    for name in ("a/empty.jpg", "b/cut.jpg", "b/text.jpg"):
        assert sum(str(tree.path / name) in line for line in report.unreadable) == 1
    assert any("1 .heic" in note for note in report.notes)


def test_a_picture_damaged_behind_its_header_is_found(tmp_path):
    clean(tmp_path)
    content = clean_jpeg(0, 0)
    put(tmp_path / "a/damaged.jpg", content[: len(content) * 3 // 4])
    report = check(f"folder:{tmp_path}")
    assert report.num_images == 8
    assert [line.startswith(f"{tmp_path}/a/damaged.jpg") for line in report.unreadable] == [True]


def test_multi_label_pictures_count_for_each_of_their_classes(tmp_path):
    clean(tmp_path, each=2)
    rows = ["path,label", "a/clean_00.jpg,x|y", "a/clean_01.jpg,y", "b/clean_00.jpg,x|z"]
    put(tmp_path / "labels.csv", "\n".join(rows).encode())
    report = check(f"csv:{tmp_path}/labels.csv", validation_fraction=0)
    assert report.counts == {"train": {"x": 2, "y": 2, "z": 1}}
    assert report.num_images == 3


def test_records_are_looked_at_too(tmp_path):
    def make_example(image, label):
        feature = {
            "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
            "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
        }
        return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()

    with tf.io.TFRecordWriter(str(tmp_path / "x.tfrecord")) as writer:
        for label in (0, 1):
            writer.write(make_example(make_png(7, 7, 7), label))
        writer.write(make_example(b"no picture", 1))
    report = check(f"tfrecord:{tmp_path}/x.tfrecord", validation_fraction=0)
    assert report.num_images == 2 and report.formats == {"PNG": 2}
    assert len(report.duplicates_across_labels) == 1
    assert len(report.unreadable) == 1
    assert f"{tmp_path}/x.tfrecord, record at byte" in report.unreadable[0]


def test_progress_ends_at_the_number_of_pictures(tmp_path):
    clean(tmp_path, each=100)
    told = []
    check_source(DataConfig(source=f"folder:{tmp_path}"), 0, lambda *counts: told.append(counts))
    assert told == [(128, 200), (200, 200)]


def test_the_report_is_plain_json(tmp_path):
    clean(tmp_path)
    document = check(f"folder:{tmp_path}").to_json()
    assert json.loads(json.dumps(document))["num_images"] == 8


def test_a_source_that_cannot_be_opened_is_refused(tmp_path):
    with pytest.raises(DataError, match=f"{tmp_path}/nowhere: no such folder"):
        check(f"folder:{tmp_path}/nowhere")
