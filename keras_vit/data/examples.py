"""How example i of a split is read inside a graph: from memory, from files, or from record files.

All kinds answer the same calls: `len`, `labels` (`(n,)` int32), `take(indices)` (the same kind, a
part of it), `join(other)`, and, in a graph, `fetch(indices) -> (raw (B,), origin (B,), label (B,))`
for a whole batch and `decode(raw, origin) -> (H, W, C)` uint8 for one. What is cheap to do for many
at once is in `fetch`, what is worth a thread of its own in `decode`; `is_decoded` says that `raw`
is pixels already.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_vit import images

# Two thousand operations: traced once for all data sets, and as they stand.
_read_encoded = tf.function(
    images.read_encoded, input_signature=[tf.TensorSpec([], tf.string)] * 2, autograph=False
)


class ArrayExamples:
    """Pictures of one size, decoded and in memory."""

    is_decoded = True

    def __init__(self, pixels: np.ndarray, labels: np.ndarray):
        """Keep `pixels` `(n, H, W, C)` uint8, one or three channels, and `labels` `(n,)`."""
        with tf.device("CPU"):
            self.pixels = tf.constant(pixels)
        self.labels = np.asarray(labels)

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, indices: np.ndarray) -> "ArrayExamples":
        return ArrayExamples(self.pixels.numpy()[indices], self.labels[indices])

    def join(self, other: "ArrayExamples") -> "ArrayExamples":
        pixels = np.concatenate([self.pixels, other.pixels])
        return ArrayExamples(pixels, np.concatenate([self.labels, other.labels]))

    def fetch(self, indices: tf.Tensor):
        labels = tf.gather(self.labels, indices)
        return tf.gather(self.pixels, indices), tf.as_string(indices), labels

    def decode(self, raw: tf.Tensor, origin: tf.Tensor) -> tf.Tensor:
        return raw


class FileExamples:
    """Picture files, read one by one."""

    is_decoded = False

    def __init__(self, paths: Sequence[bytes], labels: np.ndarray):
        """Keep `paths` as bytes, since a file's name need not be text, and `labels` `(n,)`."""
        with tf.device("CPU"):
            self.paths = tf.constant(paths, tf.string)
        self.labels = np.asarray(labels)

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, indices: np.ndarray) -> "FileExamples":
        return FileExamples(self.paths.numpy()[indices], self.labels[indices])

    def join(self, other: "FileExamples") -> "FileExamples":
        paths = np.concatenate([self.paths, other.paths])
        return FileExamples(paths, np.concatenate([self.labels, other.labels]))

    def fetch(self, indices: tf.Tensor):
        chosen = tf.gather(self.paths, indices)
        return chosen, chosen, tf.gather(self.labels, indices)

    def decode(self, raw: tf.Tensor, origin: tf.Tensor) -> tf.Tensor:
        return _read_encoded(tf.io.read_file(raw), origin)


class RecordExamples:
    """Encoded pictures inside record files, found by number."""

    is_decoded = False

    def __init__(self, records, parse):
        """Read with `records(indices) -> (B,) bytes`; `parse((B,)) -> (encoded, label)` in a graph.

        `records` also has `names` (n,) and `take`.
        """
        self.records = records
        self.parse = parse
        self._labels = None

    def __len__(self) -> int:
        return len(self.records)

    @property
    def labels(self) -> np.ndarray:
        if self._labels is None:
            self._labels = self._read_labels()
        return self._labels

    def _read_labels(self, num_at_once: int = 1024) -> np.ndarray:
        parts = [np.zeros(0, np.int64)]
        for start in range(0, len(self), num_at_once):
            indices = np.arange(start, min(start + num_at_once, len(self)))
            parts.append(self.parse(tf.constant(self.records.read(indices)))[1].numpy())
        return np.concatenate(parts).astype(np.int32)

    def take(self, indices: np.ndarray) -> "RecordExamples":
        part = RecordExamples(self.records.take(indices), self.parse)
        part._labels = None if self._labels is None else self._labels[indices]
        return part

    def join(self, other: "RecordExamples") -> "RecordExamples":
        return RecordExamples(self.records.join(other.records), self.parse)

    def fetch(self, indices: tf.Tensor):
        serialized = tf.numpy_function(self.records.read, [indices], tf.string, stateful=False)
        serialized.set_shape(indices.shape)
        encoded, labels = self.parse(serialized)
        return encoded, tf.strings.join(["record ", tf.as_string(indices)]), labels

    def decode(self, raw: tf.Tensor, origin: tf.Tensor) -> tf.Tensor:
        return _read_encoded(raw, origin)
