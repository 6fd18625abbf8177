"""Opens a folder of class folders, with or without train, validation and test above them."""

import itertools
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from keras_vit import images
from keras_vit.data.config import DataConfig, DataError
from keras_vit.data.examples import FileExamples
from keras_vit.data.file_check import check_files
from keras_vit.data.sources import SPLIT_NAMES, Source, Split

IMAGE_EXTENSIONS = ("bmp", "gif", "jfif", "jpe", "jpeg", "jpg", "png", "tif", "tiff", "webp")
SPLIT_FOLDERS = {
    "train": ("train", "training"),
    "validation": ("validation", "val", "valid"),
    "test": ("test", "testing"),
}


@dataclass
class _Listing:
    """What was found below one split's folder."""

    classes: dict[str, list[str]]  # class -> paths relative to the source's root, sorted
    strays: list[str]  # pictures beside the class folders
    left_out: Counter = field(default_factory=Counter)  # extension -> number of files


def open_folder(root: str, config: DataConfig) -> Source:
    """List the pictures below `root` and check each one's header.

    Raises:
        DataError: everything that is wrong with the folder, one line for each thing.
    """
    if not os.path.exists(root):
        raise DataError(f"{root}: no such folder; expected one folder for each class in it")
    if not os.path.isdir(root):
        raise DataError(f"{root}: a file; expected a folder that holds one folder for each class")
    places, notes = _find_splits(root, config)
    listings = {name: _list_classes(root, place) for name, place in places.items()}
    notes += _describe_left_out(listings)
    problems = _find_problems(root, places, listings)
    bad = check_files([os.path.join(root, name) for name in _all_files(listings)])
    bad = {os.path.relpath(path, root): reason for path, reason in bad.items()}
    if bad and config.skip_bad:
        notes.append(f"left out {len(bad)} pictures that cannot be read:")
        notes += list(bad.values())
    elif bad:
        problems += list(bad.values())
    readable = {name: _without(listing, bad) for name, listing in listings.items()}
    problems += _find_lost_classes(listings["train"], readable["train"])
    if problems:
        raise DataError("\n".join(problems))
    return _make_source(root, readable, notes)


def _find_splits(root: str, config: DataConfig) -> tuple[dict[str, str], list[str]]:
    """Return each split's folder and what to say about folders that were passed over."""
    chosen = {name: getattr(config, name) for name in SPLIT_NAMES if getattr(config, name)}
    folders = sorted(name for name, is_folder in _entries(root) if is_folder)
    known = {
        name: folder
        for name, spellings in SPLIT_FOLDERS.items()
        for folder in folders
        if folder.lower() in spellings
    }
    others = sorted(set(folders) - set(known.values()))
    is_split = "train" in known and (not others or len(known) > 1 and _has_folders(root, known))
    if not is_split and not (known and not others):
        known = {"train": "."}
        others = []
    places = {
        name: os.path.normpath(os.path.join(root, folder))
        for name, folder in (known | chosen).items()
    }
    for name, place in places.items():
        if not os.path.isdir(place):
            raise DataError(f"{place}: there is no such folder, but {name} was to be read from it")
    if "train" not in places:
        raise DataError(f"{root}: has the folders {', '.join(folders)}, but none called train")
    notes = [f"{os.path.join(root, other)}: not one of the splits, left out" for other in others]
    ordered = {name: places[name] for name in SPLIT_NAMES if name in places}
    return ordered, notes


def _has_folders(root: str, known: dict[str, str]) -> bool:
    """Tell a split called train, with class folders, from a class called train."""
    return any(is_folder for _, is_folder in _entries(os.path.join(root, known["train"])))


def _entries(folder: str) -> Iterator[tuple[str, bool]]:
    """Yield each visible name in a folder and whether it is a folder itself."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if not images.is_hidden_name(entry.name):
                yield entry.name, entry.is_dir()


def _list_classes(root: str, place: str) -> _Listing:
    listing = _Listing({}, [])
    for name, is_folder in sorted(_entries(place)):
        path = os.path.join(place, name)
        if is_folder:
            found = sorted(_walk(path, listing.left_out, (os.path.realpath(place),)))
            listing.classes[name] = [os.path.relpath(path, root) for path in found]
        elif _is_picture_name(path):
            listing.strays.append(path)
        else:
            listing.left_out[_extension(name)] += 1
    return listing


def _walk(folder: str, left_out: Counter, above: tuple[str, ...]) -> Iterator[str]:
    """Yield the pictures at any depth; links are followed, but never round in a circle."""
    real = os.path.realpath(folder)
    if real in above:
        return
    for name, is_folder in _entries(folder):
        path = os.path.join(folder, name)
        if is_folder:
            yield from _walk(path, left_out, (*above, real))
        elif _is_picture_name(path):
            yield path
        else:
            left_out[_extension(name)] += 1


def _extension(name: str) -> str:
    return os.path.splitext(name)[1].lower().removeprefix(".")


def _is_picture_name(path: str) -> bool:
    """Go by the extension; a file without one counts if its first bytes are a picture's."""
    extension = _extension(os.path.basename(path))
    if extension:
        return extension in IMAGE_EXTENSIONS
    try:
        images.inspect_header(path)
    except images.ImageError:
        return False
    return True


def _all_files(listings: dict[str, _Listing]) -> list[str]:
    folders = [files for listing in listings.values() for files in listing.classes.values()]
    return list(itertools.chain.from_iterable(folders))


def _describe_left_out(listings: dict[str, _Listing]) -> list[str]:
    notes = [
        f"{path}: lies beside the class folders and so has no class, left out"
        for listing in listings.values()
        for path in listing.strays
    ]
    together = sum((listing.left_out for listing in listings.values()), Counter())
    if together:
        notes.append(_describe_extensions(together))
    return notes


def _describe_extensions(left_out: Counter) -> str:
    kinds = [
        f"{count} {'.' + extension if extension else 'without an extension'}"
        for extension, count in sorted(left_out.items())
    ]
    files = "file whose name is" if sum(left_out.values()) == 1 else "files whose names are"
    return f"left out {left_out.total()} {files} not a picture's: {', '.join(kinds)}"


def _find_problems(root: str, places: dict[str, str], listings: dict[str, _Listing]) -> list[str]:
    """Return what is wrong with the layout."""
    train, place = listings["train"], places["train"]
    endings = ", ".join("." + extension for extension in IMAGE_EXTENSIONS)
    if not train.classes and train.strays:
        example = os.path.join(place, "CLASS", "picture.jpg")
        return [
            f"{place}: holds {len(train.strays)} pictures but no class folders; training needs one "
            f"folder for each class, as in {example}"
        ]
    if not any(train.classes.values()):
        looked = ", ".join(train.classes) or "class folders (there are none)"
        left_out = f"; {_describe_extensions(train.left_out)}" if train.left_out else ""
        return [
            f"{place}: no picture found; looked in {looked} for names that end in "
            f"{endings}{left_out}"
        ]
    problems = [
        f"{os.path.join(place, name)}: this class folder holds no picture (names that end in "
        f"{endings}); remove it or fill it"
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


def _without(listing: _Listing, bad: dict[str, str]) -> _Listing:
    classes = {
        name: [file for file in files if file not in bad] for name, files in listing.classes.items()
    }
    return _Listing(classes, listing.strays, listing.left_out)


def _find_lost_classes(listed: _Listing, readable: _Listing) -> list[str]:
    return [
        f"class {name}: none of its {len(files)} pictures can be read"
        for name, files in listed.classes.items()
        if files and not readable.classes[name]
    ]


def _make_source(root: str, listings: dict[str, _Listing], notes: list[str]) -> Source:
    class_names = tuple(sorted(listings["train"].classes))
    splits = {}
    for split, listing in listings.items():
        names, labels = [], []
        for label, class_name in enumerate(class_names):
            files = listing.classes.get(class_name, [])
            if not files:
                notes.append(f"{split} has no picture of class {class_name}")
            names += files
            labels += [label] * len(files)
        paths = [os.fsencode(os.path.join(root, name)) for name in names]
        splits[split] = Split(split, names, FileExamples(paths, np.array(labels, np.int32)))
    notes += _describe_confusing_names(class_names)
    return Source(class_names, splits, 3, notes)


def _describe_confusing_names(class_names: tuple[str, ...]) -> list[str]:
    lowered = Counter(name.lower() for name in class_names)
    alike = [name for name in class_names if lowered[name.lower()] > 1]
    return [f"the classes {', '.join(alike)} differ by upper and lower case only"] if alike else []
