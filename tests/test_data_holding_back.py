"""Folds and groups: disjoint, covering, and never straddling."""

import numpy as np
import pytest
from odd_trees import clean
from pydantic import ValidationError

from keras_vit.data import DataConfig, DataError, open_source


@pytest.fixture(autouse=True, scope="module")
def own_cache_folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def patients(tmp_path_factory):
    folder = tmp_path_factory.mktemp("patients")
    names = [f"patient_{i:02}" for i in range(10)]
    clean(folder, [f"a/{name}" for name in names] + [f"b/{name}" for name in names[5:]], each=2)
    return folder


def fold_names(folds, seed=0, **settings):
    """Return the validation and the training names of each fold."""
    sources = [
        open_source(DataConfig(fold=k, num_folds=folds, **settings), seed)
        for k in range(1, folds + 1)
    ]
    return [(set(s.splits["validation"].names), set(s.splits["train"].names)) for s in sources]


@pytest.mark.parametrize("folds", [2, 5])
def test_folds_are_disjoint_and_cover_all(folds):
    whole = open_source(DataConfig(), 0).splits
    everything = set(whole["train"].names) | set(whole["validation"].names)
    pairs = fold_names(folds)
    assert set.union(*(validation for validation, _ in pairs)) == everything
    assert sum(len(validation) for validation, _ in pairs) == len(everything) == 1437
    for validation, train in pairs:
        assert validation | train == everything and not validation & train


def test_folds_leave_the_test_split_alone_and_say_what_they_are_made_of():
    source = open_source(DataConfig(fold=1, num_folds=5), 0)
    assert len(source.splits["test"]) == 360
    assert any("train and validation together, 1437" in note for note in source.notes)
    assert any("fold 1 of 5" in note for note in source.notes)


def test_folds_hold_a_fair_share_of_each_class_and_their_labels(patients):
    source = open_source(DataConfig(fold=2, num_folds=5), 0)
    counts = np.bincount(source.splits["validation"].labels)
    assert counts.min() > 20 and counts.max() < 37
    for split in source.splits.values():
        assert [int(name.split("/")[0]) for name in split.names] == split.labels.tolist()


def test_a_test_fraction_stays_out_of_all_folds(patients):
    sources = [
        open_source(
            DataConfig(source=f"folder:{patients}", test_fraction=0.3, fold=k, num_folds=3), 0
        )
        for k in (1, 2, 3)
    ]
    tested = [set(source.splits["test"].names) for source in sources]
    assert tested[0] == tested[1] == tested[2] and tested[0]
    validated = [set(source.splits["validation"].names) for source in sources]
    assert sum(map(len, validated)) + len(tested[0]) == 30
    assert not set.union(*validated) & tested[0]


def test_the_seed_changes_the_folds():
    assert fold_names(2, seed=1) != fold_names(2, seed=2)
    assert fold_names(2, seed=1) == fold_names(2, seed=1)


def group_sides(source):
    return {name: set(split.groups) for name, split in source.splits.items()}


@pytest.mark.parametrize("seed", range(8))
def test_a_folder_level_never_straddles(patients, seed):
    config = DataConfig(source=f"folder:{patients}", group=1, validation_fraction=0.3)
    source = open_source(config, seed)
    sides = group_sides(source)
    assert not sides["train"] & sides["validation"]
    assert len(sides["train"] | sides["validation"]) == 10
    for split in source.splits.values():
        assert [name.split("/")[1] for name in split.names] == list(split.groups)


def test_groups_do_not_straddle_folds(patients):
    settings = {"source": f"folder:{patients}", "group": 1}
    pairs = [
        ({name.split("/")[1] for name in validation}, {name.split("/")[1] for name in train})
        for validation, train in fold_names(5, **settings)
    ]
    assert all(not validation & train for validation, train in pairs)


def test_a_level_that_is_not_there_is_refused_by_name(patients):
    with pytest.raises(DataError) as caught:
        open_source(DataConfig(source=f"folder:{patients}", group=2), 0)
    assert "1 folders between class and picture" in str(caught.value)
    assert "data.group = 2 needs 2" in str(caught.value)
    with pytest.raises(DataError, match="data.group = 'patient' must be a level"):
        open_source(DataConfig(source=f"folder:{patients}", group="patient"), 0)


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({"fold": 3}, ["fold 3", "num_folds None"]),
        ({"num_folds": 3}, ["fold None", "num_folds 3"]),
        ({"fold": 6, "num_folds": 5}, ["1 to num_folds, 5", "got 6"]),
        ({"fold": 0, "num_folds": 5}, ["fold", "0"]),
        ({"fold": 1, "num_folds": 1}, ["num_folds", "1"]),
    ],
)
def test_impossible_folds_are_refused(settings, parts):
    with pytest.raises(ValidationError) as caught:
        DataConfig(**settings)
    for part in parts:
        assert part in str(caught.value)


def test_too_large_fractions_leave_nothing_to_train_on_and_are_refused(tmp_path):
    clean(tmp_path / "train", ["a/p", "b/p"], each=1)
    config = DataConfig(source=f"folder:{tmp_path}/train", group=1, fold=1, num_folds=2)
    with pytest.raises(DataError, match="2 pictures are held back"):
        for seed in range(20):
            open_source(config, seed)
