"""How example i of a split is read inside a graph: from memory, from files, or from record files.

All kinds answer the same calls: `len`, `labels` (`(n,)` int32 or `(n, K)` float32), `take(indices)`
(the same kind, a part of it), `join(other)`, and, in a graph, `fetch(indices) -> (raw (B,), origin
(B,), label (B,))` for a whole batch and `decode(raw, origin) -> (H, W, C)` uint8 for one. What is
cheap to do for many at once is in `fetch`, what is worth a thread of its own in `decode`, and in
`decode_box(raw, origin, choose_box)`, which decodes a part only. `is_decoded` says that `raw` is
pixels already; `load(raw)` gives the encoded bytes.
"""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from keras_vit import images

# Two thousand operations: traced once for all data sets, and as they stand.
_read_encoded = tf.function(
    images.read_encoded, input_signature=[tf.TensorSpec([], tf.string)] * 2, autograph=False
)
_EDGE = 2
# (height, width) -> (top, left, height, width), all int32
ChooseBox = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


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

    def decode_box(self, raw: tf.Tensor, origin: tf.Tensor, choose_box: ChooseBox) -> tf.Tensor:
        return _cut_out(raw, choose_box)


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

    def decode_box(self, raw: tf.Tensor, origin: tf.Tensor, choose_box: ChooseBox) -> tf.Tensor:
        return _read_box(self.load(raw), origin, choose_box)


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

    def decode_box(self, raw: tf.Tensor, origin: tf.Tensor, choose_box: ChooseBox) -> tf.Tensor:
        return _read_box(raw, origin, choose_box)


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

    def decode_box(self, raw: tf.Tensor, origin: tf.Tensor, choose_box: ChooseBox) -> tf.Tensor:
        if self.are_pixels:
            return _cut_out(self.decode(raw, origin), choose_box)
        return _read_box(raw, origin, choose_box)

    def _gather(self, indices: np.ndarray) -> np.ndarray:
        return np.array([self.pictures[i] for i in indices], dtype=object)


def _cut_out(pixels: tf.Tensor, choose_box: ChooseBox) -> tf.Tensor:
    size = tf.shape(pixels)
    top, left, height, width = tf.unstack(choose_box(size[0], size[1]))
    return pixels[top : top + height, left : left + width]


def _read_box(encoded: tf.Tensor, origin: tf.Tensor, choose_box: ChooseBox) -> tf.Tensor:
    """Decode a part of a picture; of an upright JPEG only that part, with the same bits."""

    def read_part():
        height, width, _ = tf.unstack(tf.image.extract_jpeg_shape(encoded))
        top, left, box_height, box_width = tf.unstack(choose_box(height, width))
        # Colours are interpolated between neighbours, so the edge needs some beyond it.
        first = tf.maximum(tf.stack([top, left]) - _EDGE, 0)
        last = tf.minimum(
            tf.stack([top + box_height, left + box_width]) + _EDGE, tf.stack([height, width])
        )
        # 210 random crops from 500x375 to 224 a second and core, against 169 by whole pictures.
        part = tf.io.decode_and_crop_jpeg(
            encoded,
            tf.concat([first, last - first], axis=0),
            channels=3,
            dct_method="INTEGER_ACCURATE",
        )
        top, left = top - first[0], left - first[1]
        return part[top : top + box_height, left : left + box_width]

    part = tf.cond(
        _is_upright_jpeg(encoded),
        read_part,
        lambda: _cut_out(_read_encoded(encoded, origin), choose_box),
    )
    return tf.ensure_shape(part, (None, None, 3))


def _is_upright_jpeg(encoded: tf.Tensor) -> tf.Tensor:
    """Say whether a file is a JPEG that has no word on how it must be turned, and is not huge."""
    is_jpeg = tf.strings.substr(encoded, 0, 3) == b"\xff\xd8\xff"

    def is_plain():
        without = tf.strings.regex_replace(encoded, r"Exif\x00\x00", "", replace_global=False)
        size = tf.cast(tf.image.extract_jpeg_shape(encoded), tf.int64)
        whole = tf.strings.length(without) == tf.strings.length(encoded)
        return whole & (size[0] * size[1] <= images.MAX_PIXELS)

    return tf.cond(is_jpeg, is_plain, lambda: False)
