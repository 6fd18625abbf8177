"""Nothing half-written is ever under its final name: write beside, then rename."""

import contextlib
import os
import secrets
from pathlib import Path


@contextlib.contextmanager
def replacing(path):
    """Gives a temporary path beside `path`; it takes the name when the block ends well.

    The file is flushed to the disk before the rename; if the block raises, it is removed and
    what was under the name stays.

    Args:
        path: The final name; missing folders above it are made.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # the ending stays last: Keras and matplotlib go by it
    temporary = path.with_name(f".{path.stem}.{secrets.token_hex(4)}{path.suffix}")
    try:
        yield temporary
        _flush(temporary)
        os.replace(temporary, path)
        _flush(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path, text):
    """Writes UTF-8 text under a name, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _flush(path):
    """Asks the system to put a file or folder on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
