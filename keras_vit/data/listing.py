"""Lists the picture files below a folder, and counts what it leaves out."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from keras_vit import images
from keras_vit.data.storage import list_folder, relate_path

_EXTENSIONS = {
    extension.removeprefix(".")
    for formats in images.IMAGE_FORMATS.values()
    for extensions in formats.values()
    for extension in extensions
}
ENDINGS = ", ".join(f".{extension}" for extension in sorted(_EXTENSIONS))


@dataclass
class Listing:
    """What was found below one split's folder; paths are relative to the source's root.

    Attributes:
        classes: class name -> its pictures, sorted.
        strays: pictures beside the class folders.
        left_out: extension -> number of files that are no pictures by their name.
    """

    classes: dict[str, list[str]] = field(default_factory=dict)
    strays: list[str] = field(default_factory=list)
    left_out: Counter = field(default_factory=Counter)

    def without(self, names: dict[str, str]) -> "Listing":
        """Return this listing without the files that are keys of `names`."""
        classes = {
            class_name: [file for file in files if file not in names]
            for class_name, files in self.classes.items()
        }
        return Listing(classes, self.strays, self.left_out)


def list_classes(root: str, place: str) -> Listing:
    """List the class folders in `place`, each with the pictures at any depth below it."""
    listing = Listing()
    relative = relate_path(place, root)
    for name, is_folder in sorted(list_entries(place)):
        path, shown = os.path.join(place, name), os.path.join(relative, name)
        if is_folder:
            found = _walk(path, shown, listing.left_out, (os.path.realpath(place),))
            listing.classes[name] = sorted(found)
        elif _is_picture_name(place, name):
            listing.strays.append(shown)
        else:
            listing.left_out[_extension(name)] += 1
    return listing


def list_entries(folder: str) -> Iterator[tuple[str, bool]]:
    """Yield each visible name in a folder and whether it is a folder itself."""
    for name, is_folder in list_folder(folder):
        if not images.is_hidden_name(name):
            yield name, is_folder


def describe_left_out(left_out: Counter) -> str:
    """Say how many files were left out, by their extension."""
    kinds = [
        f"{count} {'.' + extension if extension else 'without an extension'}"
        for extension, count in sorted(left_out.items())
    ]
    files = "file whose name is" if left_out.total() == 1 else "files whose names are"
    return f"left out {left_out.total()} {files} not a picture's: {', '.join(kinds)}"


def _walk(folder: str, shown: str, left_out: Counter, above: tuple[str, ...]) -> Iterator[str]:
    """Yield the pictures at any depth, below `shown`; links are followed, but not in a circle."""
    real = os.path.realpath(folder)
    if real in above:
        return
    for name, is_folder in list_entries(folder):
        if is_folder:
            below = os.path.join(folder, name), os.path.join(shown, name)
            yield from _walk(*below, left_out, (*above, real))
        elif _is_picture_name(folder, name):
            yield f"{shown}{os.sep}{name}"
        else:
            left_out[_extension(name)] += 1


def _extension(name: str) -> str:
    stem, dot, extension = name.rpartition(".")
    return extension.lower() if dot and stem else ""


def _is_picture_name(folder: str, name: str) -> bool:
    """Go by the extension; a file without one counts if its first bytes are a picture's."""
    extension = _extension(name)
    if extension:
        return extension in _EXTENSIONS
    try:
        images.inspect_header(os.path.join(folder, name))
    except images.ImageError:
        return False
    return True
