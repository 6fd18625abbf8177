"""Keeps pictures in memory, decoded or brought to size, where they are small enough."""

import weakref
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import tensorflow as tf

from keras_vit.images import Preprocessing, preprocess

MAX_HELD_BYTES = 1_000_000_000
_CHUNK = 256
# Training and each evaluation ask for the same pictures; they go when their examples go.
_HELD = weakref.WeakKeyDictionary()


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


def _are_plain_png(examples) -> bool:
    """Look whether all are PNG and none may have to be turned."""
    return all(
        raw.startswith(b"\x89PNG\r\n\x1a\n") and b"eXIf" not in raw
        for batch in _batch(examples).as_numpy_iterator()
        for raw in batch[0]
    )


def hold_preprocessed(examples, preprocessing: Preprocessing) -> tf.Tensor | None:
    """Bring all examples to size once, `(n, h, w, C)`; None where they would not fit.

    What is held is exactly what preprocessing on the fly would give: uint8 where all values are
    whole numbers, as they are when nothing had to be resized, else float32.
    """
    known = _HELD.setdefault(examples, {})
    if preprocessing not in known:
        known[preprocessing] = _preprocess_all(examples, preprocessing)
    return known[preprocessing]


def _preprocess_all(examples, preprocessing: Preprocessing) -> tf.Tensor | None:
    shape = (len(examples), *preprocessing.image_size, preprocessing.num_channels)
    if np.prod(shape, dtype=np.int64) * 4 > MAX_HELD_BYTES:
        return None
    held = np.empty(shape, np.uint8)
    batches = _read_in_order(examples, lambda pixels: preprocess(pixels, preprocessing))
    for place, batch in _enumerate(batches):
        if held.dtype == np.uint8 and np.any(batch != batch.astype(np.uint8)):
            held = held.astype(np.float32)
        held[place] = batch
    with tf.device("CPU"):
        return tf.constant(held)


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
