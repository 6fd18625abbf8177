"""What every opened source is: class names, splits, and what a person must be told."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

SPLIT_NAMES = ("train", "validation", "test")
# As folders and CSV files spell them.
SPLIT_SPELLINGS = {
    "train": ("train", "training"),
    "validation": ("validation", "val", "valid"),
    "test": ("test", "testing"),
}


@dataclass(frozen=True)
class Split:
    """One split's examples, in a fixed order.

    Attributes:
        name: "train", "validation" or "test".
        names: a path or another name of each example.
        examples: how they are read; one of the kinds in `examples.py`.
        groups: what must not straddle two splits (a patient), for each example; None without.
        cache: `data.cache`.
    """

    name: str
    names: Sequence[str]
    examples: object = field(repr=False)
    groups: Sequence[str] | None = field(default=None, repr=False)
    cache: str = "auto"

    @property
    def labels(self) -> np.ndarray:
        """Return `(n,)` int32, places in `class_names`; `(n, K)` float32 if multi-label."""
        return self.examples.labels

    def __len__(self) -> int:
        return len(self.examples)

    def take(self, name: str, indices: np.ndarray) -> "Split":
        """Return the part at `indices` as a split of its own."""
        groups = None if self.groups is None else [self.groups[i] for i in indices]
        names = [self.names[i] for i in indices]
        return Split(name, names, self.examples.take(indices), groups, self.cache)

    def join(self, other: "Split") -> "Split":
        """Return this split with another's examples after its own."""
        groups = None if self.groups is None else [*self.groups, *other.groups]
        names = [*self.names, *other.names]
        return Split(self.name, names, self.examples.join(other.examples), groups, self.cache)


@dataclass(frozen=True)
class Source:
    """All that a data source holds.

    Attributes:
        class_names: as the source spells them, in the order of the labels.
        splits: those of "train", "validation" and "test" that there are, in this order.
        num_channels: 1 if the pictures are grey by nature, else 3.
        notes: lines that a person must see.
        multi_label: whether a picture may have several classes, or none.
        unreadable: with `data.skip_bad`, a line for each picture left out.
    """

    class_names: tuple[str, ...]
    splits: dict[str, Split]
    num_channels: int
    notes: list[str]
    multi_label: bool = False
    unreadable: tuple[str, ...] = ()
