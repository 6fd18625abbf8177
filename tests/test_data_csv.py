"""CSV files: a picture and its label, or labels, in each row."""

import numpy as np
import pytest
import tensorflow as tf
from odd_trees import clean, put

from keras_vit.augment import AugmentConfig
from keras_vit.data import (
    DataConfig,
    DataError,
    evaluation_batches,
    open_source,
    training_batches,
)
from keras_vit.images import Preprocessing

SMALL = Preprocessing(image_size=4)


@pytest.fixture(autouse=True, scope="module")
def own_cache_folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def write(tmp_path):
    """Write pictures a/clean_00.jpg ... b/clean_05.jpg and a CSV file beside them."""
    clean(tmp_path, each=6)

    def write_rows(*rows, header="path,label"):
        file = tmp_path / "labels.csv"
        file.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
        return file

    return write_rows


def all_rows(ending=""):
    return [f"{c}/clean_{i:02}.jpg,{c.upper()}{ending}" for c in "ab" for i in range(6)]


def open_csv(file, **settings):
    return open_source(DataConfig(source=f"csv:{file}", **settings), 0)


def refusal(file, **settings):
    with pytest.raises(DataError) as caught:
        open_csv(file, **settings)
    return str(caught.value)


def test_pictures_are_found_beside_the_file_and_split_by_class(write):
    source = open_csv(write(*all_rows()), validation_fraction=0.2)
    assert source.class_names == ("A", "B") and not source.multi_label
    assert sum(len(split) for split in source.splits.values()) == 12
    for split in source.splits.values():
        classes = [source.class_names[label] for label in split.labels]
        assert classes == [name[0].upper() for name in split.names]


def test_a_split_column_is_followed(write):
    rows = [
        f"{row},{split}"
        for row, split in zip(all_rows(), ["train", "val", "", "Test"] * 3, strict=True)
    ]
    source = open_csv(write(*rows, header="path,label,split"))
    sizes = {name: len(split) for name, split in source.splits.items()}
    assert sizes == {"train": 6, "validation": 3, "test": 3}


def test_labels_joined_by_a_bar_make_a_matrix(write):
    rows = ["a/clean_00.jpg,cat|dog", "a/clean_01.jpg,dog", "b/clean_00.jpg,", "b/clean_01.jpg,owl"]
    source = open_csv(write(*rows), validation_fraction=0)
    assert source.multi_label and source.class_names == ("cat", "dog", "owl")
    labels = source.splits["train"].labels
    assert labels.dtype == np.float32
    assert labels.tolist() == [[1, 1, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1]]
    batches = training_batches(source.splits["train"], SMALL, AugmentConfig(), 2, 0, 2)
    assert batches.element_spec[1] == tf.TensorSpec((2, 3), tf.float32)
    assert next(iter(evaluation_batches(source.splits["train"], SMALL, 4)))[1].shape == (4, 3)


def test_a_multi_label_set_is_split_too(write):
    rows = [f"{row}{'|both' if i % 2 else ''}" for i, row in enumerate(all_rows())]
    source = open_csv(write(*rows), validation_fraction=0.3)
    assert sum(len(split) for split in source.splits.values()) == 12
    assert len(source.splits["validation"]) >= 1


def test_names_with_commas_and_accents_are_read_with_a_byte_order_mark(tmp_path):
    clean(tmp_path, ["\u00e9t\u00e9, hot", "b"], each=2)
    rows = [f'"\u00e9t\u00e9, hot/clean_0{i}.jpg","\u00e9t\u00e9, hot"' for i in range(2)]
    rows += [f"b/clean_0{i}.jpg,b" for i in range(2)]
    file = tmp_path / "labels.csv"
    file.write_text("\n".join(["path,label", *rows]), encoding="utf-8-sig")
    assert open_csv(file).class_names == ("b", "\u00e9t\u00e9, hot")


def test_a_group_stays_on_one_side(write):
    rows = [f"{row},patient {i // 3}" for i, row in enumerate(all_rows())]
    file = write(*rows, header="path,label,patient")
    for seed in range(10):
        config = DataConfig(source=f"csv:{file}", group="patient", validation_fraction=0.4)
        source = open_source(config, seed)
        sides = {name: set(split.groups) for name, split in source.splits.items()}
        assert not sides["train"] & sides.get("validation", set())
        assert set(source.splits["train"].labels) == {0, 1}  # train has every class


@pytest.mark.parametrize(
    ("rows", "header", "parts"),
    [
        ([], "path,label", ["has no rows"]),
        (["a/clean_00.jpg,A"], "file,label", ["no column path", "file,label"]),
        (["a/clean_00.jpg,A"], "path,label", ["1 class only, A", "at least two"]),
        (["a/clean_00.jpg,A", "b/clean_00.jpg,"], "path,label", ["line 3", "label is empty"]),
        (["a/clean_00.jpg,A,x", "b/clean_00.jpg,B"], "path,label", ["line 2", "number of fields"]),
        ([",A", "b/clean_00.jpg,B"], "path,label", ["line 2", "path is empty"]),
        (["a/clean_00.jpg,A,dev"], "path,label,split", ["line 2", "validation", "'dev'"]),
        (["a/clean_00.jpg,A,test", "b/clean_00.jpg,B,test"], "path,label,split", ["split train"]),
        (["a/clean_00.jpg,A", "./a/clean_00.jpg,B"], "path,label", ["2 and 3", "labels: A, B"]),
        (
            ["a/clean_00.jpg,A,train", "a/clean_00.jpg,A,val", "b/clean_00.jpg,B,train"],
            "path,label,split",
            ["2 and 3", "more than one split: train, validation"],
        ),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(write, rows, header, parts):
    file = write(*rows, header=header)
    message = refusal(file)
    assert str(file) in message
    for part in parts:
        assert part in message


def test_all_faults_are_named_in_one_go(write, tmp_path):
    put(tmp_path / "bad.jpg", b"no picture")
    lines = refusal(write(*all_rows(), "bad.jpg,A", "missing.jpg,B")).splitlines()
    assert len(lines) == 2
    assert "line 14" in lines[0] and "bad.jpg" in lines[0]
    assert "line 15" in lines[1] and "missing.jpg" in lines[1]


def test_bad_pictures_can_be_skipped_but_not_whole_classes(write, tmp_path):
    put(tmp_path / "bad.jpg", b"no picture")
    source = open_csv(write(*all_rows(), "bad.jpg,A"), skip_bad=True)
    assert sum(len(split) for split in source.splits.values()) == 12
    assert any("left out 1 picture that cannot be read" in note for note in source.notes)
    message = refusal(write(*all_rows(), "bad.jpg,C"), skip_bad=True)
    assert "class C: none of its pictures can be read" in message


def test_a_missing_file_and_one_in_another_encoding_are_refused(tmp_path):
    assert f"{tmp_path}/no.csv: no such file" in refusal(tmp_path / "no.csv")
    put(tmp_path / "latin.csv", "path,label\n\u00e9,a\n".encode("latin-1"))
    assert "is not a CSV file in UTF-8" in refusal(tmp_path / "latin.csv")
    put(tmp_path / "plain.csv", b"path,label\nx.jpg,a\n")
    assert "no column patient" in refusal(tmp_path / "plain.csv", group="patient")
