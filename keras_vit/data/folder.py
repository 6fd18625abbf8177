"""Opens a folder of class folders, with or without train, validation and test above them."""

import itertools
import os
from collections import Counter
from pathlib import PurePath

import numpy as np

from keras_vit.data import storage
from keras_vit.data.config import DataConfig, DataError
from keras_vit.data.examples import FileExamples
from keras_vit.data.file_check import FileCheck, check_files, describe_skipped
from keras_vit.data.listing import (
    ENDINGS,
    Listing,
    describe_left_out,
    list_classes,
    list_entries,
)
from keras_vit.data.source import SPLIT_NAMES, SPLIT_SPELLINGS, Source, Split


def open_folder(root: str, config: DataConfig, check: FileCheck) -> Source:
    """List the pictures below `root` and check each of them.

    Raises:
        DataError: everything that is wrong with the folder, one line for each thing.
    """
    if not storage.exists(root):
        raise DataError(f"{root}: no such folder; expected one folder for each class in it")
    if not storage.is_folder(root):
        raise DataError(f"{root}: a file; expected a folder that holds one folder for each class")
    places, notes = _find_splits(root, config)
    listings = {name: list_classes(root, place) for name, place in places.items()}
    notes += _describe_strays(root, listings)
    problems = _find_problems(places, listings)
    bad = _find_bad_files(root, listings, check)
    readable = {name: listing.without(bad) for name, listing in listings.items()}
    lost = _find_lost_classes(listings["train"], readable["train"])
    if bad and config.skip_bad:
        notes += describe_skipped(bad.values())
    if lost or not config.skip_bad:
        problems += [*bad.values(), *lost]
    if problems:
        raise DataError("\n".join(problems))
    class_names = tuple(sorted(readable["train"].classes))
    splits = {
        name: _make_split(name, root, places[name], listing, class_names, config)
        for name, listing in readable.items()
    }
    notes += _describe_confusing_names(class_names)
    return Source(class_names, splits, 3, notes, unreadable=tuple(bad.values()))


def _find_splits(root: str, config: DataConfig) -> tuple[dict[str, str], list[str]]:
    """Return each split's folder and what to say about folders that were passed over."""
    chosen = {name: getattr(config, name) for name in SPLIT_NAMES if getattr(config, name)}
    folders = sorted(name for name, is_folder in list_entries(root) if is_folder)
    known = {
        name: folder
        for name, spellings in SPLIT_SPELLINGS.items()
        for folder in folders
        if folder.lower() in spellings
    }
    others = sorted(set(folders) - set(known.values()))
    if others and not (len(known) > 1 and _holds_folders(root, known.get("train"))):
        known, others = {}, []
    if not known:
        known = {"train": "."}
    places = {name: storage.join_path(root, folder) for name, folder in (known | chosen).items()}
    for name, place in places.items():
        if not storage.is_folder(place):
            raise DataError(f"{place}: no such folder, but {name} was to be read from it")
    if "train" not in places:
        raise DataError(f"{root}: has the folders {', '.join(folders)}, but none called train")
    notes = [f"{os.path.join(root, other)}: not one of the splits, left out" for other in others]
    return {name: places[name] for name in SPLIT_NAMES if name in places}, notes


def _holds_folders(root: str, folder: str | None) -> bool:
    """Tell a split called train, which holds class folders, from a class called train."""
    if folder is None:
        return False
    return any(is_folder for _, is_folder in list_entries(os.path.join(root, folder)))


def _find_bad_files(root: str, listings: dict[str, Listing], check: FileCheck) -> dict[str, str]:
    """Return name -> reason of each file that cannot be read."""
    folders = [files for listing in listings.values() for files in listing.classes.values()]
    names = list(itertools.chain.from_iterable(folders))
    bad = check_files([os.path.join(root, name) for name in names], check)
    return {names[i]: reason for i, reason in bad.items()}


def _describe_strays(root: str, listings: dict[str, Listing]) -> list[str]:
    notes = [
        f"{os.path.join(root, name)}: lies beside the class folders and so has no class, left out"
        for listing in listings.values()
        for name in listing.strays
    ]
    left_out = sum((listing.left_out for listing in listings.values()), Counter())
    return [*notes, describe_left_out(left_out)] if left_out else notes


def _find_problems(places: dict[str, str], listings: dict[str, Listing]) -> list[str]:
    """Return what is wrong with the layout."""
    train, place = listings["train"], places["train"]
    if not train.classes and train.strays:
        example = os.path.join(place, "CLASS", "picture.jpg")
        return [
            f"{place}: holds {len(train.strays)} pictures but no class folders; training needs one "
            f"folder for each class, as in {example}"
        ]
    if not any(train.classes.values()):
        looked = ", ".join(train.classes) or "class folders (there are none)"
        left_out = f"; {describe_left_out(train.left_out)}" if train.left_out else ""
        return [
            f"{place}: no picture found; looked in {looked} for names that end in "
            f"{ENDINGS}{left_out}"
        ]
    problems = [
        f"{os.path.join(place, name)}: this class folder holds no picture (names that end in "
        f"{ENDINGS}); remove it or fill it"
        for name, files in train.classes.items()
        if not files
    ]
    if len(train.classes) == 1:
        problems.append(
            f"{place}: holds one class only, {', '.join(train.classes)}; expected at least two"
        )
    for split, listing in listings.items():
        unknown = sorted(set(listing.classes) - set(train.classes))
        if unknown:
            problems.append(
                f"{places[split]}: holds classes that train has not: {', '.join(unknown)}; "
                f"train has {', '.join(train.classes)}"
            )
        if not any(listing.classes.values()):
            problems.append(f"{places[split]}: no picture found for the {split} split")
    return problems


def _find_lost_classes(listed: Listing, readable: Listing) -> list[str]:
    return [
        f"class {name}: none of its {len(files)} pictures can be read"
        for name, files in listed.classes.items()
        if files and not readable.classes[name]
    ]


def _make_split(
    split: str,
    root: str,
    place: str,
    listing: Listing,
    class_names: tuple[str, ...],
    config: DataConfig,
) -> Split:
    names, labels, groups = [], [], []
    for label, class_name in enumerate(class_names):
        files = listing.classes.get(class_name, [])
        names += files
        labels += [label] * len(files)
        folder = os.path.join(place, class_name)
        if config.group is not None:
            groups += [_find_group(root, name, folder, config.group) for name in files]
    paths = [os.fsencode(os.path.join(root, name)) for name in names]
    examples = FileExamples(paths, np.array(labels, np.int32))
    return Split(split, names, examples, None if config.group is None else groups, config.cache)


def _find_group(root: str, name: str, class_folder: str, level: int | str) -> str:
    """Return the folder at `level` below the class folder: `a/patient_1/x.jpg`, 1 -> patient_1."""
    if not isinstance(level, int) or level < 1:
        raise DataError(
            f"data.group = {level!r} must be a level of folders, 1 or more, for a folder source"
        )
    below = PurePath(storage.relate_path(os.path.join(root, name), class_folder)).parts[:-1]
    if len(below) < level:
        raise DataError(
            f"{os.path.join(root, name)}: has {len(below)} folders between class and picture, but "
            f"data.group = {level} needs {level}"
        )
    return below[level - 1]


def _describe_confusing_names(class_names: tuple[str, ...]) -> list[str]:
    lowered = Counter(name.lower() for name in class_names)
    alike = [name for name in class_names if lowered[name.lower()] > 1]
    return [f"the classes {', '.join(alike)} differ by upper and lower case only"] if alike else []
