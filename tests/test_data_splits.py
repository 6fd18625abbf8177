"""Splits: a picture's side follows from its own name and the seed."""

import unicodedata

import numpy as np
import pytest

from keras_vit.data.splits import assign_splits, split_positions

MANY = [f"many/clean_{i:02}.jpg" for i in range(45)]
FEW = [f"few/clean_{i:02}.jpg" for i in range(5)]
VALIDATION = {"validation": 0.2}


def sides_of(names, seed=0, fractions=VALIDATION):
    labels = np.unique([name.split("/")[0] for name in names], return_inverse=True)[1]
    sides = assign_splits(split_positions(names, seed), labels, fractions)
    return dict(zip(names, sides, strict=True))


def count(sides, split, part=""):
    return sum(side == split and name.startswith(part) for name, side in sides.items())


@pytest.mark.parametrize("seed", range(20))
def test_numbered_pictures_are_split_in_exact_shares_of_each_class(seed):
    sides = sides_of(MANY + FEW, seed)
    assert (count(sides, "validation", "many"), count(sides, "validation", "few")) == (9, 1)
    assert count(sides, "train") == 40


@pytest.mark.parametrize("added", ["many/clean_45.jpg", "many/new.jpg", "few/a b.png", "c/1.jpg"])
def test_adding_a_picture_moves_no_other(added):
    before = sides_of(MANY + FEW)
    after = sides_of([*MANY, added, *FEW])
    assert {name: after[name] for name in before} == before
    assert len(after) == 51


def test_the_seed_decides_and_the_order_of_the_names_does_not():
    first = sides_of(MANY + FEW, seed=3)
    assert sides_of(FEW + MANY[::-1], seed=3) == first
    assert sides_of(MANY + FEW, seed=4) != first


def test_names_without_numbers_fall_everywhere():
    words = ["".join(chr(97 + d) for d in np.base_repr(i, 7).encode()) for i in range(2000)]
    positions = split_positions([f"a/{word}.jpg" for word in words], seed=0)
    shares = np.histogram(positions, 10, (0, 1))[0]
    assert shares.min() > 140 and shares.max() < 260


@pytest.mark.parametrize("step", [1, 2, 5, 10, 7919])
def test_any_regular_choice_of_numbers_fills_all_places(step):
    names = [f"a/frame_{i * step:06}.jpg" for i in range(1000)]
    shares = np.histogram(split_positions(names, seed=1), 10, (0, 1))[0]
    assert shares.sum() == 1000
    assert shares.min() > 60 and shares.max() < 140


def test_neighbours_are_spread_but_not_in_a_pattern():
    chosen = np.flatnonzero(split_positions([f"a/{i}.jpg" for i in range(5000)], 0) < 0.2)
    np.testing.assert_array_equal(chosen // 5, np.arange(1000))  # one in each run of five
    shares = np.bincount(chosen % 5)
    assert shares.min() > 150 and shares.max() < 250


def test_extension_and_encoding_of_accents_do_not_count():
    composed = unicodedata.normalize("NFC", "\u00e9t\u00e9/\u00fc1.jpg")
    spellings = [composed, composed.replace(".jpg", ".png"), unicodedata.normalize("NFD", composed)]
    assert len(set(split_positions(spellings, 0))) == 1
    assert len(set(split_positions(["a/1.jpg", "b/1.jpg", "a/.1", "a/1_b"], 0))) == 4


def test_a_name_that_is_no_text_has_a_place_too():
    assert 0 <= split_positions(["a/\udcff.jpg"], 0)[0] < 1


@pytest.mark.parametrize("seed", range(10))
def test_a_class_of_two_has_one_on_each_side_and_a_class_of_one_trains(seed):
    sides = sides_of(["one/x.jpg", "two/x.jpg", "two/y.jpg"], seed, {"validation": 0.05})
    assert sides["one/x.jpg"] == "train"
    assert sorted(sides[name] for name in ("two/x.jpg", "two/y.jpg")) == ["train", "validation"]
    many_held_back = sides_of(["two/x.jpg", "two/y.jpg"], seed, {"validation": 0.9})
    assert sorted(many_held_back.values()) == ["train", "validation"]


@pytest.mark.parametrize("seed", range(10))
def test_a_class_of_three_has_one_in_each_of_three_splits(seed):
    names = [f"a/{word}.jpg" for word in ("x", "y", "z")]
    sides = sides_of(names, seed, {"test": 0.1, "validation": 0.1})
    assert sorted(sides.values()) == ["test", "train", "validation"]


def test_test_and_validation_are_disjoint_and_test_does_not_depend_on_validation():
    both = sides_of(MANY, fractions={"test": 0.2, "validation": 0.2})
    alone = sides_of(MANY, fractions={"test": 0.2})
    tested = {name for name, side in both.items() if side == "test"}
    assert tested == {name for name, side in alone.items() if side == "test"}
    assert [count(both, split) for split in ("train", "validation", "test")] == [27, 9, 9]
