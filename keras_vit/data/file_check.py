"""Decodes every picture once before the first step, many at once, and names each bad one.

What was found good is remembered by path, size and time of change, so that a folder costs its
decoding only the first time it is seen.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_vit import images

_CHUNK = 256
# 8 bytes a picture; beyond this some are forgotten, and checked again.
_MAX_REMEMBERED = 8_000_000
# A change of what counts as readable changes this.
_RULES = f"1 {tf.__version__}"


def check_files(
    paths: Sequence[str], progress: Callable[[int, int], None] | None = None
) -> dict[int, str]:
    """Return place in `paths` -> reason, for each file that cannot be used.

    Args:
        paths: the files.
        progress: is called with (number checked, number to check) now and then.
    """
    marks = np.array([_mark(path) for path in paths], np.uint64)
    unknown = np.flatnonzero(~np.isin(marks, _recall()) | (marks == 0))
    reasons = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(unknown), _CHUNK):
            chunk = unknown[start : start + _CHUNK]
            found = pool.map(_find_fault, [paths[i] for i in chunk])
            reasons |= {int(i): reason for i, reason in zip(chunk, found, strict=True) if reason}
            if progress is not None:
                progress(start + len(chunk), len(unknown))
    _remember(marks[[i for i in unknown if i not in reasons]])
    return reasons


def _find_fault(path: str) -> str:
    try:
        images.check_file(path)
    except images.ImageError as error:
        return str(error)
    return ""


def _mark(path: str) -> int:
    """Return a hash of what a file is by its path, size and time; 0 if it cannot be told."""
    try:
        status = os.stat(path)
    except OSError:
        return 0
    facts = f"{_RULES}\0{os.path.realpath(path)}\0{status.st_size}\0{status.st_mtime_ns}"
    digest = hashlib.blake2b(facts.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _memory_file() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(home) / "keras_vit" / "readable_pictures.bin"


def _recall() -> np.ndarray:
    """Return the marks of the pictures known to be good; none where there is no cache folder."""
    try:
        stored = _memory_file().read_bytes()
    except OSError:
        return np.zeros(0, np.uint64)
    return np.frombuffer(stored[: len(stored) // 8 * 8], np.uint64)


def _remember(marks: np.ndarray) -> None:
    """Add marks; a place that cannot be written only means that the next run checks again."""
    if not len(marks):
        return
    together = np.union1d(_recall(), marks)[-_MAX_REMEMBERED:]
    file = _memory_file()
    beside = file.with_name(f"{file.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(together.tobytes())
        os.replace(beside, file)
    with contextlib.suppress(OSError):
        beside.unlink(missing_ok=True)
