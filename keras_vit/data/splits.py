"""Which split a picture belongs to, decided by a hash of its name and the seed.

Every picture gets a number in [0, 1) from its own name and the seed alone (`split_positions`), and
the fractions are thresholds on it. Hence what is promised: adding or removing a file moves no other
file. A set whose counts are exact for every folder cannot keep that promise: if adding a file may
move nobody, each file's side must follow from its own name, and then the counts are left to chance.

Two things bring the counts as close as they can be. Names that end in a number, as most do
(`cat_0041.jpg`), are spread evenly: of each run of 5, 10, 20, ... neighbours exactly one falls into
each 5th, 10th, 20th part of [0, 1), at random within the run. So 45 pictures numbered 0 to 44 give
exactly 9 at a fraction of 0.2. Names without a number differ from the expected count as coin tosses
do. And a class of two or more pictures always has one to train on and one in each split asked for
(from three on, if both are asked for): the picture nearest to the threshold is taken. Only such a
picture, in so small a class, may go back when others are added.

Where pictures have a group, the group's name takes the place of theirs, so that all of them are on
one side; shares are then of the groups, and only train is sure to have every class.
"""

import functools
import hashlib
import itertools
import re
import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np

_LAST_NUMBER = re.compile(r"(.*?)(\d{1,15})(\D*)", re.DOTALL)
_DEALS_OF_FIVE = np.array(list(itertools.permutations(range(5))))  # (120, 5)
_NUM_HALVINGS = 8


def split_positions(names: Iterable[str], seed: int) -> np.ndarray:
    """Return a float64 in [0, 1) for each name, a function of (name, seed) only.

    The last number in a name says where in a run of neighbours it lies. The extension does not
    count, so that `x.jpg` and `x.png` stay together; nor does the way accents are encoded.
    """
    keys, numbers = [], []
    for name in names:
        key, number = _parse_name(name)
        keys.append(_hash_text(seed, key))
        numbers.append(number)
    return _spread(np.array(keys, np.uint64), np.array(numbers, np.int64))


def _parse_name(name: str) -> tuple[str, int]:
    """Return what a run of neighbours has in common, and the number that tells them apart."""
    folder, slash, file_name = name.rpartition("/")
    stem, dot, _ = file_name.rpartition(".")
    stem = unicodedata.normalize("NFC", folder + slash + (stem if dot and stem else file_name))
    match = _LAST_NUMBER.fullmatch(stem)
    if match is None:
        return stem, 0
    prefix, number, suffix = match.groups()
    return f"{prefix}\0{suffix}", int(number)


@functools.lru_cache(maxsize=4096)  # neighbours share their key
def _hash_text(seed: int, text: str) -> int:
    """Return 64 bits; surrogates stand for the bytes of a file name that are no text."""
    encoded = f"{seed}\0{text}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(encoded, digest_size=8).digest(), "little")


def _spread(keys: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Scramble numbers so that neighbours fill [0, 1) evenly (Owen's nested scrambling).

    The first digit deals the five members of a run of five onto five intervals; each further one
    deals the two that share an interval in a run twice as long onto its two halves.
    """
    run, member = np.divmod(numbers, 5)
    deal = _mix(keys, run, 5) % np.uint64(len(_DEALS_OF_FIVE))
    place, parts = _DEALS_OF_FIVE[deal.astype(np.int64), member], 5
    for _ in range(_NUM_HALVINGS):
        run, member = np.divmod(run, 2)
        swap = (_mix(_mix(keys, run, parts), place, 2) & np.uint64(1)).astype(np.int64)
        place, parts = 2 * place + (member ^ swap), 2 * parts
    within = (_mix(keys, numbers, 1) >> np.uint64(11)).astype(np.float64) / 2**53
    return (place + within) / parts


def _mix(keys: np.ndarray, numbers: np.ndarray, salt: int) -> np.ndarray:
    """Hash pairs to 64 bits (splitmix64)."""
    bits = keys ^ (numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(salt))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return bits ^ (bits >> np.uint64(31))


def name_by_number(labels: np.ndarray, prefix: str = "") -> list[str]:
    """Name examples that have no name by their class and their place among that class, `3/17`.

    So each class gives its exact share to every split.
    """
    order = np.argsort(labels, kind="stable")
    counts = np.bincount(labels)
    places = np.empty(len(labels), np.int64)
    places[order] = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    return [f"{prefix}{label}/{place}" for label, place in zip(labels, places, strict=True)]


def assign_splits(
    positions: np.ndarray,
    labels: np.ndarray,
    fractions: dict[str, float],
    groups: Sequence[str] | None = None,
) -> np.ndarray:
    """Return `(n,)` of "train" or one of the names in `fractions`.

    Args:
        positions: `(n,)` from `split_positions`, of the groups if there are any.
        labels: `(n,)` class of each picture.
        fractions: how much of the whole each split but "train" takes, in order from 0 up.
        groups: `(n,)` names of what must not straddle; only train is sure of every class then.
    """
    sides = np.full(len(positions), "train", dtype=object)
    start = 0.0
    for name, fraction in fractions.items():
        sides[(positions >= start) & (positions < start + fraction)] = name
        start += fraction
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        members = members[np.argsort(positions[members], kind="stable")]
        if groups is None:
            sides[members] = _leave_none_out(sides[members], ["train", *fractions])
        elif not np.any(sides[members] == "train"):
            sides[np.asarray(groups) == groups[members[-1]]] = "train"
    return sides


def _leave_none_out(sides: np.ndarray, asked: list[str]) -> np.ndarray:
    """Give each split one picture of a class, in the order of `asked` as far as there are enough.

    `sides` are the class's pictures in the order of their positions; a split without any takes
    the nearest one of the split that has most.
    """
    for name in asked:
        counts = {side: np.count_nonzero(sides == side) for side in asked}
        largest = max(asked, key=counts.get)
        if counts[name] == 0 and counts[largest] > 1:
            givers = np.flatnonzero(sides == largest)
            sides[givers[-1] if name == "train" else givers[0]] = name
    return sides
