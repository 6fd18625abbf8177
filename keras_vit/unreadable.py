"""Say in words, and naming the file, why it cannot be read as a picture."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

FOREIGN_FILES = (  # start of the file, where it stands, and what such a file is
    (
        b"version https://git-lfs",
        0,
        "a Git LFS pointer, not the picture itself: run `git lfs pull`",
    ),
    (b"%PDF", 0, "a PDF document, not an image"),
    (b"PK\x03\x04", 0, "a ZIP archive, not an image"),
    (b"\x1f\x8b", 0, "a gzip archive, not an image"),
    (b"8BPS", 0, "a Photoshop document: save it as PNG or JPEG first"),
    (b"\0\0\1\0", 0, "an icon file: save it as PNG first"),
    (b"\xff\x0a", 0, "a JPEG XL picture: save it as PNG or JPEG first"),
    (b"\0\0\0\x0cJXL ", 0, "a JPEG XL picture: save it as PNG or JPEG first"),
    (b"ftyphei", 4, "an HEIC picture: save it as PNG or JPEG first"),
    (b"ftyphev", 4, "an HEIC picture: save it as PNG or JPEG first"),
    (b"ftypmif1", 4, "an HEIF picture: save it as PNG or JPEG first"),
    (b"ftyp", 4, "a video, not an image"),
    (b"\x93NUMPY", 0, "a NumPy array, not an image file"),
    (b"\x89HDF", 0, "an HDF5 file, not an image"),
)
HTML_START = re.compile(rb"(\xef\xbb\xbf)?\s*<(!doctype\s+html|html|head|body)\b", re.IGNORECASE)
XML_START = re.compile(rb"(\xef\xbb\xbf)?\s*<(\?xml|svg)\b", re.IGNORECASE)
HIDDEN_NAMES = frozenset(
    ["thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r", "__macosx", "__pycache__", "@eadir"]
    + ["$recycle.bin", "system volume information", "lost+found"]
)
ENCODED = "image bytes"  # the name of a picture that has none


class ImageError(ValueError):
    """A picture that cannot be read; the message is `<path or 'image bytes'>: <reason>`."""


class UnreadableError(Exception):
    """Why a picture cannot be read, before its name is known."""


@contextmanager
def naming(source: str | os.PathLike | bytes) -> Iterator[None]:
    """Turn what goes wrong while reading `source` into an ImageError that names it."""
    try:
        yield
    except UnreadableError as reason:
        raise ImageError(f"{display_name(source)}: {reason}") from reason.__cause__
    except OSError as error:
        raise ImageError(f"{display_name(source)}: {describe_file_trouble(error)}") from error


def display_name(source: str | os.PathLike | bytes) -> str:
    """Return the name for messages: the path in one line that any UTF-8 console can print."""
    if isinstance(source, bytes):
        return ENCODED
    text = os.fsencode(source).decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def is_hidden_name(name: str) -> bool:
    """Tell whether a file or folder of that name is the system's, and no picture of a person's."""
    return name.startswith((".", "~$")) or name.lower() in HIDDEN_NAMES


def describe_file_trouble(error: OSError) -> str:
    """Return the reason for which the system did not let us read a file."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, IsADirectoryError):
        return "this is a folder, not a file"
    if isinstance(error, PermissionError):
        return "reading it is not permitted"
    return f"the system cannot read it: {error.strerror or error}"


def describe_foreign_file(head: bytes) -> str:
    """Return what a file is that is no picture, by its first bytes."""
    if not head:
        return "the file is empty"
    for start, position, description in FOREIGN_FILES:
        if head[position:].startswith(start):
            return f"this is {description}"
    if HTML_START.match(head):
        return "this is an HTML page, not an image"
    if XML_START.match(head):
        return "this is an XML or SVG file: draw it as PNG first"
    if not head.strip(b"\0"):
        return "there are only zero bytes in it"
    if _is_text(head):
        return f"this is text, not an image: it starts with {_quote(head)}"
    return "this is not an image of a known format"


def _is_text(head: bytes) -> bool:
    text = head.decode("utf-8", "ignore")
    lost = len(head) - len(text.encode())  # a letter of up to four bytes may be cut at the end
    return lost < 4 and all(c.isprintable() or c in "\t\r\n\f" for c in text)


def _quote(head: bytes, most: int = 24) -> str:
    words = " ".join(head.decode("utf-8", "ignore").split())
    return repr(words if len(words) <= most else words[:most] + "...")
