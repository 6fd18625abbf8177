"""From the `[data]` table to labelled examples: opens a source and gives it its splits."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from keras_vit.data.config import DataConfig
from keras_vit.data.examples import ArrayExamples
from keras_vit.data.splits import assign_splits, split_positions

SPLIT_NAMES = ("train", "validation", "test")


@dataclass(frozen=True)
class Split:
    """One split's examples, in a fixed order."""

    name: str
    names: Sequence[str]  # a path or another name of each example
    examples: object = field(repr=False)  # one of the kinds in examples.py

    @property
    def labels(self) -> np.ndarray:
        """Return `(n,)` int32, a place in the source's `class_names` for each example."""
        return self.examples.labels

    def __len__(self) -> int:
        return len(self.examples)

    def take(self, name: str, indices: np.ndarray) -> "Split":
        """Return the part at `indices` as a split of its own."""
        return Split(name, [self.names[i] for i in indices], self.examples.take(indices))


@dataclass(frozen=True)
class Source:
    """All that a data source holds."""

    class_names: tuple[str, ...]
    splits: dict[str, Split]
    num_channels: int
    notes: list[str]  # what a person must be told


def open_source(config: DataConfig, seed: int) -> Source:
    """Open a source, find everything that is wrong with it, and make the splits it lacks.

    Args:
        config: the `[data]` table.
        seed: decides, with the names, which examples are held back where the source has no such
            split itself.

    Raises:
        DataError: names every file that cannot be used and everything else that is wrong.
    """
    kind, _, place = config.source.partition(":")
    if kind == "digits":
        return _open_digits()
    if kind == "folder":
        from keras_vit.data.folder import open_folder

        return make_splits(open_folder(place, config), config, seed)
    from keras_vit.data.tfds_source import open_tfds

    return make_splits(open_tfds(place, config), config, seed)


def make_splits(source: Source, config: DataConfig, seed: int) -> Source:
    """Take the validation and test splits that are missing out of train."""
    fractions = {"test": config.test_fraction, "validation": config.validation_fraction}
    fractions = {name: part for name, part in fractions.items() if part > 0}
    fractions = {name: part for name, part in fractions.items() if name not in source.splits}
    if not fractions:
        return source
    train = source.splits["train"]
    sides = assign_splits(split_positions(train.names, seed), train.labels, fractions)
    splits = dict(source.splits)
    notes = list(source.notes)
    for name in ("train", *fractions):
        splits[name] = train.take(name, np.flatnonzero(sides == name))
    for name, fraction in fractions.items():
        notes += _describe_held_back(splits[name], train, source.class_names, fraction, seed)
    ordered = {name: splits[name] for name in SPLIT_NAMES if len(splits.get(name, ()))}
    return Source(source.class_names, ordered, source.num_channels, notes)


def _describe_held_back(
    split: Split, train: Split, class_names: tuple[str, ...], fraction: float, seed: int
) -> list[str]:
    """Say how many pictures a split took from train, and which classes had none to spare."""
    notes = [
        f"{split.name}: {len(split)} of {len(train)} pictures held back from train "
        f"({fraction:.3g} of it, seed {seed})"
    ]
    absent = [class_names[label] for label in np.setdiff1d(train.labels, split.labels)]
    if absent:
        notes.append(
            f"{split.name} has no picture of {', '.join(absent)}: too few to hold any back"
        )
    return notes


def _open_digits() -> Source:
    """Open scikit-learn's digits with splits that no seed changes: 1,257, 180 and 360."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = np.rint(digits.images * (255 / 16)).astype(np.uint8)[..., None]
    names = [f"digits/{i}" for i in range(len(pixels))]
    whole = Split("digits", names, ArrayExamples(pixels, digits.target.astype(np.int32)))
    positions = split_positions(names, seed=0)
    order = np.lexsort([positions, digits.target])
    test, rest = _draw_evenly(order, 360)
    validation, train = _draw_evenly(rest, 180)
    parts = {"train": train, "validation": validation, "test": test}
    splits = {name: whole.take(name, np.sort(indices)) for name, indices in parts.items()}
    return Source(tuple(str(digit) for digit in range(10)), splits, 1, [])


def _draw_evenly(order: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Take `count` at equal distances, so that each class gives its share; return the rest too."""
    drawn = np.diff(np.arange(len(order) + 1) * count // len(order)).astype(bool)
    return order[drawn], order[~drawn]
