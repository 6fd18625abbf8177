"""Numbers are put into words without saying more or less than they do."""

import numpy as np
import pytest

from keras_vit import summary

DOCUMENT = {
    "top1": 0.975,
    "top5": None,
    "nll": 0.08765,
    "ece": 0.0123,
    "num_examples": 1200,
    "num_parameters": 137_034,
    "splits": {"train": 1257},
    "epochs": 50,
    "train_seconds": 106.4,
    "recipe": {"name": "digits", "seed": 3, "data": {"source": "digits", "test": None}},
    "versions": {"keras": "3.15.1"},
}


@pytest.mark.parametrize(
    "share, shown",
    [(0.9917, "99.2 %"), (1, "100.0 %"), (0.99999, "99.9 %"), (0, "0.0 %"), (None, "-")],
)
def test_a_share_is_all_only_when_it_is_all(share, shown):
    assert summary.percent(share) == shown


def test_a_share_without_digits_is_all_only_when_it_is_all():
    assert [summary.percent(share, 0) for share in (0.46, 0.999, 1.0)] == ["46 %", "99 %", "100 %"]


@pytest.mark.parametrize(
    "number, shown",
    [(0, "0"), (7, "7"), (8.26, "8.3"), (842.3, "842"), (137034, "137,034"), (None, "-")],
)
def test_numbers_are_whole_from_ten_on(number, shown):
    assert summary.count(number) == shown


@pytest.mark.parametrize(
    "seconds, shown",
    [
        (0.04, "0.0 s"),
        (9.95, "9.9 s"),
        (59.4, "59 s"),
        (59.8, "1 min 00 s"),
        (106.4, "1 min 46 s"),
        (7384, "2 h 03 min"),
    ],
)
def test_times_are_in_their_two_largest_units(seconds, shown):
    assert summary.duration(seconds) == shown


def test_the_sentence_says_what_was_trained_on_what():
    assert summary.describe(DOCUMENT) == (
        "A Vision Transformer of 137,034 parameters, trained on 1,257 pictures of digits "
        "for 50 epochs in 1 min 46 s."
    )
    short = DOCUMENT | {"epochs": 1, "recipe": {}}
    assert summary.describe(short).endswith("parameters for 1 epoch in 1 min 46 s.")


def test_scores_come_with_their_counts_and_only_those_there_are():
    assert [score[:2] for score in summary.list_scores(DOCUMENT)] == [
        ("Top-1 accuracy", "97.5 %"),
        ("Negative log-likelihood", "0.088"),
        ("Calibration error", "1.2 %"),
    ]
    assert summary.list_scores(DOCUMENT)[0][2] == "1,170 of 1,200 pictures right"
    multi_label = {"mean_average_precision": 0.5, "f1_micro": 0.25, "num_examples": 4}
    assert [score[1] for score in summary.list_scores(multi_label)] == ["50.0 %", "25.0 %"]


def test_pairs_are_sorted_by_count_without_the_right_answers():
    pairs = summary.confused_pairs(np.array([[90, 1, 0], [7, 3, 2], [0, 0, 5]]), "abc")
    assert [(pair["true"], pair["given"], pair["count"], pair["of"]) for pair in pairs] == [
        ("b", "a", 7, 12),
        ("b", "c", 2, 12),
        ("a", "b", 1, 91),
    ]
    assert len(summary.confused_pairs(np.ones((9, 9), int), "abcdefghi")) == summary.MOST_PAIRS


def test_the_worst_classes_are_chosen_only_among_many():
    rows = [{"class": str(k), "f1": 1 - k / 100} for k in range(41)]
    assert summary.worst_classes({"per_class": rows[:40]}) == []
    worst = summary.worst_classes({"per_class": rows})
    assert [row["class"] for row in worst] == [str(k) for k in range(40, 20, -1)]


def test_facts_have_the_cost_the_versions_and_every_table_of_the_recipe():
    facts = summary.list_facts(DOCUMENT)
    assert list(facts) == ["run", "versions", "data"]
    assert facts["data"] == {"source": "digits"}  # a setting that is not set is left out
    assert facts["run"]["training time"] == "1 min 46 s" and facts["run"]["seed"] == "3"
    assert facts["versions"] == {"keras": "3.15.1"}


@pytest.mark.parametrize(
    "value, shown",
    [
        (True, "yes"),
        (False, "no"),
        (4 / 3, "1.33333"),
        (1e-6, "1e-06"),
        (12, "12"),
        ([0.85, 1.15], "0.85, 1.15"),
        ({"mean": [0.5, 0.5], "std": [0.25]}, "mean: 0.5, 0.5, std: 0.25"),
        (["name"] * 1000, "1,000 values"),
        ("muon", "muon"),
    ],
)
def test_settings_are_written_for_a_person(value, shown):
    assert summary.setting(value) == shown
