"""Looks a whole data source over: what is in it, and what a person would want to know first."""

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_vit import images
from keras_vit.data.config import DataConfig
from keras_vit.data.file_check import name_fault
from keras_vit.data.source import Source, Split
from keras_vit.data.sources import open_source
from keras_vit.headers import find_format

# Fewer pictures to train on than this, and a class can hardly be learned or measured.
NEARLY_EMPTY = 10
MOST_SIZES = 200
_CHUNK = 128
# Means and spreads are taken over at most about this many pixels of a picture, on a grid.
_NUM_SAMPLED = 16_384


@dataclass(frozen=True)
class SourceReport:
    """What `check_source` found.

    Attributes:
        source: `data.source`.
        num_images: pictures that can be read, in all splits.
        counts: split -> class -> number of pictures.
        imbalance: pictures of the largest class to train on for each of the smallest.
        nearly_empty: classes with fewer than `NEARLY_EMPTY` pictures to train on.
        formats: file format -> number of pictures.
        widths: smallest, median and largest, in pixels as displayed.
        heights: the same.
        num_sizes: how many different sizes there are.
        sizes: (width, height, number of pictures) of the commonest, at most `MOST_SIZES`.
        pixel_mean: of red, green and blue, in [0, 255], every picture counting alike.
        pixel_std: their standard deviations.
        duplicates_across_labels: names of equal pictures under unlike labels, group by group.
        duplicates_across_splits: names of equal pictures in two splits or more.
        num_duplicates: pictures that are equal to one before them, wherever.
        unreadable: a line for each picture that cannot be read.
        notes: what was left out, and how the splits were made.
    """

    source: str
    num_images: int
    counts: dict[str, dict[str, int]]
    imbalance: float | None
    nearly_empty: list[str]
    formats: dict[str, int]
    widths: tuple[int, int, int]
    heights: tuple[int, int, int]
    num_sizes: int
    sizes: list[tuple[int, int, int]]
    pixel_mean: tuple[float, float, float]
    pixel_std: tuple[float, float, float]
    duplicates_across_labels: list[list[str]]
    duplicates_across_splits: list[list[str]]
    num_duplicates: int
    unreadable: list[str]
    notes: list[str]

    def to_json(self) -> dict:
        """Return plain lists, dictionaries, numbers and texts."""
        return asdict(self)


class _Picture(NamedTuple):
    """What is kept of each picture."""

    kind: str
    height: int
    width: int
    digest: bytes
    mean: np.ndarray  # (3,)
    mean_of_squares: np.ndarray  # (3,)


def check_source(
    config: DataConfig, seed: int = 0, progress: Callable[[int, int], None] | None = None
) -> SourceReport:
    """Decode every picture of a source once and report on the whole.

    Memory grows by some 100 bytes a picture, for its name and its digest.

    Args:
        config: the `[data]` table; `skip_bad` is taken as set, so that all that is bad is found.
        seed: of the splits that are made.
        progress: is called with (number looked at, number of pictures).

    Raises:
        DataError: the source cannot be opened at all.
    """
    if not config.source.startswith(("digits", "tfds:")):  # these have no files to skip
        config = config.model_copy(update={"skip_bad": True})
    source = open_source(config, seed, decode_all=False)  # what follows decodes them all
    tally = _Tally(source)
    total = sum(len(split) for split in source.splits.values())
    for number, (split, index, picture) in enumerate(_look_at_all(source), 1):
        tally.add(split, index, picture)
        if progress is not None and (number % _CHUNK == 0 or number == total):
            progress(number, total)
    return tally.summarise(config.source)


def _look_at_all(source: Source) -> Iterator[tuple[Split, int, _Picture | str]]:
    """Yield every picture in order, or what is wrong with it; decodes in parallel."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for split in source.splits.values():
            for start in range(0, len(split), _CHUNK):
                indices = range(start, min(start + _CHUNK, len(split)))
                raw, origins, _ = split.examples.fetch(tf.range(indices.start, indices.stop))
                look = _measure if split.examples.is_decoded else _read
                found = pool.map(
                    look, raw.numpy(), origins.numpy(), [split.examples] * len(indices)
                )
                yield from zip([split] * len(indices), indices, found, strict=True)


def _read(raw: bytes, origin: bytes, examples) -> _Picture | str:
    try:
        content = tf.convert_to_tensor(examples.load(raw)).numpy()
        pixels = images.read_image(content)
    except (images.ImageError, tf.errors.OpError) as error:
        return name_fault(images.display_name(os.fsdecode(origin)), error)
    return _describe(find_format(content[:32]), content, pixels)


def _measure(pixels: np.ndarray, origin: bytes, examples) -> _Picture:
    return _describe("array", pixels.tobytes(), pixels)


def _describe(kind: str, content: bytes, pixels: np.ndarray) -> _Picture:
    height, width = pixels.shape[:2]
    step = max(1, round((height * width / _NUM_SAMPLED) ** 0.5))
    sample = pixels[::step, ::step].reshape(-1, pixels.shape[2]).astype(np.float64)
    mean, squares = sample.mean(axis=0), np.einsum("nc,nc->c", sample, sample) / len(sample)
    digest = hashlib.blake2b(content, digest_size=16).digest()
    rgb = [np.broadcast_to(values, 3) for values in (mean, squares)]
    return _Picture(kind, height, width, digest, *rgb)


class _Tally:
    """Adds pictures up."""

    def __init__(self, source: Source):
        self.source = source
        self.counts = {name: np.zeros(len(source.class_names), int) for name in source.splits}
        self.formats, self.sizes, self.unreadable = Counter(), Counter(), []
        self.sum, self.sum_of_squares = np.zeros(3), np.zeros(3)
        self.places = {}  # digest -> [(split, index), ...]

    def add(self, split: Split, index: int, picture: _Picture | str) -> None:
        if isinstance(picture, str):
            self.unreadable.append(picture)
            return
        self.formats[picture.kind] += 1
        self.sizes[picture.height, picture.width] += 1
        self.sum += picture.mean
        self.sum_of_squares += picture.mean_of_squares
        label = split.labels[index]
        self.counts[split.name] += _count(label, len(self.source.class_names))
        self.places.setdefault(picture.digest, []).append((split, index))

    def summarise(self, name: str) -> SourceReport:
        counts = {
            split: dict(zip(self.source.class_names, numbers.tolist(), strict=True))
            for split, numbers in self.counts.items()
        }
        trained = counts["train"]
        smallest = min(trained.values())
        equal = [places for places in self.places.values() if len(places) > 1]
        num_images = sum(self.sizes.values())
        mean = self.sum / max(num_images, 1)
        variance = self.sum_of_squares / max(num_images, 1) - mean**2
        heights, widths = (Counter() for _ in range(2))
        for (height, width), count in self.sizes.items():
            heights[height] += count
            widths[width] += count
        return SourceReport(
            source=name,
            num_images=num_images,
            counts=counts,
            imbalance=round(max(trained.values()) / smallest, 2) if smallest else None,
            nearly_empty=[label for label, count in trained.items() if count < NEARLY_EMPTY],
            formats=dict(self.formats.most_common()),
            widths=_spread(widths),
            heights=_spread(heights),
            num_sizes=len(self.sizes),
            sizes=[(w, h, count) for (h, w), count in self.sizes.most_common(MOST_SIZES)],
            pixel_mean=tuple(round(value, 2) for value in mean.tolist()),
            pixel_std=tuple(round(value, 2) for value in np.sqrt(variance.clip(0)).tolist()),
            duplicates_across_labels=_names(equal, lambda split, i: split.labels[i].tolist()),
            duplicates_across_splits=_names(equal, lambda split, i: split.name),
            num_duplicates=sum(len(places) - 1 for places in equal),
            unreadable=[*self.source.unreadable, *self.unreadable],
            notes=self.source.notes,
        )


def _count(label: np.ndarray, num_classes: int) -> np.ndarray:
    """Return which classes a picture counts for, `(K,)`; `label` is a number or a row."""
    return label.astype(int) if label.ndim else np.arange(num_classes) == label


def _spread(counts: Counter) -> tuple[int, int, int]:
    """Return the smallest, the median and the largest of what was counted."""
    if not counts:
        return 0, 0, 0
    values = sorted(counts)
    cumulated = np.cumsum([counts[value] for value in values])
    median = values[int(np.searchsorted(cumulated, cumulated[-1] / 2))]
    return values[0], median, values[-1]


def _names(equal: list[list[tuple[Split, int]]], differ: Callable) -> list[list[str]]:
    """Return the names of equal pictures that `differ` does not find alike."""
    return [
        [f"{split.name}: {split.names[index]}" for split, index in places]
        for places in equal
        if len({str(differ(split, index)) for split, index in places}) > 1
    ]
