"""TFRecord files: an index made once, any record by number, labels read without the pictures."""

import struct

import numpy as np
import pytest
import tensorflow as tf

from keras_vit.augment import AugmentConfig
from keras_vit.data import (
    DataConfig,
    DataError,
    evaluation_batches,
    open_source,
    training_batches,
)
from keras_vit.data.records import index_records
from keras_vit.data.tf_example import find_features, read_feature
from keras_vit.images import Preprocessing

SMALL = Preprocessing(image_size=4)


def make_feature(value):
    if isinstance(value, bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    if isinstance(value, float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
    values = value if isinstance(value, list) else [value]
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def make_example(**features):
    features = {key.replace("__", "/"): make_feature(value) for key, value in features.items()}
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def make_png(level):
    return tf.io.encode_png(np.full((3 + level % 4, 5, 3), level, np.uint8)).numpy()


def write(path, examples):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for example in examples:
            writer.write(example)


@pytest.fixture(autouse=True, scope="module")
def own_cache_folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def shards(tmp_path):
    """Write 20 pictures, whose level is their number times ten, into three shards."""
    examples = [make_example(image=make_png(10 * i), label=i % 2, weight=0.5) for i in range(20)]
    for shard, part in enumerate((examples[:7], examples[7:12], examples[12:])):
        write(tmp_path / f"train-{shard}.tfrecord", part)
    write(tmp_path / "val-0.tfrecord", [make_example(image=make_png(7), label=1)])
    return tmp_path


def open_records(pattern, **settings):
    return open_source(DataConfig(source=f"tfrecord:{pattern}", **settings), 0)


def refusal(pattern, **settings):
    with pytest.raises(DataError) as caught:
        open_records(pattern, **settings)
    return str(caught.value)


def read_all(split):
    found = {}
    for pixels, labels in evaluation_batches(split, SMALL, 3):
        levels = np.rint(pixels.numpy().mean(axis=(1, 2, 3))).astype(int)
        found |= dict(zip(levels.tolist(), labels.numpy().tolist(), strict=True))
    return found


def test_shards_are_read_as_one_set(shards):
    source = open_records(f"{shards}/train-*.tfrecord", validation_fraction=0)
    assert source.class_names == ("0", "1")
    assert read_all(source.splits["train"]) == {10 * i: i % 2 for i in range(20)}


def test_records_can_be_split_and_read_in_any_order(shards, monkeypatch):
    monkeypatch.setattr("keras_vit.data.memory.MAX_HELD_BYTES", 0)
    source = open_records(f"{shards}/train-*.tfrecord", validation_fraction=0.2)
    assert {name: len(split) for name, split in source.splits.items()} == {
        "train": 16,
        "validation": 4,
    }
    assert np.bincount(source.splits["validation"].labels).tolist() == [2, 2]
    batches = training_batches(source.splits["train"], SMALL, AugmentConfig(), 4, 0, 4)
    seen = {}
    for pixels, labels in batches.take(4):
        levels = np.rint(pixels.numpy().mean(axis=(1, 2, 3))).astype(int)
        seen |= dict(zip(levels.tolist(), labels.numpy().tolist(), strict=True))
    seen |= read_all(source.splits["validation"])
    assert seen == {10 * i: i % 2 for i in range(20)}


def test_another_pattern_is_another_split(shards):
    source = open_records(f"{shards}/train-*.tfrecord", validation="val-*.tfrecord")
    assert read_all(source.splits["validation"]) == {7: 1}
    assert len(source.splits["train"]) == 20


def test_customary_keys_names_for_labels_and_given_class_names(tmp_path):
    examples = [
        make_example(
            image__encoded=make_png(i), image__class__label=i % 2, name=b"owl" if i else b"cat"
        )
        for i in range(6)
    ]
    write(tmp_path / "x.tfrecord", examples)
    by_number = open_records(tmp_path / "x.tfrecord", class_names=("even", "odd"))
    assert by_number.class_names == ("even", "odd")
    by_name = open_records(tmp_path / "x.tfrecord", label_key="name", validation_fraction=0)
    assert by_name.class_names == ("cat", "owl")
    assert by_name.splits["train"].labels.tolist() == [0, 1, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({"image_key": "picture"}, ["image_key = picture", "image (bytes)", "weight (float)"]),
        ({"label_key": "weight"}, ["label_key = weight", "int64 or bytes"]),
        ({"class_names": ("only",)}, ["names 1 classes", "label 1"]),
        ({"validation": "nothing-*"}, ["nothing-*", "no file matches"]),
    ],
)
def test_unusable_settings_are_refused_with_what_there_is(shards, settings, parts):
    message = refusal(f"{shards}/train-*.tfrecord", **settings)
    for part in parts:
        assert part in message


def test_unusable_files_are_refused_by_name(tmp_path):
    assert "no file matches" in refusal(tmp_path / "none.tfrecord")
    (tmp_path / "empty.tfrecord").write_bytes(b"")
    assert "hold no record" in refusal(tmp_path / "empty.tfrecord")
    write(tmp_path / "whole.tfrecord", [make_example(image=make_png(1), label=0)] * 3)
    (tmp_path / "cut.tfrecord").write_bytes((tmp_path / "whole.tfrecord").read_bytes()[:-9])
    assert f"{tmp_path}/cut.tfrecord: the record at byte" in refusal(tmp_path / "cut.tfrecord")
    write(tmp_path / "text.tfrecord", [b"this is no example"])
    assert "is no tf.Example" in refusal(tmp_path / "text.tfrecord")
    assert "one class only, 0" in refusal(tmp_path / "whole.tfrecord")
    write(tmp_path / "minus.tfrecord", [make_example(image=make_png(1), label=-1)] * 3)
    assert "labels must be 0 or more; got -1" in refusal(tmp_path / "minus.tfrecord")


def test_a_record_without_a_label_is_named(tmp_path):
    examples = [make_example(image=make_png(1), label=0), make_example(image=make_png(2))]
    write(tmp_path / "x.tfrecord", examples)
    message = refusal(tmp_path / "x.tfrecord")
    assert f"{tmp_path}/x.tfrecord, record at byte" in message and "no feature 'label'" in message
    write(tmp_path / "x.tfrecord", [make_example(image=make_png(1), label=[1, 2])])
    assert "'label' has 2 values; expected 1" in refusal(tmp_path / "x.tfrecord")


def test_bad_pictures_are_named_by_file_and_place_before_the_first_step(tmp_path):
    jpeg = tf.io.encode_jpeg(np.zeros((40, 40, 3), np.uint8)).numpy()
    pictures = [make_png(1), b"no", make_png(3), jpeg[:-60], make_png(5)]
    examples = [make_example(image=image, label=i % 2) for i, image in enumerate(pictures)]
    write(tmp_path / "x.tfrecord", examples)
    lines = refusal(tmp_path / "x.tfrecord").splitlines()
    assert len(lines) == 2
    assert all(line.startswith(f"{tmp_path}/x.tfrecord, record at byte") for line in lines)
    source = open_records(tmp_path / "x.tfrecord", skip_bad=True, validation_fraction=0)
    assert read_all(source.splits["train"]) == {1: 0, 3: 0, 5: 0}
    assert "left out 2 pictures that cannot be read:" in source.notes
    assert list(source.unreadable) == lines


def test_the_index_finds_what_tensorflow_reads(shards):
    paths = sorted(str(path) for path in shards.glob("train-*"))
    records = index_records((path, 0, -1) for path in paths)
    truth = [record.numpy() for record in tf.data.TFRecordDataset(paths)]
    assert records.read(np.arange(20)).tolist() == truth
    assert records.take(np.array([19, 3])).read(np.array([1, 0])).tolist() == [truth[3], truth[19]]
    part = index_records([(paths[2], 2, 3)]).join(index_records([(paths[0], 1, 1)]))
    assert part.read(np.arange(4)).tolist() == [*truth[14:17], truth[1]]


@pytest.mark.parametrize("value", [0, 1, 127, 128, 2**40, -1, -(2**63)])
def test_whole_numbers_are_read_as_protobuf_reads_them(value):
    example = make_example(a=b"x" * 300, label=value, z=1.5)
    assert read_feature(example, "label") == value
    kinds = {feature.key: feature.kind for feature in find_features(example, 0, len(example))}
    assert kinds == {"a": "bytes", "label": "int64", "z": "float"}


def test_unpacked_numbers_are_read_too():
    inner = b"\x08\x96\x01"  # field 1, varint 150
    feature = b"\x1a" + struct.pack("B", len(inner)) + inner
    entry = b"\x0a\x01k\x12" + struct.pack("B", len(feature)) + feature
    features = b"\x0a" + struct.pack("B", len(entry)) + entry
    assert read_feature(b"\x0a" + struct.pack("B", len(features)) + features, "k") == 150


def test_cut_examples_are_refused_at_any_byte():
    example = make_example(image=b"x" * 20, label=3)
    for end in range(1, len(example)):
        with pytest.raises(ValueError, match=r"no tf.Example"):
            list(find_features(example, 0, end))
