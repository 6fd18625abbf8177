"""The numbers equal scikit-learn's, or a plain loop's where scikit-learn has none."""

import math

import numpy as np
import pytest
import sklearn.metrics

from keras_vit import metrics

NUM_EXAMPLES, NUM_CLASSES = 83, 6


@pytest.fixture
def scored():
    generator = np.random.default_rng(3)
    logits = generator.normal(size=(NUM_EXAMPLES, NUM_CLASSES)).astype(np.float32)
    logits = np.round(logits, 1)  # rounding makes ties
    labels = generator.integers(0, NUM_CLASSES - 1, NUM_EXAMPLES)  # the last class never occurs
    return logits, labels


@pytest.fixture
def tables():
    generator = np.random.default_rng(4)
    logits = generator.normal(size=(NUM_EXAMPLES, NUM_CLASSES)).astype(np.float32)
    return logits, (generator.random((NUM_EXAMPLES, NUM_CLASSES)) < 0.3).astype(int)


def test_probabilities_survive_logits_that_overflow_float32_exponentials():
    assert np.exp(metrics.log_softmax(np.float32([[1e30, 0.0], [5e4, 5e4]]))).tolist() == [
        [1.0, 0.0],
        [0.5, 0.5],
    ]
    assert metrics.log_sigmoid(np.float32([-1e4, 0.0, 1e4])).tolist() == [-1e4, -math.log(2), 0.0]


def test_ranks_put_the_lower_index_first_among_equal_logits():
    logits = np.float32([[1.0, 1.0, 0.0]] * 3)
    assert metrics.true_class_ranks(logits, np.array([0, 1, 2])).tolist() == [0, 1, 2]


def test_ranks_agree_with_a_stable_sort(scored):
    logits, labels = scored
    order = [sorted(range(NUM_CLASSES), key=lambda k, row=row: -row[k]) for row in logits]
    expected = [row.index(label) for row, label in zip(order, labels, strict=True)]
    assert metrics.true_class_ranks(logits, labels).tolist() == expected


@pytest.mark.parametrize("k", range(1, NUM_CLASSES))
def test_top_k_equals_scikit_learns_where_no_logits_are_equal(k, tables, scored):
    logits, labels = tables[0], scored[1]
    expected = sklearn.metrics.top_k_accuracy_score(labels, logits, k=k, labels=range(NUM_CLASSES))
    assert metrics.top_k_accuracy(logits, labels, k) == pytest.approx(expected, rel=1e-12)
    assert metrics.top_k_accuracy(logits, labels, NUM_CLASSES) == 1.0


@pytest.mark.parametrize("k", [0, 7])
def test_top_k_refuses_a_k_without_meaning(k, scored):
    with pytest.raises(ValueError, match=f"between 1 and the 6 classes, got {k}"):
        metrics.top_k_accuracy(*scored, k)


def test_log_probabilities_equal_scikit_learns_log_loss(scored):
    logits, labels = scored
    ours = -metrics.log_probabilities(logits, labels).mean()
    weights = [[math.exp(value) for value in row] for row in logits.astype(float)]
    shares = [[value / sum(row) for value in row] for row in weights]
    expected = sklearn.metrics.log_loss(labels, shares, labels=range(NUM_CLASSES))
    assert ours == pytest.approx(expected, rel=1e-12)


def test_binary_likelihoods_equal_a_plain_loop(tables):
    logits, labels = tables
    for row, truth, ours in zip(
        logits, labels, metrics.binary_log_likelihoods(*tables), strict=True
    ):
        yes = [1 / (1 + math.exp(-float(x))) for x in row]
        losses = [math.log(p if t else 1 - p) for p, t in zip(yes, truth, strict=True)]
        assert ours == pytest.approx(sum(losses) / NUM_CLASSES, rel=1e-9)


def test_chunks_change_nothing(scored, monkeypatch):
    whole = metrics.log_probabilities(*scored), metrics.true_class_ranks(*scored)
    monkeypatch.setattr(metrics, "ROWS_AT_ONCE", 7)
    pieces = metrics.log_probabilities(*scored), metrics.true_class_ranks(*scored)
    np.testing.assert_array_equal(whole, pieces)


def test_calibration_error_by_hand():
    # Bins of width 1/15: 0.9 and 0.93 share one, 0.5 has its own.
    error = metrics.calibration_error(np.array([0.9, 0.93, 0.5, 0.5]), np.array([1, 0, 1, 1]))
    assert error == pytest.approx((abs(1 - 1.83) + abs(2 - 1.0)) / 4)


def test_calibration_error_equals_a_loop_over_the_bins():
    generator = np.random.default_rng(5)
    confidence = np.concatenate([generator.random(500), [1.0, 0.2, 1 / 3, 0.0]])
    correct = generator.random(504) < confidence
    total = 0.0
    for number in range(15):
        low, high = number / 15, (number + 1) / 15
        inside = (confidence > low) & (confidence <= high)
        if number == 0:
            inside |= confidence == 0
        if inside.any():
            total += inside.mean() * abs(correct[inside].mean() - confidence[inside].mean())
    assert metrics.calibration_error(confidence, correct) == pytest.approx(total, abs=1e-12)


def check_per_class(labels, predicted):
    counts = metrics.class_counts(labels, predicted, NUM_CLASSES)
    ours = metrics.per_class_scores(counts, list("abcdef"))
    expected = sklearn.metrics.precision_recall_fscore_support(
        labels, predicted, labels=range(NUM_CLASSES), zero_division=0
    )
    for key, column in zip(["precision", "recall", "f1", "support"], expected, strict=True):
        np.testing.assert_allclose([row[key] for row in ours], column, rtol=1e-12)
    assert [row["class"] for row in ours] == list("abcdef")


def test_per_class_scores_equal_scikit_learns_also_for_an_absent_class(scored):
    logits, labels = scored
    check_per_class(labels, logits.argmax(1))


def test_multi_label_scores_equal_scikit_learns(tables):
    logits, labels = tables
    predicted = (logits > 0).astype(int)
    check_per_class(labels, predicted)
    micro = sklearn.metrics.f1_score(labels, predicted, average="micro")
    counts = metrics.class_counts(labels, predicted, NUM_CLASSES)
    assert metrics.f1_micro(counts) == pytest.approx(micro, rel=1e-12)


def test_confusion_equals_scikit_learns(scored):
    logits, labels = scored
    ours = metrics.confusion_counts(labels, logits.argmax(1), NUM_CLASSES)
    expected = sklearn.metrics.confusion_matrix(labels, logits.argmax(1), labels=range(NUM_CLASSES))
    np.testing.assert_array_equal(ours, expected)


def test_average_precision_equals_the_mean_precision_at_each_hit(tables):
    logits, labels = tables
    for k, ours in enumerate(metrics.average_precisions(logits, labels)):
        truth = labels[np.argsort(-logits[:, k]), k]
        at_hits = [truth[: i + 1].mean() for i in range(NUM_EXAMPLES) if truth[i]]
        assert ours == pytest.approx(np.mean(at_hits), rel=1e-9)


def test_average_precision_of_a_class_that_no_example_has_is_none(tables):
    logits, labels = tables
    labels[:, 2] = 0
    assert metrics.average_precisions(logits, labels)[2] is None
