"""What the verbs write: one document on standard output, and drawings."""

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def progress_on(stream: Any) -> Iterator[None]:
    """Send what the work prints (progress bars, notes of libraries) to another stream."""
    with contextlib.redirect_stdout(stream):
        yield


def print_json(document: Any) -> None:
    """Print one JSON document; in ASCII, so that every terminal and pipe can take it."""
    json.dump(document, sys.stdout, indent=2, allow_nan=False)
    print()


def check_drawing(path: Path) -> None:
    """Refuse the name of a drawing before the work for it is done.

    Raises:
        ValueError: if it does not end in .png, or its folder is not there.
    """
    if path.suffix.lower() != ".png":
        raise ValueError(f"{path}: expected a file that ends in .png")
    if not path.parent.is_dir():
        raise ValueError(f"{path}: no such folder")
