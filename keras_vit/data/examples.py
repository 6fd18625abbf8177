"""How example i of a split is read inside a graph: from memory, from files, or from record files.

All kinds answer the same calls: `len`, `labels` (`(n,)` int32 or `(n, K)` float32), `take(indices)`
(the same kind, a part of it), `join(other)`, and, in a graph, `fetch(indices) -> (raw (B,), origin
(B,), label (B,))` for a whole batch and `decode(raw, origin) -> (H, W, C)` uint8 for one. What is
cheap to do for many at once is in `fetch`, what is worth a thread of its own in `decode`;
`is_decoded` says that `raw` is pixels already. `load(raw)` gives the encoded bytes.
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

    def origins(self, indices: tf.Tensor) -> tf.Tensor:
        return tf.gather(self.paths, indices)

    def load(self, raw: tf.Tensor) -> tf.Tensor:
        return tf.io.read_file(raw)

    def decode(self, raw: tf.Tensor, origin: tf.Tensor) -> tf.Tensor:
        return _read_encoded(self.load(raw), origin)


class RecordExamples:
    """Encoded pictures inside records of tf.Example, found by number."""

    is_decoded = False

    def __init__(self, records, labels: np.ndarray, image_key: str):
        """Keep `records` (a `RecordFiles` or what answers the same calls) and `labels` `(n,)`."""
        self.records = records
        self.labels = np.asarray(labels)
        self.image_key = image_key

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, indices: np.ndarray) -> "RecordExamples":
        return RecordExamples(self.records.take(indices), self.labels[indices], self.image_key)

    def join(self, other: "RecordExamples") -> "RecordExamples":
        labels = np.concatenate([self.labels, other.labels])
        return RecordExamples(self.records.join(other.records), labels, self.image_key)

    def fetch(self, indices: tf.Tensor):
        serialized = tf.numpy_function(self.records.read, [indices], tf.string, stateful=False)
        serialized = tf.ensure_shape(serialized, indices.shape)
        feature = tf.io.FixedLenFeature((), tf.string)
        encoded = tf.io.parse_example(serialized, {self.image_key: feature})[self.image_key]
        return encoded, self.origins(indices), tf.gather(self.labels, indices)

    def origins(self, indices: tf.Tensor) -> tf.Tensor:
        return self.records.origins(indices)

    def load(self, raw: tf.Tensor) -> tf.Tensor:
        return raw

    def decode(self, raw: tf.Tensor, origin: tf.Tensor) -> tf.Tensor:
        return _read_encoded(raw, origin)


class StoredExamples:
    """Pictures of any size in memory, encoded or decoded."""

    is_decoded = False

    def __init__(
        self, pictures: list[bytes], origins: tf.Tensor, labels: np.ndarray, are_pixels: bool
    ):
        """Keep files' bytes, or serialized tensors of pixels, `origins` and `labels` `(n,)`."""
        self.pictures = pictures
        self.origins = origins
        self.labels = labels
        self.are_pixels = are_pixels

    def fetch(self, indices: tf.Tensor):
        raw = tf.numpy_function(self._gather, [indices], tf.string, stateful=False)
        raw = tf.ensure_shape(raw, indices.shape)
        return raw, tf.gather(self.origins, indices), tf.gather(self.labels, indices)

    def decode(self, raw: tf.Tensor, origin: tf.Tensor) -> tf.Tensor:
        if self.are_pixels:
            return tf.ensure_shape(tf.io.parse_tensor(raw, tf.uint8), (None, None, 3))
        return _read_encoded(raw, origin)

    def _gather(self, indices: np.ndarray) -> np.ndarray:
        return np.array([self.pictures[i] for i in indices], dtype=object)
