"""Every odd picture on the way that training reads it: right pixels, or its name before a step."""

import shutil

import numpy as np
import pytest
import tensorflow as tf
from odd_trees import clean

from keras_vit.data import DataConfig, DataError, check_source, evaluation_batches, open_source
from keras_vit.data.memory import hold_pictures
from keras_vit.images import Preprocessing, read_image


@pytest.fixture(autouse=True, scope="module")
def own_cache_folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def folder(odd_pictures, tmp_path_factory):
    """Put all odd pictures beside good ones."""
    root = tmp_path_factory.mktemp("odd")
    clean(root)
    for odd in odd_pictures:
        shutil.copy(odd.path, root / "b" / odd.path.name)
    return root


def open_folder(folder, **settings):
    return open_source(DataConfig(source=f"folder:{folder}", validation_fraction=0, **settings), 0)


def test_all_bad_pictures_are_named_in_one_go_and_no_good_one(folder, odd_pictures):
    with pytest.raises(DataError) as caught:
        open_folder(folder)
    lines = str(caught.value).splitlines()
    bad = [odd for odd in odd_pictures if odd.expect == "refuse"]
    assert len(lines) == len(bad) > 5
    for odd in bad:
        assert any(line.startswith(f"{folder}/b/{odd.path.name}: ") for line in lines), odd.name


def test_all_others_are_read_as_displayed(folder, odd_pictures):
    split = open_folder(folder, skip_bad=True).splits["train"]
    good = {f"b/{odd.path.name}": odd for odd in odd_pictures if odd.expect != "refuse"}
    assert len(split) == 8 + len(good)
    stored = hold_pictures(split, "decoded")
    seen = set()
    for name, picture in zip(split.names, stored.pictures, strict=True):
        if name in good:
            assert good[name].faults(tf.io.parse_tensor(picture, tf.uint8).numpy()) == []
            seen.add(name)
    assert seen == set(good)


def test_they_go_through_batches_in_their_order_and_with_their_labels(folder, odd_pictures):
    split = open_folder(folder, skip_bad=True).splits["train"]
    tiny = Preprocessing(image_size=2)
    batches = [(x.numpy(), y.numpy()) for x, y in evaluation_batches(split, tiny, 7)]
    labels = np.concatenate([y for _, y in batches])
    np.testing.assert_array_equal(labels, [int(name.startswith("b/")) for name in split.names])
    pixels = np.concatenate([x for x, _ in batches])
    place = list(split.names).index("a/clean_00.jpg")
    truth = read_image(folder / "a/clean_00.jpg").mean(axis=(0, 1))
    np.testing.assert_allclose(pixels[place].mean(axis=(0, 1)), truth, atol=2)


def test_the_check_finds_the_same_bad_ones(folder, odd_pictures):
    report = check_source(DataConfig(source=f"folder:{folder}"))
    assert len(report.unreadable) == sum(odd.expect == "refuse" for odd in odd_pictures)
    assert report.num_images == 8 + sum(odd.expect != "refuse" for odd in odd_pictures)
