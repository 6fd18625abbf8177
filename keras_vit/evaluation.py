"""Evaluate a model on a split: every example once, and a `Report` of what its answers are worth."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_vit import metrics

MAX_CONFUSION_CLASSES = 2_000  # above it the matrix would outgrow the logits


@dataclasses.dataclass(frozen=True, eq=False)
class Report:
    """The numbers of one model on one split of N examples and K classes.

    Attributes:
        class_names: K names, by class index.
        num_examples: N, every example of the split counted once.
        nll: Mean negative log-likelihood in nats, computed in float64. Multi-label: mean binary
            cross-entropy over all examples and classes.
        ece: Expected calibration error, as `metrics.calibration_error` defines it.
        per_class: One `{class, precision, recall, f1, support}` a class, in index order.
            Multi-label adds `average_precision`, None for a class that no example has.
        confusion: `(K, K)` counts, row true, column predicted. None for multi-label and above
            `MAX_CONFUSION_CLASSES` classes.
        top1: Share of examples whose highest logit is the true class. None for multi-label.
        top5: The same for the five highest. None under five classes and for multi-label.
        mean_average_precision: Multi-label: mean over the classes that occur; None if none does.
        f1_micro: Multi-label: F1 over all decisions.
        f1_macro: Multi-label: mean of the F1 of all classes.
    """

    class_names: tuple[str, ...]
    num_examples: int
    nll: float
    ece: float
    per_class: list[dict[str, Any]]
    confusion: np.ndarray | None
    top1: float | None = None
    top5: float | None = None
    mean_average_precision: float | None = None
    f1_micro: float | None = None
    f1_macro: float | None = None

    @property
    def multi_label(self) -> bool:
        """Whether each class was a yes or no of its own."""
        return self.top1 is None

    def to_json(self) -> dict[str, Any]:
        """Return the report under the names that scripts may rely on."""
        if self.multi_label:
            scores = ("mean_average_precision", "f1_micro", "f1_macro", "nll", "ece")
        else:
            scores = ("top1", "top5", "nll", "ece")
        return {name: getattr(self, name) for name in scores} | {
            "num_examples": self.num_examples,
            "per_class": self.per_class,
            "confusion": None if self.confusion is None else self.confusion.tolist(),
            "class_names": list(self.class_names),
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Report:
        """Read back what `to_json` wrote; the other keys of a `report.json` are left alone."""
        names = {field.name for field in dataclasses.fields(cls)}
        values = {name: value for name, value in document.items() if name in names}
        values["class_names"] = tuple(values["class_names"])
        if values["confusion"] is not None:
            values["confusion"] = np.asarray(values["confusion"], np.int64)
        return cls(**values)


class Mistake(NamedTuple):
    """One example that the model got wrong.

    Attributes:
        index: Its position in the split.
        name: Its path or id, or its position as text where it has no name.
        true: The class it has.
        predicted: The class the model gave it.
        probability: The model's probability of the class it gave.
        true_probability: The model's probability of the class it should have given.
    """

    index: int
    name: str
    true: str
    predicted: str
    probability: float
    true_probability: float


def evaluate(
    logits: np.ndarray,
    labels: np.ndarray,
    class_names: Sequence[str],
    names: Sequence[str] | None = None,
    multi_label: bool = False,
) -> Report:
    """Compare logits with labels.

    Args:
        logits: `(N, K)`, finite.
        labels: `(N,)` class indices, or with `multi_label` `(N, K)` zeros and ones.
        class_names: K names.
        names: N paths or ids, to name an example in an error.
        multi_label: Whether each class is a yes or no of its own.

    Raises:
        ValueError: If shapes, labels or logits are not as above.
    """
    logits, labels = np.asarray(logits), np.asarray(labels)
    _check_logits(logits, class_names, names)
    if multi_label:
        return _evaluate_multi_label(logits, labels, tuple(class_names))
    return _evaluate_single_label(logits, labels, tuple(class_names))


def collect(
    predict_batch: Callable[[np.ndarray], np.ndarray],
    batches: Iterable[tuple[Any, Any]],
    num_examples: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Run every batch through a model and keep each row's logits and label.

    A smaller last batch is filled up to the size of the first and its filling dropped again, so
    that the model sees one shape and is compiled once.

    Args:
        predict_batch: Takes `(B, H, W, C)` pixels, returns `(B, K)` logits.
        batches: Pairs of pixels and labels.
        num_examples: The split's size; to see another number is an error.

    Returns:
        `(N, K)` float32 logits and the labels.

    Raises:
        ValueError: If there is nothing, or not as many examples as the split has.
    """
    all_logits, all_labels, batch_size = [], [], 0
    for pixels, labels in batches:
        pixels = np.asarray(pixels)
        batch_size = batch_size or len(pixels)
        filling = np.zeros((max(batch_size - len(pixels), 0), *pixels.shape[1:]), pixels.dtype)
        logits = np.asarray(predict_batch(np.concatenate([pixels, filling])))
        all_logits.append(logits[: len(pixels)].astype(np.float32))
        all_labels.append(np.asarray(labels))
    num_seen = sum(map(len, all_logits))
    if num_examples is not None and num_seen != num_examples:
        raise ValueError(f"the split has {num_examples} examples, evaluation saw {num_seen}")
    if not num_seen:
        raise ValueError("expected at least one example to evaluate, got none")
    return np.concatenate(all_logits), np.concatenate(all_labels)


def worst_mistakes(
    logits: np.ndarray,
    labels: np.ndarray,
    class_names: Sequence[str],
    names: Sequence[str] | None = None,
    limit: int = 24,
) -> list[Mistake]:
    """List the wrong answers of a single-label model, the surest first."""
    predicted = logits.argmax(axis=1)
    wrong = np.flatnonzero(predicted != labels)
    if not wrong.size:
        return []
    sureness = metrics.log_probabilities(logits[wrong], predicted[wrong])
    order = wrong[np.argsort(-sureness, kind="stable")[:limit]]
    probabilities = np.exp(metrics.log_softmax(logits[order]))
    return [
        Mistake(
            index=int(index),
            name=str(index if names is None else names[index]),
            true=class_names[labels[index]],
            predicted=class_names[predicted[index]],
            probability=float(row[predicted[index]]),
            true_probability=float(row[labels[index]]),
        )
        for index, row in zip(order, probabilities, strict=True)
    ]


def pick_pictures(
    batches: Iterable[tuple[Any, Any]], indices: Iterable[int]
) -> dict[int, np.ndarray]:
    """Go through a split again, as far as needed, and keep the pictures at some positions.

    Raises:
        ValueError: If the split ends before a position.
    """
    wanted, found, start = set(indices), {}, 0
    for pixels, _ in batches if wanted else ():
        pixels = np.asarray(pixels)
        for index in wanted.intersection(range(start, start + len(pixels))):
            found[index] = pixels[index - start]
        start += len(pixels)
        if len(found) == len(wanted):
            break
    if len(found) < len(wanted):
        raise ValueError(f"wanted picture {max(wanted)}, the split has {start} examples")
    return found


def _evaluate_single_label(
    logits: np.ndarray, labels: np.ndarray, class_names: tuple[str, ...]
) -> Report:
    num_classes = len(class_names)
    _check_class_indices(labels, len(logits), num_classes)
    predicted = logits.argmax(axis=1)
    ranks = metrics.true_class_ranks(logits, labels)
    confidence = np.exp(metrics.log_probabilities(logits, predicted))
    counts = metrics.class_counts(labels, predicted, num_classes)
    return Report(
        class_names=class_names,
        num_examples=len(labels),
        top1=float(np.mean(ranks < 1)),
        top5=float(np.mean(ranks < 5)) if num_classes >= 5 else None,
        nll=float(-np.mean(metrics.log_probabilities(logits, labels))),
        ece=metrics.calibration_error(confidence, predicted == labels),
        per_class=metrics.per_class_scores(counts, class_names),
        confusion=metrics.confusion_counts(labels, predicted, num_classes)
        if num_classes <= MAX_CONFUSION_CLASSES
        else None,
    )


def _evaluate_multi_label(
    logits: np.ndarray, labels: np.ndarray, class_names: tuple[str, ...]
) -> Report:
    _check_label_table(labels, logits.shape)
    labels = labels.astype(np.int8)
    predicted = (logits > 0).astype(np.int8)
    precisions = metrics.average_precisions(logits, labels)
    confidence = metrics.decision_confidence(logits)
    known = [precision for precision in precisions if precision is not None]
    counts = metrics.class_counts(labels, predicted, len(class_names))
    per_class = metrics.per_class_scores(counts, class_names)
    return Report(
        class_names=class_names,
        num_examples=len(labels),
        mean_average_precision=float(np.mean(known)) if known else None,
        f1_micro=metrics.f1_micro(counts),
        f1_macro=float(np.mean([row["f1"] for row in per_class])),
        nll=float(-np.mean(metrics.binary_log_likelihoods(logits, labels))),
        ece=metrics.calibration_error(confidence, predicted == labels),
        per_class=[
            row | {"average_precision": precision}
            for row, precision in zip(per_class, precisions, strict=True)
        ],
        confusion=None,
    )


def _check_logits(
    logits: np.ndarray, class_names: Sequence[str], names: Sequence[str] | None
) -> None:
    if logits.ndim != 2 or not len(logits) or logits.shape[1] != len(class_names):
        raise ValueError(
            f"expected logits of shape (examples, {len(class_names)}), one column for each of the "
            f"{len(class_names)} class names, got {logits.shape}"
        )
    bad = np.argwhere(~np.isfinite(logits))
    if len(bad):
        row, column = bad[0]
        name = f" ({names[row]})" if names is not None else ""
        raise ValueError(
            f"expected finite logits, got {logits[row, column]} for class "
            f"{class_names[column]!r} of example {row}{name}; "
            f"{len(np.unique(bad[:, 0]))} of {len(logits)} examples are not finite"
        )


def _check_class_indices(labels: np.ndarray, num_examples: int, num_classes: int) -> None:
    if labels.shape != (num_examples,) or labels.dtype.kind not in "iu":
        raise ValueError(
            f"expected {num_examples} whole-number labels, one for each row of logits, "
            f"got shape {labels.shape} of {labels.dtype}"
        )
    bad = labels[(labels < 0) | (labels >= num_classes)]
    if len(bad):
        raise ValueError(f"expected labels from 0 to {num_classes - 1}, got {bad[0]}")


def _check_label_table(labels: np.ndarray, shape: tuple[int, ...]) -> None:
    if labels.shape != shape:
        raise ValueError(f"expected multi-label labels of shape {shape}, got {labels.shape}")
    bad = labels[(labels != 0) & (labels != 1)]
    if len(bad):
        raise ValueError(f"expected multi-label labels of 0 and 1, got {bad[0]}")
