"""Random access to the records of TFRecord files, by an index of offsets made once."""

import os
import struct
import weakref
from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from keras_vit.data.storage import is_remote, map_file, read_facts
from keras_vit.data.tf_example import Feature, find_features, read_feature

# A record: its length (8 bytes), a checksum (4), the data, a checksum (4).
_HEADER = struct.Struct("<Q")
_BEFORE, _AFTER = 12, 4


class RecordFiles:
    """Records of several files, numbered in the order of the files."""

    def __init__(self, paths: list[str], files: np.ndarray, offsets: np.ndarray, sizes: np.ndarray):
        """Keep for each record its file (a place in `paths`), offset and size in bytes."""
        self.paths = paths
        self.files, self.offsets, self.sizes = files, offsets, sizes
        self._descriptors = {}
        weakref.finalize(self, _close, self._descriptors)

    def __len__(self) -> int:
        return len(self.offsets)

    def take(self, indices: np.ndarray) -> "RecordFiles":
        """Return the records at `indices`."""
        chosen = (values[indices] for values in (self.files, self.offsets, self.sizes))
        return RecordFiles(self.paths, *chosen)

    def join(self, other: "RecordFiles") -> "RecordFiles":
        """Return these records and then another's."""
        files = np.concatenate([self.files, other.files + len(self.paths)])
        offsets = np.concatenate([self.offsets, other.offsets])
        sizes = np.concatenate([self.sizes, other.sizes])
        return RecordFiles(self.paths + other.paths, files, offsets, sizes)

    def read(self, indices: np.ndarray) -> np.ndarray:
        """Return `(B,)` objects: the bytes of each record."""
        return np.array([self._read_one(i) for i in indices], dtype=object)

    def origins(self, indices: tf.Tensor) -> tf.Tensor:
        """Return `(B,)` strings that say where each record lies; works in a graph."""
        paths = tf.gather(tf.constant(self.paths), tf.gather(self.files, indices))
        offsets = tf.as_string(tf.gather(self.offsets, indices))
        return tf.strings.join([paths, ", record at byte ", offsets])

    def describe(self, number: int) -> str:
        """Say where a record lies."""
        return f"{self.paths[self.files[number]]}, record at byte {self.offsets[number]}"

    def find_first_features(self) -> list[Feature]:
        """Return what the first record holds."""
        record = self._read_one(0)
        return list(find_features(record, 0, len(record)))

    def read_values(self, key: str) -> list[int | bytes]:
        """Return the one value of a feature in every record, without reading the rest.

        Raises:
            ValueError: names the record that has no such value.
        """
        values = []
        for file, path in enumerate(self.paths):
            chosen = np.flatnonzero(self.files == file)
            if not len(chosen):
                continue
            with map_file(path) as buffer:
                for offset, size in zip(self.offsets[chosen], self.sizes[chosen], strict=True):
                    try:
                        values.append(read_feature(buffer, key, int(offset), int(size)))
                    except ValueError as error:
                        raise ValueError(f"{path}, record at byte {offset}: {error}") from error
        return values

    def _read_one(self, index: int) -> bytes:
        file, size, offset = (int(v[index]) for v in (self.files, self.sizes, self.offsets))
        if is_remote(self.paths[file]):
            with tf.io.gfile.GFile(self.paths[file], "rb") as opened:
                opened.seek(offset)
                return opened.read(size)
        return os.pread(self._open(file), size, offset)

    def _open(self, file: int) -> int:
        # pread moves no position, so that all threads may share one descriptor for each file.
        if file not in self._descriptors:
            self._descriptors[file] = os.open(self.paths[file], os.O_RDONLY)
        return self._descriptors[file]


def index_records(parts: Iterable[tuple[str, int, int]]) -> RecordFiles:
    """Find the records of `(path, skip, take)`, where a `take` of -1 means all that are left."""
    paths, files, offsets, sizes = [], [], [], []
    for path, skip, take in parts:
        starts, lengths = _index_file(path)
        end = len(starts) if take < 0 else skip + take
        files.append(np.full(len(starts[skip:end]), len(paths), np.int32))
        paths.append(path)
        offsets.append(starts[skip:end])
        sizes.append(lengths[skip:end])
    empty = [np.zeros(0, np.int64)]
    joined = [np.concatenate(values or empty) for values in (files, offsets, sizes)]
    return RecordFiles(paths, *joined)


def _index_file(path: str) -> tuple[np.ndarray, np.ndarray]:
    """Return where each record of a file starts and how long it is, reading headers only."""
    offsets, sizes, position = [], [], 0
    with tf.io.gfile.GFile(path, "rb") if is_remote(path) else open(path, "rb") as file:
        end = read_facts(path).size
        while position < end:
            file.seek(position)
            header = file.read(_HEADER.size)
            size = _HEADER.unpack(header)[0] if len(header) == _HEADER.size else end
            if position + _BEFORE + size + _AFTER > end:
                raise ValueError(
                    f"{path}: the record at byte {position} needs {_BEFORE + size + _AFTER} bytes, "
                    f"but the file has {end - position} left: it is cut off or no TFRecord file"
                )
            offsets.append(position + _BEFORE)
            sizes.append(size)
            position += _BEFORE + size + _AFTER
    return np.array(offsets, np.int64), np.array(sizes, np.int64)


def _close(descriptors: dict[int, int]) -> None:
    for descriptor in descriptors.values():
        os.close(descriptor)
