"""Keeps pictures in memory, as files' bytes, decoded or at the model's size, where they fit."""

import os
import weakref
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import tensorflow as tf

from keras_vit.data.config import DataError
from keras_vit.data.examples import StoredExamples
from keras_vit.data.source import Split
from keras_vit.images import Preprocessing, preprocess

# What `data.cache = "auto"` takes at most for one split.
MAX_HELD_BYTES = 1_000_000_000
_CHUNK = 256
# Training and each evaluation ask for the same pictures; they go when their examples go.
_HELD = weakref.WeakKeyDictionary()


def choose_cache(split: Split, preprocessing: Preprocessing, crops: bool) -> str:
    """Return what of a split to keep: "resized", "decoded", "bytes" or "none".

    Args:
        split: its `cache` says what is wanted.
        preprocessing: says how large the resized pictures are.
        crops: whether each epoch crops anew, so that resized pictures are of no use.

    Raises:
        DataError: `data.cache = "decoded"`, but the memory does not suffice.
    """
    needed = _resized_bytes(split, preprocessing)
    if split.examples.is_decoded or split.cache == "auto":
        return "resized" if not crops and needed <= MAX_HELD_BYTES else "none"
    if split.cache != "decoded" or crops:
        return split.cache
    _check_memory(needed, split)
    return "resized"


def describe_cache(split: Split, preprocessing: Preprocessing, crops: bool) -> str:
    """Say in a line what of a split is kept in memory."""
    choice = choose_cache(split, preprocessing, crops)
    megabytes = _resized_bytes(split, preprocessing) / 1e6
    kept = {
        "resized": f"kept in memory at the model's size, at most {megabytes:.0f} MB",
        "decoded": "kept in memory decoded",
        "bytes": "kept in memory as they are in their files",
        "none": "kept in memory decoded" if split.examples.is_decoded else "read anew each epoch",
    }
    return f"{split.name}: {len(split)} pictures, {kept[choice]} (data.cache = {split.cache})"


def hold_resized(examples, preprocessing: Preprocessing) -> tf.Tensor:
    """Bring all examples to size once, `(n, h, w, C)`.

    What is held is exactly what preprocessing on the fly would give: uint8 where all values are
    whole numbers, as they are when nothing had to be resized, else float32.
    """
    known = _HELD.setdefault(examples, {})
    if preprocessing not in known:
        known[preprocessing] = _preprocess_all(examples, preprocessing)
    return known[preprocessing]


def hold_pictures(split: Split, choice: str) -> StoredExamples:
    """Keep all pictures of a split as "bytes" of their files or "decoded".

    Raises:
        DataError: the memory does not suffice.
    """
    known = _HELD.setdefault(split.examples, {})
    if choice not in known:
        known[choice] = _store_all(split, choice)
    return known[choice]


def decode_all(examples, shape: tuple[int, int, int]) -> np.ndarray:
    """Decode examples that all have one `(H, W, C)` shape into `(n, H, W, C)` uint8."""
    pixels = np.empty((len(examples), *shape), np.uint8)
    channels = shape[-1]
    if _are_plain_png(examples):
        # 60,000 pictures of 28x28 in 5 s; by the decoder for all formats, with its checks, 30 s.
        decode = partial(tf.io.decode_png, channels=channels)
        batches = _batch(examples).unbatch().map(lambda raw, *_: decode(raw), tf.data.AUTOTUNE)
        batches = batches.batch(_CHUNK).prefetch(2)
    else:
        # A grey picture comes out of the decoder with three equal channels.
        batches = _read_in_order(examples, lambda decoded: decoded[..., :channels])
    for place, batch in _enumerate(batches):
        pixels[place] = batch
    return pixels


def _resized_bytes(split: Split, preprocessing: Preprocessing) -> int:
    height, width = preprocessing.image_size
    return len(split) * height * width * preprocessing.num_channels * 4


def _check_memory(needed: int, split: Split) -> None:
    free = _free_bytes()
    if needed > free / 2:
        raise DataError(
            f"data.cache = {split.cache!r} needs {needed / 1e6:.0f} MB or more for {split.name}, "
            f"but only half of the {free / 1e6:.0f} MB of free memory may be taken; use 'auto'"
        )


def _free_bytes() -> int:
    """Return the memory that is free, files in the system's own cache counting as such."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            kilobytes = next(line.split()[1] for line in lines if line.startswith("MemAvailable"))
        return int(kilobytes) * 1024
    except (OSError, StopIteration):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _are_plain_png(examples) -> bool:
    """Look whether all are PNG and none may have to be turned."""
    return all(
        raw.startswith(b"\x89PNG\r\n\x1a\n") and b"eXIf" not in raw
        for batch in _batch(examples).as_numpy_iterator()
        for raw in batch[0]
    )


def _preprocess_all(examples, preprocessing: Preprocessing) -> tf.Tensor:
    shape = (len(examples), *preprocessing.image_size, preprocessing.num_channels)
    held = np.empty(shape, np.uint8)
    batches = _read_in_order(examples, lambda pixels: preprocess(pixels, preprocessing))
    for place, batch in _enumerate(batches):
        if held.dtype == np.uint8 and np.any(batch != batch.astype(np.uint8)):
            held = held.astype(np.float32)
        held[place] = batch
    with tf.device("CPU"):
        return tf.constant(held)


def _store_all(split: Split, choice: str) -> StoredExamples:
    examples, pictures, size = split.examples, [], 0

    @tf.autograph.experimental.do_not_convert
    def read(raw, origin, label):
        if choice == "bytes":
            return examples.load(raw)
        return tf.io.serialize_tensor(examples.decode(raw, origin))

    dataset = _batch(examples).unbatch().map(read, tf.data.AUTOTUNE)
    for picture in dataset.as_numpy_iterator():
        size += len(picture)
        if len(pictures) % _CHUNK == 0:
            _check_memory(size, split)
        pictures.append(picture)
    origins = examples.origins(tf.range(len(examples)))
    return StoredExamples(pictures, origins, examples.labels, choice == "decoded")


def _batch(examples) -> tf.data.Dataset:
    indices = tf.data.Dataset.range(len(examples)).batch(_CHUNK)
    return indices.map(tf.autograph.experimental.do_not_convert(examples.fetch))


def _read_in_order(examples, change: Callable[[tf.Tensor], tf.Tensor]) -> tf.data.Dataset:
    """Return batches of all examples, decoded in parallel and changed."""

    @tf.autograph.experimental.do_not_convert
    def change_raw(raw, origin, label):
        return change(raw if examples.is_decoded else examples.decode(raw, origin))

    batches = _batch(examples)
    if examples.is_decoded:
        return batches.map(change_raw, tf.data.AUTOTUNE).prefetch(2)
    return batches.unbatch().map(change_raw, tf.data.AUTOTUNE).batch(_CHUNK).prefetch(2)


def _enumerate(batches: tf.data.Dataset) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield where in the whole each batch lies, and the batch."""
    for number, batch in enumerate(batches.as_numpy_iterator()):
        yield slice(number * _CHUNK, number * _CHUNK + len(batch)), batch
