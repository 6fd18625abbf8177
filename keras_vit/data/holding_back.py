"""Makes the splits that a source lacks out of its training pictures: held-back parts and folds."""

from dataclasses import replace

import numpy as np

from keras_vit.data.config import DataConfig, DataError
from keras_vit.data.source import SPLIT_NAMES, Source, Split
from keras_vit.data.splits import assign_splits, split_positions


def hold_back(source: Source, config: DataConfig, seed: int) -> Source:
    """Take the validation and test splits that are missing out of train."""
    fractions = {"test": config.test_fraction, "validation": config.validation_fraction}
    fractions = {
        name: part for name, part in fractions.items() if part > 0 and name not in source.splits
    }
    if not fractions:
        return source
    train = source.splits["train"]
    positions = split_positions(train.groups or train.names, seed)
    sides = assign_splits(positions, _strata(train.labels), fractions, train.groups)
    notes = [
        f"{name}: {np.count_nonzero(sides == name)} of {len(train)} pictures held back from train "
        f"({fraction:.3g} of it, seed {seed})"
        for name, fraction in fractions.items()
    ]
    notes += [
        f"no {name} split: no class of {', '.join(source.class_names)} has a picture to spare"
        for name in fractions
        if name not in sides
    ]
    return _divide(source, train, sides, notes)


def make_fold(source: Source, config: DataConfig, seed: int) -> Source:
    """Make validation out of one fold, and train out of the others.

    What is folded is all but the test split, so a validation split of the source's own is joined
    to train first. Folds follow from the names alone: they are disjoint and cover everything.
    """
    train = source.splits["train"]
    notes = []
    if "validation" in source.splits:
        train = train.join(source.splits["validation"])
        notes.append(f"folds are made of train and validation together, {len(train)} pictures")
    positions = split_positions(train.groups or train.names, seed)
    held_out = 0.0 if "test" in source.splits else config.test_fraction
    numbers = np.floor((positions - held_out) / (1 - held_out) * config.num_folds) + 1
    sides = np.where(numbers == config.fold, "validation", "train").astype(object)
    sides[numbers < 1] = "test"
    count = np.count_nonzero(sides == "validation")
    notes.append(
        f"validation: fold {config.fold} of {config.num_folds}, {count} of {len(train)} pictures "
        f"(seed {seed})"
    )
    return _divide(source, train, sides, notes)


def _strata(labels: np.ndarray) -> np.ndarray:
    """Return the class that must be on every side; with several classes a picture there is none."""
    return labels if labels.ndim == 1 else np.zeros(len(labels), np.int32)


def _divide(source: Source, train: Split, sides: np.ndarray, notes: list[str]) -> Source:
    """Put each training picture on its side."""
    splits = dict(source.splits)
    for name in SPLIT_NAMES:
        if name == "train" or np.any(sides == name):
            splits[name] = train.take(name, np.flatnonzero(sides == name))
    if not len(splits["train"]):
        held_back = ", ".join(sorted(set(sides)))
        raise DataError(
            f"all {len(train)} pictures are held back ({held_back}); expected some to train on"
        )
    ordered = {name: splits[name] for name in SPLIT_NAMES if name in splits}
    return replace(source, splits=ordered, notes=source.notes + notes)
