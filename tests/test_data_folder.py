"""Folders: what is a class, what is a picture, what is left out, and what is refused in words."""

import os
from pathlib import Path

import numpy as np
import pytest
from odd_trees import TREES, clean, make_tree, put
from picture_bytes import clean_jpeg

from keras_vit.data import DataConfig, DataError, open_source


@pytest.fixture(autouse=True, scope="module")
def own_cache_folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def open_folder(path, seed=0, **settings):
    return open_source(DataConfig(source=f"folder:{path}", **settings), seed)


def refusal(path, **settings):
    with pytest.raises(DataError) as caught:
        open_folder(path, **settings)
    return str(caught.value)


def total(source):
    return sum(len(split) for split in source.splits.values())


READ = [name for name, (_, expect, _, _) in TREES.items() if expect == "read"]


@pytest.mark.parametrize("kind", READ)
def test_every_readable_layout_gives_its_classes_and_pictures(kind, tmp_path):
    tree = make_tree(tmp_path, kind)
    source = open_folder(tree.path, validation_fraction=0.2)
    assert source.class_names == tree.classes
    assert total(source) == tree.images
    for split in source.splits.values():
        folders = [
            [part for part in Path(name).parts if part in tree.classes] for name in split.names
        ]
        assert [source.class_names[label] for label in split.labels] == [f[0] for f in folders]


def test_files_of_systems_are_passed_over_and_others_counted_by_extension(tmp_path):
    source = open_folder(make_tree(tmp_path, "hidden_files").path)
    assert [note for note in source.notes if "left out" in note] == [
        "left out 4 files whose names are not a picture's: 1 .csv, 1 .json, 2 .txt"
    ]


def test_unlisted_extensions_are_mentioned_with_their_count(tmp_path):
    clean(tmp_path)
    for number in range(3):
        put(tmp_path / f"a/{number}.heic", b"?")
    source = open_folder(tmp_path)
    assert total(source) == 8
    assert "left out 3 files whose names are not a picture's: 3 .heic" in source.notes


def test_a_picture_without_extension_is_read_and_another_file_is_not(tmp_path):
    clean(tmp_path)
    put(tmp_path / "b/noextension", clean_jpeg(1, 9))
    put(tmp_path / "b/Makefile", b"all:\n")
    source = open_folder(tmp_path)
    assert total(source) == 9
    note = "left out 1 file whose name is not a picture's: 1 without an extension"
    assert note in source.notes


def test_a_picture_beside_the_class_folders_is_mentioned(tmp_path):
    tree = make_tree(tmp_path, "stray_root_image")
    source = open_folder(tree.path)
    assert any("stray.jpg" in note and "no class" in note for note in source.notes)


def test_three_bad_files_are_named_in_one_go(tmp_path):
    tree = make_tree(tmp_path, "three_bad")
    lines = refusal(tree.path).splitlines()
    for name in ("a/empty.jpg", "b/text.jpg"):
        assert sum(str(tree.path / name) in line for line in lines) == 1


def test_skip_bad_trains_without_them_and_says_which_and_how_many(tmp_path):
    tree = make_tree(tmp_path, "three_bad")
    source = open_folder(tree.path, skip_bad=True)
    assert total(source) == 8
    assert any("3 pictures that cannot be read" in note for note in source.notes)
    for name in ("empty.jpg", "cut.jpg", "text.jpg"):
        assert any(name in note for note in source.notes)


@pytest.mark.parametrize("skip_bad", [False, True])
def test_a_class_of_bad_files_only_is_named_with_its_files(skip_bad, tmp_path):
    tree = make_tree(tmp_path, "class_all_bad")
    message = refusal(tree.path, skip_bad=skip_bad)
    assert "class c: none of its 2 pictures can be read" in message
    assert "x.jpg" in message and "y.jpg" in message


def test_a_dangling_link_is_named_and_a_good_one_is_a_picture(tmp_path):
    tree = make_tree(tmp_path, "links")
    assert "dangling.jpg" in refusal(tree.path)
    source = open_folder(tree.path, skip_bad=True)
    assert total(source) == 9
    assert any("dangling.jpg" in note for note in source.notes)


def test_a_circle_of_links_ends(tmp_path):
    clean(tmp_path)
    os.symlink(tmp_path / "a", tmp_path / "a/again")
    assert total(open_folder(tmp_path)) == 8


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("one_class", ["only", "at least two"]),
        ("empty_class", ["c_empty", "holds no picture", ".jpg"]),
        ("no_images", ["no picture found", "looked in a, b", ".webp", "1 .txt"]),
        ("empty_folder", ["no picture found", "class folders (there are none)"]),
        ("flat", ["4 pictures", "no class folders", "CLASS"]),
    ],
)
def test_an_unusable_layout_is_refused_in_one_line_with_the_path(kind, parts, tmp_path):
    tree = make_tree(tmp_path, kind)
    message = refusal(tree.path)
    assert str(tree.path) in message
    assert "\n" not in message
    for part in parts:
        assert part in message


def test_a_missing_path_and_a_file_are_refused_by_name(tmp_path):
    put(tmp_path / "file.jpg", b"")
    assert f"{tmp_path}/nowhere: no such folder" in refusal(tmp_path / "nowhere")
    assert f"{tmp_path}/file.jpg: a file" in refusal(tmp_path / "file.jpg")


@pytest.mark.parametrize("validation", ["val", "validation", "valid", "Val"])
def test_split_folders_are_splits_whatever_the_spelling(validation, tmp_path):
    clean(tmp_path / "train")
    clean(tmp_path / validation, each=2)
    clean(tmp_path / "test", each=1)
    source = open_folder(tmp_path)
    assert {name: len(split) for name, split in source.splits.items()} == {
        "train": 8,
        "validation": 4,
        "test": 2,
    }


def test_a_test_folder_alone_leaves_validation_to_be_held_back(tmp_path):
    clean(tmp_path / "train", each=10)
    clean(tmp_path / "test", each=1)
    source = open_folder(tmp_path)
    assert {name: len(split) for name, split in source.splits.items()} == {
        "train": 18,
        "validation": 2,
        "test": 2,
    }


def test_classes_called_like_splits_stay_classes(tmp_path):
    clean(tmp_path, ["bus", "train", "car"])
    assert open_folder(tmp_path).class_names == ("bus", "car", "train")


def test_a_folder_beside_the_splits_is_left_out_by_name(tmp_path):
    clean(tmp_path / "train")
    clean(tmp_path / "val")
    put(tmp_path / "annotations/x.xml", b"")
    source = open_folder(tmp_path)
    assert source.class_names == ("a", "b")
    assert any("annotations" in note for note in source.notes)


def test_splits_without_train_are_refused(tmp_path):
    clean(tmp_path / "val")
    clean(tmp_path / "test")
    assert "test, val" in refusal(tmp_path) and "none called train" in refusal(tmp_path)


def test_splits_may_lie_anywhere(tmp_path):
    clean(tmp_path / "mine/pictures")
    clean(tmp_path / "other", each=2)
    source = open_folder(tmp_path / "mine/pictures", validation="../../other")
    assert {name: len(split) for name, split in source.splits.items()} == {
        "train": 8,
        "validation": 4,
    }
    assert "missing" in refusal(tmp_path / "mine/pictures", test="missing")


@pytest.mark.parametrize("how", ["root", "given"])
def test_a_class_missing_from_validation_keeps_the_label_numbers(how, tmp_path):
    tree = make_tree(tmp_path, "val_mismatch")
    if how == "root":
        source = open_folder(tree.path)
    else:
        source = open_folder(tree.path / "train", validation="../val")
    assert source.class_names == ("a", "b", "c")
    assert np.bincount(source.splits["validation"].labels).tolist() == [4, 0, 4]
    assert "validation has no picture of class b" in source.notes


def test_a_class_that_only_validation_has_is_refused(tmp_path):
    clean(tmp_path / "train")
    clean(tmp_path / "val", ["a", "zebra"])
    assert "zebra" in refusal(tmp_path) and "train has a, b" in refusal(tmp_path)


def test_an_empty_split_is_named(tmp_path):
    clean(tmp_path / "train")
    (tmp_path / "val/a").mkdir(parents=True)
    assert f"{tmp_path}/val: no picture found for the validation split" in refusal(tmp_path)


def test_a_split_holds_back_its_share_of_each_class_and_says_so(tmp_path):
    tree = make_tree(tmp_path, "imbalanced")
    source = open_folder(tree.path, validation_fraction=0.2)
    assert np.bincount(source.splits["validation"].labels).tolist() == [1, 9]
    assert np.bincount(source.splits["train"].labels).tolist() == [4, 36]
    assert any("10 of 50 pictures held back" in note for note in source.notes)
    assert not set(source.splits["train"].names) & set(source.splits["validation"].names)


def test_adding_a_file_moves_no_other(tmp_path):
    tree = make_tree(tmp_path, "imbalanced")
    before = open_folder(tree.path, validation_fraction=0.2)
    put(tree.path / "few/added.jpg", clean_jpeg(0, 77))
    after = open_folder(tree.path, validation_fraction=0.2)
    assert total(after) == 51
    for split in before.splits:
        assert set(before.splits[split].names) <= set(after.splits[split].names)


def test_one_picture_a_class_leaves_nothing_to_validate_with_and_says_so(tmp_path):
    source = open_folder(make_tree(tmp_path, "tiny").path)
    assert set(source.splits) == {"train"}
    assert "no validation split: no class of a, b has a picture to spare" in source.notes


def test_classes_that_differ_by_case_only_are_pointed_out(tmp_path):
    if (tmp_path / "A").mkdir() or (tmp_path / "a").exists():
        pytest.skip("this file system does not tell upper from lower case")
    (tmp_path / "A").rmdir()
    source = open_folder(make_tree(tmp_path, "case_differs").path)
    assert any("Cat, cat" in note for note in source.notes)


def test_numbers_sort_as_text(tmp_path):
    source = open_folder(make_tree(tmp_path, "numeric_classes").path)
    assert source.class_names[:4] == ("0", "1", "10", "11")


def test_names_outside_ascii_are_kept_byte_for_byte(tmp_path):
    tree = make_tree(tmp_path, "unicode_classes")
    source = open_folder(tree.path)
    assert sorted(os.listdir(tree.path)) == list(source.class_names)
