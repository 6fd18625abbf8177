"""What is kept: marks of readable files, and pictures in memory."""

import os
from pathlib import Path

import numpy as np
import pytest
from odd_trees import clean, put

from keras_vit import images
from keras_vit.augment import AugmentConfig
from keras_vit.data import (
    DataConfig,
    DataError,
    describe_cache,
    evaluation_batches,
    open_source,
    training_batches,
)
from keras_vit.data.file_check import FileCheck, check_files
from keras_vit.images import Preprocessing

SMALL = Preprocessing(image_size=(6, 8))
CROPS = AugmentConfig(random_resized_crop=(0.3, 1.0), horizontal_flip=True)


@pytest.fixture(autouse=True)
def cache_folder(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


@pytest.fixture
def folder(tmp_path):
    clean(tmp_path / "set")
    return tmp_path / "set"


@pytest.fixture
def checked(monkeypatch):
    """Collect the paths that are decoded by the check."""
    paths = []

    def check_and_note(path, check=images.check_file):
        paths.append(os.path.basename(path))
        return check(path)

    monkeypatch.setattr(images, "check_file", check_and_note)
    return paths


def open_folder(folder, **settings):
    return open_source(DataConfig(source=f"folder:{folder}", **settings), 0)


def test_a_folder_is_decoded_only_the_first_time(folder, checked):
    open_folder(folder)
    assert len(checked) == 8
    open_folder(folder)
    assert len(checked) == 8
    put(folder / "a/new.jpg", (folder / "a/clean_00.jpg").read_bytes())
    open_folder(folder)
    assert checked[8:] == ["new.jpg"]


def test_a_changed_file_is_checked_again(folder, checked):
    open_folder(folder)
    file = folder / "a/clean_01.jpg"
    content, status = file.read_bytes(), file.stat()
    file.write_bytes(content[:-300] + bytes(300))  # the same size
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    with pytest.raises(DataError, match="clean_01.jpg"):
        open_folder(folder)
    assert checked[8:] == ["clean_01.jpg"]


def test_a_bad_file_is_named_each_time(folder):
    put(folder / "a/bad.jpg", b"")
    for _ in range(2):
        with pytest.raises(DataError, match="bad.jpg"):
            open_folder(folder)


def test_progress_is_told_of_what_is_new(folder):
    told = []
    open_source(DataConfig(source=f"folder:{folder}"), 0, lambda *counts: told.append(counts))
    assert told == [(8, 8)]
    open_source(DataConfig(source=f"folder:{folder}"), 0, lambda *counts: told.append(counts))
    assert told == [(8, 8)]


def refuse(*_):
    raise PermissionError("read-only")


@pytest.mark.parametrize("place", ["a file", "read-only", "no home"])
def test_without_a_cache_folder_everything_still_works(place, folder, cache_folder, monkeypatch):
    if place == "a file":
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "a/clean_00.jpg"))
    elif place == "read-only":
        monkeypatch.setattr(os, "replace", refuse)
    else:
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setenv("HOME", "/nonexistent")
    assert len(open_folder(folder).splits["train"]) > 0
    left = [path for path in cache_folder.rglob("*") if path.is_file()]
    assert left == []


def test_a_damaged_cache_file_only_means_checking_again(folder, cache_folder, checked):
    open_folder(folder)
    (file,) = (path for path in cache_folder.rglob("*") if path.is_file())
    file.write_bytes(file.read_bytes()[:-3])
    open_folder(folder)
    assert len(checked) == 9  # one mark was cut off


def test_faults_come_in_the_order_of_the_files(tmp_path):
    for number in range(30):
        put(tmp_path / f"{number:02}.jpg", b"" if number % 3 else b"text")
    paths = [str(path) for path in sorted(Path(tmp_path).iterdir())]
    assert list(check_files(paths, FileCheck())) == list(range(30))


def draw(folder, cache, augment=CROPS):
    split = open_folder(folder, cache=cache, validation_fraction=0).splits["train"]
    return [x.numpy() for x, _ in training_batches(split, SMALL, augment, 4, 0, 2).take(3)]


@pytest.mark.parametrize("augment", [CROPS, AugmentConfig(horizontal_flip=True)])
@pytest.mark.parametrize("cache", ["auto", "bytes", "decoded"])
def test_what_is_kept_changes_no_bit(folder, cache, augment):
    np.testing.assert_array_equal(draw(folder, cache, augment), draw(folder, "none", augment))


@pytest.mark.parametrize(
    ("cache", "crops", "words"),
    [
        ("auto", False, "at the model's size, at most 0 MB"),
        ("auto", True, "read anew each epoch"),
        ("decoded", False, "at the model's size"),
        ("decoded", True, "kept in memory decoded"),
        ("bytes", False, "as they are in their files"),
        ("none", False, "read anew each epoch"),
    ],
)
def test_the_choice_is_said(folder, cache, crops, words):
    split = open_folder(folder, cache=cache, validation_fraction=0).splits["train"]
    line = describe_cache(split, SMALL, crops)
    assert words in line
    assert "train: 8 pictures" in line and f"data.cache = {cache}" in line


def test_auto_keeps_only_what_is_small(folder):
    split = open_folder(folder, validation_fraction=0).splits["train"]
    assert "read anew" in describe_cache(split, Preprocessing(image_size=10_000), False)


@pytest.mark.parametrize(
    ("cache", "crops"), [("decoded", False), ("decoded", True), ("bytes", True)]
)
def test_a_cache_that_does_not_fit_is_refused_with_the_numbers(folder, cache, crops, monkeypatch):
    monkeypatch.setattr("keras_vit.data.memory._free_bytes", lambda: 1000)
    split = open_folder(folder, cache=cache, validation_fraction=0).splits["train"]
    augment = CROPS if crops else AugmentConfig()
    with pytest.raises(DataError, match=rf"data.cache = '{cache}' needs .* MB .*'auto'"):
        training_batches(split, SMALL, augment, 4, 0, 2)


def test_evaluation_is_the_same_from_memory_and_from_files(folder):
    results = []
    for cache in ("none", "decoded"):
        split = open_folder(folder, cache=cache, validation_fraction=0).splits["train"]
        results.append(next(iter(evaluation_batches(split, SMALL, 8)))[0].numpy())
    np.testing.assert_array_equal(*results)
