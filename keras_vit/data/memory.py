"""Keeps pictures in memory, decoded or brought to size, where they are small enough."""

import weakref
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from keras_vit.images import Preprocessing, preprocess

MAX_HELD_BYTES = 1_000_000_000
# Training and each evaluation ask for the same pictures; they go when their examples go.
_HELD = weakref.WeakKeyDictionary()


def decode_all(examples, shape: tuple[int, int, int]) -> np.ndarray:
    """Decode examples that all have one `(H, W, C)` shape into `(n, H, W, C)` uint8."""
    pixels = np.empty((len(examples), *shape), np.uint8)
    channels = shape[-1]
    # A grey picture comes out of the decoder with three equal channels.
    read = read_in_order(examples, lambda decoded: decoded[..., :channels])
    for start, batch in read:
        pixels[start : start + len(batch)] = batch
    return pixels


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
    for start, batch in read_in_order(examples, lambda pixels: preprocess(pixels, preprocessing)):
        if held.dtype == np.uint8 and np.any(batch != batch.astype(np.uint8)):
            held = held.astype(np.float32)
        held[start : start + len(batch)] = batch
    with tf.device("CPU"):
        return tf.constant(held)


def read_in_order(examples, change: Callable[[tf.Tensor], tf.Tensor], num_at_once: int = 256):
    """Yield (start, batch) of all examples, decoded in parallel and changed."""
    batches = tf.data.Dataset.range(len(examples)).batch(num_at_once)
    batches = batches.map(examples.fetch, tf.data.AUTOTUNE)
    if examples.is_decoded:
        batches = batches.map(lambda raw, *_: change(raw), tf.data.AUTOTUNE)
    else:
        pictures = batches.unbatch().map(
            lambda raw, origin, _: change(examples.decode(raw, origin)), tf.data.AUTOTUNE
        )
        batches = pictures.batch(num_at_once)
    for number, batch in enumerate(batches.prefetch(2).as_numpy_iterator()):
        yield number * num_at_once, batch
