"""Files on a disk or behind a scheme such as gs://, which TensorFlow's file systems read."""

import contextlib
import glob
import mmap
import os
from collections.abc import Iterator
from typing import NamedTuple

import tensorflow as tf


class Facts(NamedTuple):
    """What tells one state of a file from another."""

    size: int
    changed: int  # nanoseconds


def is_remote(path: str) -> bool:
    """Say whether a path has a scheme."""
    return "://" in path


def join_path(folder: str, name: str) -> str:
    """Return `folder/name`, without the dots that a local path can do without."""
    if is_remote(folder):
        return folder.rstrip("/") if name == os.curdir else f"{folder.rstrip('/')}/{name}"
    return os.path.normpath(os.path.join(folder, name))


def relate_path(path: str, folder: str) -> str:
    """Return the path as seen from a folder above it; empty for the folder itself."""
    if is_remote(path):
        return path.removeprefix(folder.rstrip("/")).strip("/")
    relative = os.path.relpath(path, folder)
    return "" if relative == os.curdir else relative


def is_folder(path: str) -> bool:
    return tf.io.gfile.isdir(path) if is_remote(path) else os.path.isdir(path)


def exists(path: str) -> bool:
    return tf.io.gfile.exists(path) if is_remote(path) else os.path.exists(path)


def list_folder(folder: str) -> Iterator[tuple[str, bool]]:
    """Yield each name in a folder and whether it is a folder itself."""
    if is_remote(folder):
        for name in tf.io.gfile.listdir(folder):
            name = name.rstrip("/")
            yield name, tf.io.gfile.isdir(join_path(folder, name))
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            yield entry.name, entry.is_dir()


def find_files(pattern: str) -> list[str]:
    """Return the files that match a pattern, sorted."""
    found = tf.io.gfile.glob(pattern) if is_remote(pattern) else glob.glob(pattern)
    return sorted(found)


def read_facts(path: str) -> Facts | None:
    """Return a file's facts, or None if it has none."""
    try:
        if is_remote(path):
            remote = tf.io.gfile.stat(path)
            return Facts(remote.length, remote.mtime_nsec)
        status = os.stat(path)
    except (OSError, tf.errors.OpError):
        return None
    return Facts(status.st_size, status.st_mtime_ns)


def read_bytes(path: str) -> bytes:
    """Read a whole file."""
    if is_remote(path):
        with tf.io.gfile.GFile(path, "rb") as file:
            return file.read()
    with open(path, "rb") as file:
        return file.read()


@contextlib.contextmanager
def map_file(path: str) -> Iterator[bytes | mmap.mmap]:
    """Give a file's content, of which only what is looked at is read if it is on a disk."""
    if is_remote(path):
        yield read_bytes(path)
        return
    with (
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        yield content
