"""Decodes every picture once before the first step, many at once, and names each bad one.

What was found good is remembered by path, size and time of change, so that a folder costs its
decoding only the first time it is seen.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_vit import images
from keras_vit.data.records import RecordFiles
from keras_vit.data.storage import is_remote, read_bytes, read_facts
from keras_vit.data.tf_example import read_feature
from keras_vit.files import replacing

_CHUNK = 256
# 8 bytes a picture; beyond this some are forgotten, and checked again.
_MAX_REMEMBERED = 8_000_000
# A change of what counts as readable changes this.
_RULES = f"1 {tf.__version__}"


class FileCheck(NamedTuple):
    """How thoroughly files are looked at.

    Attributes:
        decode: whether to decode those that were never seen before; else only headers are read.
        progress: is called with (number decoded, number to decode) now and then.
    """

    decode: bool = True
    progress: Callable[[int, int], None] | None = None


def check_files(paths: Sequence[str], check: FileCheck) -> dict[int, str]:
    """Return place in `paths` -> reason, for each file that cannot be used."""
    if not check.decode:
        look = partial(_look_at_file, paths, images.inspect_header)
        return _find_faults(range(len(paths)), look, None)
    marks = np.array([_mark(path) for path in paths], np.uint64)
    return _find_new_faults(marks, partial(_look_at_file, paths, images.check_file), check.progress)


def check_records(records: RecordFiles, image_key: str, check: FileCheck) -> dict[int, str]:
    """Return number -> reason, for each record whose picture cannot be used.

    A record has no header of its own to look at, so that without decoding nothing is found.
    """
    if not check.decode:
        return {}
    shards = np.array([_mark(path) for path in records.paths], np.uint64)[records.files]
    spread = records.offsets.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    marks = np.where(shards, shards ^ spread, np.uint64(0))

    def look(number: int) -> str:
        (record,) = records.read(np.array([number]))
        try:
            images.read_image(read_feature(record, image_key))
        except ValueError as error:
            return name_fault(records.describe(number), error)
        return ""

    return _find_new_faults(marks, look, check.progress)


def name_fault(origin: str, error: Exception) -> str:
    """Put the origin of encoded bytes where the message has none."""
    return f"{origin}: {str(error).removeprefix('image bytes: ')}"


def _look_at_file(paths: Sequence[str], look: Callable, place: int) -> str:
    """Return what is wrong with a file."""
    path = paths[place]
    try:
        if is_remote(path):
            images.read_image(read_bytes(path))
        else:
            look(path)
    except images.ImageError as error:
        return name_fault(path, error) if is_remote(path) else str(error)
    except tf.errors.OpError as error:
        return f"{path}: cannot be read: {error.message}"
    return ""


def _find_new_faults(
    marks: np.ndarray, look: Callable[[int], str], progress: Callable | None
) -> dict[int, str]:
    """Look at what is not known to be good, and remember what is found good."""
    unknown = np.flatnonzero(~np.isin(marks, _recall()) | (marks == 0)).tolist()
    faults = _find_faults(unknown, look, progress)
    _remember(marks[[i for i in unknown if i not in faults]])
    return faults


def _find_faults(
    places: Sequence[int], look: Callable[[int], str], progress: Callable | None
) -> dict[int, str]:
    """Look at some places in parallel."""
    faults = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(places), _CHUNK):
            chunk = places[start : start + _CHUNK]
            reasons = zip(chunk, pool.map(look, chunk), strict=True)
            faults |= {place: reason for place, reason in reasons if reason}
            if progress is not None:
                progress(start + len(chunk), len(places))
    return faults


def describe_skipped(reasons: Collection[str]) -> list[str]:
    """Say how many pictures are left out because they cannot be read, and which."""
    pictures = "picture that cannot" if len(reasons) == 1 else "pictures that cannot"
    return [f"left out {len(reasons)} {pictures} be read:", *reasons]


def _mark(path: str) -> int:
    """Return a hash of what a file is by its path, size and time; 0 if it cannot be told."""
    facts = read_facts(path)
    if facts is None:
        return 0
    where = "" if os.path.isabs(path) or is_remote(path) else os.getcwd()
    text = f"{_RULES}\0{where}\0{path}\0{facts.size}\0{facts.changed}"
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
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
    with contextlib.suppress(OSError), replacing(_memory_file()) as temporary:
        temporary.write_bytes(together.tobytes())
