"""Sources: the settings, digits, and TensorFlow Datasets with local builders."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from pydantic import ValidationError
from sklearn.datasets import load_digits

from keras_vit.data import DataConfig, DataError, evaluation_batches, open_source
from keras_vit.images import Preprocessing


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({"source": "imagenet"}, ["source", "folder:PATH", "'imagenet'"]),
        ({"source": "folder:"}, ["source", "'folder:'"]),
        ({"source": "digits:x"}, ["source", "'digits:x'"]),
        ({"validation_fraction": 1.0}, ["validation_fraction", "1.0"]),
        ({"validation_fraction": 0.5, "test_fraction": 0.6}, ["0.5", "0.6", "1.1"]),
        ({"crop_fraction": 0.0}, ["crop_fraction", "0.0"]),
        ({"resize": "stretch"}, ["resize", "stretch"]),
        ({"sorce": "digits"}, ["sorce"]),
    ],
)
def test_impossible_settings_are_refused_by_name_and_value(settings, parts):
    with pytest.raises(ValidationError) as caught:
        DataConfig(**settings)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({"group": "patient"}, ["group = 'patient'", "folder or csv", "digits"]),
        ({"train": "train[:9]"}, ["train = 'train[:9]'", "tfds", "digits"]),
        ({"source": "folder:x", "data_dir": "y"}, ["data_dir = 'y'", "tfds", "folder"]),
        ({"source": "tfds:x", "skip_bad": True}, ["skip_bad = True", "tfrecord", "tfds"]),
        ({"source": "csv:x", "class_names": ("a",)}, ["class_names", "tfrecord", "csv"]),
        ({"source": "folder:x", "label_key": "y"}, ["label_key = 'y'", "tfds or tfrecord"]),
    ],
)
def test_settings_that_mean_nothing_to_a_source_are_refused(settings, parts):
    with pytest.raises(DataError) as caught:
        open_source(DataConfig(**settings), 0)
    for part in parts:
        assert part in str(caught.value)


def numbers_of(split):
    """Return the places in scikit-learn's order: "3/17" is its 17th three."""
    target = load_digits().target
    pairs = [name.split("/") for name in split.names]
    return [np.flatnonzero(target == int(label))[int(place)] for label, place in pairs]


def test_digits_has_three_fixed_splits_that_hold_every_digit_once():
    first, second = (open_source(DataConfig(), seed) for seed in (0, 1))
    sizes = {name: len(split) for name, split in first.splits.items()}
    assert sizes == {"train": 1257, "validation": 180, "test": 360}
    names = [name for split in first.splits.values() for name in split.names]
    assert len(set(names)) == 1797
    digits = load_digits()
    for name, split in first.splits.items():
        np.testing.assert_array_equal(split.labels, digits.target[numbers_of(split)])
        assert list(second.splits[name].names) == list(split.names)
        shares = np.bincount(split.labels) / np.bincount(digits.target)
        np.testing.assert_allclose(shares, len(split) / 1797, atol=0.012)
    assert first.class_names == tuple("0123456789")
    assert first.num_channels == 1


def test_digits_are_scaled_to_the_whole_range():
    split = open_source(DataConfig(), 0).splits["test"]
    batches = evaluation_batches(split, Preprocessing(image_size=(8, 8), num_channels=1), 500)
    pixels, labels = next(iter(batches))
    truth = np.rint(load_digits().images[numbers_of(split)] * 255 / 16)
    np.testing.assert_allclose(pixels[..., 0], truth, atol=1e-3)
    np.testing.assert_array_equal(labels, split.labels)
    assert float(tf.reduce_max(pixels)) == pytest.approx(255)


class Shapes(tfds.core.GeneratorBasedBuilder):
    """Ten coloured pictures, each of its own size."""

    VERSION = tfds.core.Version("1.0.0")
    SHAPE, KEYS, SUPERVISED, SPLITS = (None, None, 3), ("image", "label"), True, {"train": 10}

    def _info(self):
        features = {
            self.KEYS[0]: tfds.features.Image(shape=self.SHAPE),
            self.KEYS[1]: tfds.features.ClassLabel(names=["cat", "dog", "owl"]),
            "id": tfds.features.Text(),
        }
        keys = self.KEYS if self.SUPERVISED else None
        features = tfds.features.FeaturesDict(features)
        return tfds.core.DatasetInfo(builder=self, features=features, supervised_keys=keys)

    def _split_generators(self, manager):
        return {name: self._generate(count) for name, count in self.SPLITS.items()}

    def _generate(self, count):
        for i in range(count):
            height, width, channels = (4 + i, 5, 3) if self.SHAPE[0] is None else self.SHAPE
            picture = np.full((height, width, channels), 10 * i, np.uint8)
            yield i, {self.KEYS[0]: picture, self.KEYS[1]: i % 3, "id": f"number {i}"}

    def _generate_examples(self):
        raise NotImplementedError


class OtherKeys(Shapes):
    """The same under other names, and without supervised keys."""

    KEYS, SUPERVISED = ("picture", "kind"), False


class GreyShapes(Shapes):
    """Pictures of one channel and one size."""

    SHAPE, SPLITS = (6, 6, 1), {"train": 20, "test": 4}


class EmptyValidation(Shapes):
    """A validation split that is emptied once it is written."""

    SPLITS = {"train": 10, "validation": 1}


class Broken(Shapes):
    """A builder that cannot be prepared."""

    def _generate(self, count):
        raise OSError("the disk says no")


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return str(tmp_path_factory.mktemp("tfds"))


def open_tfds(name, data_dir, **settings):
    return open_source(DataConfig(source=f"tfds:{name}", data_dir=data_dir, **settings), 0)


def read_all(split, num_channels=3):
    """Return {mean value: label} of every picture of a split."""
    preprocessing = Preprocessing(image_size=(4, 4), num_channels=num_channels)
    found = {}
    for pixels, labels in evaluation_batches(split, preprocessing, 3):
        means = np.rint(pixels.numpy().mean(axis=(1, 2, 3))).astype(int)
        found |= dict(zip(means.tolist(), labels.numpy().tolist(), strict=True))
    return found


def test_pictures_of_unlike_sizes_are_read_with_the_builders_class_names(data_dir):
    source = open_tfds("shapes", data_dir, validation_fraction=0)
    assert source.class_names == ("cat", "dog", "owl")
    assert read_all(source.splits["train"]) == {10 * i: i % 3 for i in range(10)}


def test_a_grey_set_of_one_size_is_read_with_one_channel(data_dir):
    source = open_tfds("grey_shapes", data_dir, validation_fraction=0.2)
    assert source.num_channels == 1
    sizes = {name: len(split) for name, split in source.splits.items()}
    assert sizes["test"] == 4 and sizes["train"] + sizes["validation"] == 20
    assert set(source.splits["validation"].labels) == {0, 1, 2}
    together = {}
    for name in ("train", "validation"):
        together |= read_all(source.splits[name], num_channels=1)
    assert together == {10 * i: i % 3 for i in range(20)}


def test_slices_are_taken_and_given_as_splits(data_dir):
    source = open_tfds(
        "grey_shapes", data_dir, train="train[:10]", validation="train[10:15]", test="train[75%:]"
    )
    sizes = {name: len(split) for name, split in source.splits.items()}
    assert sizes == {"train": 10, "validation": 5, "test": 5}
    read = [set(read_all(split, 1)) for split in source.splits.values()]
    assert len(set.union(*read)) == 20


def test_other_keys_work_when_they_are_given_and_are_listed_when_not(data_dir):
    with pytest.raises(DataError) as caught:
        open_tfds("other_keys", data_dir)
    for part in ("image_key", "picture (Image)", "kind (ClassLabel)", "id (Text)"):
        assert part in str(caught.value)
    source = open_tfds("other_keys", data_dir, image_key="picture", label_key="kind")
    assert sum(len(split) for split in source.splits.values()) == 10


def test_a_key_of_the_wrong_type_is_refused(data_dir):
    with pytest.raises(DataError, match=r"label_key = 'id' must name .*ClassLabel.*Text"):
        open_tfds("shapes", data_dir, label_key="id")


def test_an_empty_split_is_named(data_dir):
    tfds.builder("empty_validation", data_dir=data_dir).download_and_prepare()
    info = next(Path(data_dir).glob("empty_validation/*/dataset_info.json"))
    splits = json.loads(info.read_text())
    for split in splits["splits"]:
        if split["name"] == "validation":
            split["shardLengths"] = ["0"]
    info.write_text(json.dumps(splits))
    source = open_tfds("empty_validation", data_dir)
    assert any("'validation'" in note and "empty" in note for note in source.notes)
    assert len(source.splits["validation"]) + len(source.splits["train"]) == 10
    with pytest.raises(DataError, match=r"'validation' for validation is empty.*train \(10\)"):
        open_tfds("empty_validation", data_dir, validation="validation")


@pytest.mark.parametrize("asked", ["trian", "train[:5", "train[5:]+tset"])
def test_an_unknown_split_is_refused_with_those_there_are(asked, data_dir):
    with pytest.raises(DataError) as caught:
        open_tfds("grey_shapes", data_dir, train=asked)
    for part in (f"data.train = {asked!r}", "train (20)", "test (4)"):
        assert part in str(caught.value)


def test_a_builder_that_fails_is_refused_in_one_line(data_dir):
    with pytest.raises(DataError, match="tfds:broken: .*the disk says no"):
        open_tfds("broken", data_dir)
    with pytest.raises(DataError) as caught:
        open_tfds("no_such_set_anywhere", data_dir)
    assert "no_such_set_anywhere" in str(caught.value)
    assert "\n" not in str(caught.value)
