"""From the `[data]` table to labelled examples: opens a source and gives it its splits."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from keras_vit.data.config import DataConfig, DataError
from keras_vit.data.csv_source import open_csv
from keras_vit.data.digits import open_digits
from keras_vit.data.file_check import FileCheck
from keras_vit.data.folder import open_folder
from keras_vit.data.holding_back import hold_back, make_fold
from keras_vit.data.source import Source
from keras_vit.data.tfds_source import open_tfds
from keras_vit.data.tfrecord_source import open_tfrecord

# Settings that mean nothing to the other kinds of source.
_ONLY_FOR = {
    "data_dir": ("tfds",),
    "train": ("folder", "tfds", "tfrecord"),
    "validation": ("folder", "tfds", "tfrecord"),
    "test": ("folder", "tfds", "tfrecord"),
    "image_key": ("tfds", "tfrecord"),
    "label_key": ("tfds", "tfrecord"),
    "class_names": ("tfrecord",),
    "group": ("folder", "csv"),
    "skip_bad": ("folder", "csv", "tfrecord"),
}


def open_source(
    config: DataConfig,
    seed: int,
    progress: Callable[[int, int], None] | None = None,
    decode_all: bool = True,
) -> Source:
    """Open a source, find everything that is wrong with it, and make the splits it lacks.

    Args:
        config: the `[data]` table.
        seed: decides, with the names, which examples are held back where the source has no such
            split itself.
        progress: is called with (files decoded, files to decode) meanwhile.
        decode_all: whether files that were never seen before are decoded to find the bad ones;
            otherwise only their headers are read.

    Raises:
        DataError: names every file that cannot be used and everything else that is wrong.
    """
    kind, _, place = config.source.partition(":")
    _refuse_idle_settings(kind, config)
    check = FileCheck(decode_all, progress)
    if kind == "digits":
        source = open_digits(config)
    elif kind == "folder":
        source = open_folder(place, config, check)
    elif kind == "csv":
        source = open_csv(place, config, check)
    elif kind == "tfrecord":
        source = open_tfrecord(place, config, check)
    else:
        source = open_tfds(place, config)
    divide = hold_back if config.num_folds is None else make_fold
    source = divide(source, config, seed)
    return replace(source, notes=source.notes + _describe_absent_classes(source))


def _refuse_idle_settings(kind: str, config: DataConfig) -> None:
    for name, kinds in _ONLY_FOR.items():
        value = getattr(config, name)
        if value not in (None, False) and kind not in kinds:
            raise DataError(
                f"data.{name} = {value!r} goes with a source of {' or '.join(kinds)}, not {kind}"
            )


def _describe_absent_classes(source: Source) -> list[str]:
    notes = []
    for name, split in source.splits.items():
        labels = split.labels
        if labels.ndim == 1:
            counts = np.bincount(labels, minlength=len(source.class_names))
        else:
            counts = labels.sum(axis=0)
        absent = [source.class_names[label] for label in np.flatnonzero(counts == 0)]
        if absent:
            notes.append(f"{name} has no picture of class {', '.join(absent)}")
    return notes
