"""Turn logits and true labels into numbers: ranks, likelihood, calibration, counts per class.

Shapes: N examples, K classes. Logits are `(N, K)` and finite; labels are `(N,)` class indices, or
`(N, K)` zeros and ones for a multi-label model.

Equal logits are never left to chance: the class with the lower index counts as the higher one, in
top-1, in top-k and in the confusion matrix alike. A multi-label class is given when its logit is
above 0, so a probability of exactly one half is a no.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

NUM_BINS = 15
ROWS_AT_ONCE = 4_096  # float64 copies are made of so many rows, not of all logits


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Return log-probabilities over the last axis in float64, safe for logits of any size."""
    shifted = np.asarray(logits, np.float64)
    shifted = shifted - shifted.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def log_sigmoid(logits: np.ndarray) -> np.ndarray:
    """Return the log of independent probabilities in float64, safe for logits of any size."""
    return -np.logaddexp(0.0, -np.asarray(logits, np.float64))


def true_class_ranks(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Count, for each example, the classes that stand above the true one: 0 is a right answer."""

    def ranks(rows: np.ndarray, row_labels: np.ndarray) -> np.ndarray:
        true = np.take_along_axis(rows, row_labels[:, None], axis=1)
        earlier = np.arange(rows.shape[1]) < row_labels[:, None]
        return np.sum((rows > true) | ((rows == true) & earlier), axis=1)

    return in_chunks(ranks, logits, labels)


def top_k_accuracy(logits: np.ndarray, labels: np.ndarray, k: int) -> float:
    """Return the share of examples whose true class is among the k highest logits.

    Raises:
        ValueError: If k is not between 1 and the number of classes.
    """
    if not 1 <= k <= logits.shape[1]:
        raise ValueError(f"k must be between 1 and the {logits.shape[1]} classes, got {k}")
    return float(np.mean(true_class_ranks(logits, labels) < k))


def log_probabilities(logits: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return, for each example, the log-probability of the one class given for it."""

    def pick(rows: np.ndarray, row_classes: np.ndarray) -> np.ndarray:
        return np.take_along_axis(log_softmax(rows), row_classes[:, None], axis=1)[:, 0]

    return in_chunks(pick, logits, classes)


def decision_confidence(logits: np.ndarray) -> np.ndarray:
    """Return, for each yes or no of a multi-label model, the probability of the side it took."""
    return np.exp(log_sigmoid(np.abs(logits)))


def binary_log_likelihoods(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return, for each example of a multi-label set, the mean log-likelihood of its K labels."""

    def score(rows: np.ndarray, row_labels: np.ndarray) -> np.ndarray:
        return log_sigmoid(np.where(row_labels > 0, rows, -rows)).mean(axis=1)

    return in_chunks(score, logits, labels)


def calibration_error(
    confidence: np.ndarray, correct: np.ndarray, num_bins: int = NUM_BINS
) -> float:
    """Return the expected calibration error of answers given with a confidence.

    The range (0, 1] is cut into `num_bins` bins of equal width, each holding its upper edge. The
    error is the mean over all answers of `|share of right answers - mean confidence|` of the
    answer's bin (Guo et al. 2017, with M = 15). The confidence of an answer is its softmax
    probability; of a multi-label decision, the sigmoid's probability of the side taken.

    Args:
        confidence: Any shape, in [0, 1].
        correct: The same shape, whether each answer was right.
    """
    confidence, correct = np.ravel(confidence), np.ravel(correct)
    edges = np.linspace(0.0, 1.0, num_bins + 1)
    bins = np.clip(np.digitize(confidence, edges, right=True) - 1, 0, num_bins - 1)
    gaps = np.bincount(bins, correct, num_bins) - np.bincount(bins, confidence, num_bins)
    return float(np.abs(gaps).sum() / len(confidence))


class Counts(NamedTuple):
    """What happened to each class, `(K,)` whole numbers each.

    Attributes:
        hits: Examples of the class that were given it.
        given: Examples that were given the class.
        support: Examples of the class.
    """

    hits: np.ndarray
    given: np.ndarray
    support: np.ndarray


def class_counts(labels: np.ndarray, predicted: np.ndarray, num_classes: int) -> Counts:
    """Count each class; both arguments are class indices, or both `(N, K)` zeros and ones."""
    if labels.ndim == 2:
        both = (labels > 0) & (predicted > 0)
        return Counts(*((table > 0).sum(axis=0) for table in (both, predicted, labels)))
    right = labels[labels == predicted]
    return Counts(*(np.bincount(x, minlength=num_classes) for x in (right, predicted, labels)))


def per_class_scores(counts: Counts, class_names: Sequence[str]) -> list[dict[str, Any]]:
    """Return `{class, precision, recall, f1, support}` a class, in index order.

    A ratio with nothing below the line (a class never given, or not in the split) is 0.
    """
    columns = (
        _ratio(counts.hits, counts.given),
        _ratio(counts.hits, counts.support),
        _ratio(2 * counts.hits, counts.given + counts.support),
        counts.support,
    )
    keys = ("class", "precision", "recall", "f1", "support")
    rows = zip(class_names, *(column.tolist() for column in columns), strict=True)
    return [dict(zip(keys, row, strict=True)) for row in rows]


def f1_micro(counts: Counts) -> float:
    """Return F1 over all decisions of all classes; 0 when there is nothing to find or found."""
    hits, given, support = (column.sum() for column in counts)
    return float(_ratio(2 * hits, given + support))


def confusion_counts(labels: np.ndarray, predicted: np.ndarray, num_classes: int) -> np.ndarray:
    """Return `(K, K)` counts: row true class, column predicted class."""
    cells = np.asarray(labels, np.int64) * num_classes + predicted
    return np.bincount(cells, minlength=num_classes**2).reshape(num_classes, num_classes)


def average_precisions(logits: np.ndarray, labels: np.ndarray) -> list[float | None]:
    """Return each class's average precision; None for a class that no example has."""
    from sklearn.metrics import average_precision_score

    return [
        float(average_precision_score(labels[:, k], logits[:, k])) if labels[:, k].any() else None
        for k in range(labels.shape[1])
    ]


def in_chunks(
    function: Callable[[np.ndarray, np.ndarray], np.ndarray],
    logits: np.ndarray,
    labels: np.ndarray,
) -> np.ndarray:
    """Apply a function of some rows to all rows, `ROWS_AT_ONCE` at a time."""
    return np.concatenate([function(*chunk) for chunk in _chunks(logits, labels)])


def _chunks(logits: np.ndarray, labels: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for start in range(0, max(len(logits), 1), ROWS_AT_ONCE):
        yield logits[start : start + ROWS_AT_ONCE], labels[start : start + ROWS_AT_ONCE]


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    return np.where(below > 0, above / np.maximum(below, 1), 0.0)
