"""Make folders of pictures in every awkward layout, with what a right reader finds in each."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from picture_bytes import clean_jpeg, encode, upright


class OddTree(NamedTuple):
    """A folder, and what a right reader finds in it.

    Attributes:
        name: what is odd.
        path: the folder.
        expect: `read`, `refuse`, or `either` as long as it is not silent.
        images: number of pictures with a label.
        classes: class names in order.
    """

    name: str
    path: Path
    expect: str
    images: int
    classes: tuple[str, ...]


def put(path: Path, content: bytes) -> None:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def clean(root: Path, classes: Iterable[str] = ("a", "b"), each: int = 4) -> None:
    """Write a learnable class folder for each name, with that many good pictures."""
    for index, name in enumerate(classes):
        for number in range(each):
            put(root / name / f"clean_{number:02}.jpg", clean_jpeg(index, number))


def hidden_files(root: Path) -> None:
    """Litter a good folder with what systems and people leave behind."""
    clean(root)
    picture, resource_fork = encode(upright(), "JPEG"), b"\0\5\x16\7\0\2\0\0Mac OS X" + bytes(90)
    for name in ("a/.hidden.jpg", ".ipynb_checkpoints/x-checkpoint.jpg"):
        put(root / name, picture)
    for name in (
        ".DS_Store",
        ".git/config",
        "README.txt",
        "__MACOSX/a/._clean_00.jpg",
        "a/.DS_Store",
        "a/Thumbs.db",
        "a/clean_01.json",
        "b/._clean_00.jpg",
        "b/clean_00.jpg.txt",
        "b/desktop.ini",
        "labels.csv",
    ):
        put(root / name, resource_fork)


def empty_class(root: Path) -> None:
    """Add a class folder with nothing in it."""
    clean(root)
    (root / "c_empty").mkdir()


def class_all_bad(root: Path) -> None:
    """Add a class whose every file is unreadable."""
    clean(root)
    put(root / "c/x.jpg", b"")
    put(root / "c/y.jpg", b"no picture")


def three_bad(root: Path) -> None:
    """Put three unreadable files among good ones: all three must be named in one go."""
    clean(root)
    put(root / "a/empty.jpg", b"")
    put(root / "b/cut.jpg", clean_jpeg(0, 0)[:400])
    put(root / "b/text.jpg", b"no picture at all")


def no_images(root: Path) -> None:
    """Leave class folders without a picture."""
    put(root / "a/notes.txt", b"nothing here")
    (root / "b").mkdir()


def flat(root: Path) -> None:
    """Put pictures where class folders should be."""
    for number in range(4):
        put(root / f"picture_{number}.jpg", encode(upright(), "JPEG"))


def stray_root_image(root: Path) -> None:
    """Put one picture beside the class folders."""
    clean(root)
    put(root / "stray.jpg", encode(upright(), "JPEG"))


def imbalanced(root: Path) -> None:
    """Make one class nine times as large as the other."""
    clean(root, ["many"], 45)
    clean(root, ["few"], 5)


def split_root(root: Path) -> None:
    """Put train, val and test above the classes."""
    clean(root / "train")
    clean(root / "val", each=2)
    clean(root / "test", each=2)


def val_mismatch(root: Path) -> None:
    """Leave a class out of the validation split."""
    clean(root / "train", ["a", "b", "c"])
    clean(root / "val", ["a", "c"])


def folder_named_as_file(root: Path) -> None:
    """Name a folder like a picture."""
    clean(root)
    put(root / "a/folder.jpg/inner.txt", b"x")


def duplicate_across(root: Path) -> None:
    """Put the same picture under two labels."""
    clean(root)
    for name in "ab":
        put(root / name / "same.jpg", encode(upright(), "JPEG"))


def links(root: Path) -> None:
    """Add a link to a picture and a link to nothing."""
    clean(root)
    os.symlink("nowhere.jpg", root / "a/dangling.jpg")
    os.symlink(os.path.join("..", "a", "clean_00.jpg"), root / "b/linked.jpg")


AB = ("a", "b")
NUMBERS = tuple(sorted(str(number) for number in range(12)))
UNICODE = tuple(sorted(("chat d'\u00e9t\u00e9", "\u732b", "with space")))
TREES: dict[str, tuple[Callable[[Path], None], str, int, tuple[str, ...]]] = {
    "clean": (clean, "read", 8, AB),
    "hidden_files": (hidden_files, "read", 8, AB),
    "one_class": (lambda root: clean(root, ["only"]), "refuse", 4, ("only",)),
    "empty_class": (empty_class, "either", 8, AB),
    "class_all_bad": (class_all_bad, "refuse", 8, ("a", "b", "c")),
    "three_bad": (three_bad, "refuse", 8, AB),
    "no_images": (no_images, "refuse", 0, AB),
    "empty_folder": (lambda root: None, "refuse", 0, ()),
    "flat": (flat, "refuse", 4, ()),
    "stray_root_image": (stray_root_image, "read", 8, AB),
    "numeric_classes": (lambda root: clean(root, NUMBERS, 2), "read", 24, NUMBERS),
    "unicode_classes": (lambda root: clean(root, UNICODE), "read", 12, UNICODE),
    "case_differs": (lambda root: clean(root, ["Cat", "cat"]), "either", 8, ("Cat", "cat")),
    "imbalanced": (imbalanced, "read", 50, ("few", "many")),
    "tiny": (lambda root: clean(root, each=1), "either", 2, AB),
    "nested": (lambda root: clean(root, ["a/2023", "a/2024", "b/x/y"], 2), "read", 6, AB),
    "split_root": (split_root, "read", 16, AB),
    "val_mismatch": (val_mismatch, "either", 20, ("a", "b", "c")),
    "folder_named_as_file": (folder_named_as_file, "read", 8, AB),
    "duplicate_across": (duplicate_across, "read", 10, AB),
    "links": (links, "either", 9, AB),
}


def make_tree(folder: str | os.PathLike, kind: str) -> OddTree:
    """Make `folder/kind` in the layout of that name (a key of TREES) and say what is in it."""
    build, expect, images, classes = TREES[kind]
    root = Path(folder) / kind
    root.mkdir(parents=True)
    build(root)
    return OddTree(kind, root, expect, images, classes)
