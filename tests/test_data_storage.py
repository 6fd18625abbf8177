"""Paths with a scheme: the same sources behind TensorFlow's file systems, here one in memory."""

import numpy as np
import pytest
import tensorflow as tf
from odd_trees import clean, put
from picture_bytes import clean_jpeg

from keras_vit.augment import AugmentConfig
from keras_vit.data import DataConfig, DataError, open_source, training_batches
from keras_vit.data.storage import join_path, relate_path
from keras_vit.images import Preprocessing

SMALL = Preprocessing(image_size=4)


@pytest.fixture(autouse=True, scope="module")
def own_cache_folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Make a folder on the disk, and the same in memory."""
    local = tmp_path_factory.mktemp("local")
    clean(local / "train")
    clean(local / "val", each=2)
    put(local / "train/a/.hidden.jpg", b"x")
    put(local / "train/a/deep/er.jpg", clean_jpeg(0, 9))
    put(local / "notes.txt", b"x")
    rows = [f"train/{c}/clean_0{i}.jpg,{c}" for c in "ab" for i in range(4)]
    put(local / "labels.csv", "\n".join(["path,label", *rows]).encode())
    with tf.io.TFRecordWriter(str(local / "x.tfrecord")) as writer:
        for label in (0, 1, 1):
            feature = {
                "image": tf.train.Feature(
                    bytes_list=tf.train.BytesList(value=[clean_jpeg(label, label)])
                ),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
            }
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())
    remote = "ram://bucket/pictures"
    for path in local.rglob("*"):
        if path.is_file():
            copy = f"{remote}/{path.relative_to(local)}"
            tf.io.gfile.makedirs(copy.rpartition("/")[0])
            with tf.io.gfile.GFile(copy, "wb") as file:
                file.write(path.read_bytes())
    return str(local), remote


@pytest.mark.parametrize("source", ["folder:{}", "csv:{}/labels.csv", "tfrecord:{}/*.tfrecord"])
def test_a_source_behind_a_scheme_gives_the_same_batches(both, source):
    batches = []
    for place in both:
        opened = open_source(DataConfig(source=source.format(place), validation_fraction=0), 0)
        train = opened.splits["train"]
        pixels, labels = next(iter(training_batches(train, SMALL, AugmentConfig(), 3, 0, 1)))
        batches.append((len(train), pixels.numpy(), labels.numpy()))
    assert batches[0][0] == batches[1][0]
    np.testing.assert_array_equal(batches[0][1], batches[1][1])
    np.testing.assert_array_equal(batches[0][2], batches[1][2])


def test_splits_and_names_are_the_same(both):
    local, remote = (open_source(DataConfig(source=f"folder:{place}"), 0) for place in both)
    assert {name: list(split.names) for name, split in remote.splits.items()} == {
        name: list(split.names) for name, split in local.splits.items()
    }
    assert set(remote.splits) == {"train", "validation"}


def test_faults_behind_a_scheme_are_named(both):
    remote = "ram://bucket/bad"
    for name, content in (("a/x.jpg", b""), ("b/y.jpg", clean_jpeg(0, 0))):
        tf.io.gfile.makedirs(f"{remote}/{name[0]}")
        with tf.io.gfile.GFile(f"{remote}/{name}", "wb") as file:
            file.write(content)
    with pytest.raises(DataError, match="ram://bucket/bad/a/x.jpg: "):
        open_source(DataConfig(source=f"folder:{remote}"), 0)
    with pytest.raises(DataError, match="ram://bucket/nowhere: no such folder"):
        open_source(DataConfig(source="folder:ram://bucket/nowhere"), 0)


@pytest.mark.parametrize(
    ("folder", "name", "path"),
    [
        ("gs://b/x/", "y", "gs://b/x/y"),
        ("gs://b/x", ".", "gs://b/x"),
        ("/a/b", "../c", "/a/c"),
        ("a", ".", "a"),
    ],
)
def test_paths_are_joined_and_taken_apart(folder, name, path):
    assert join_path(folder, name) == path
    if name == "y":
        assert relate_path(path, folder) == "y" and relate_path(folder, folder) == ""
