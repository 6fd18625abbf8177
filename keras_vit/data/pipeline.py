"""From a split to batches: an index that can start at any step, not a stream.

Training: step -> the numbers of its examples (a shuffle that is computed, not stored) -> read,
decode, resize -> batch -> augment -> prefetch. Every element is a function of (seed, step) alone,
so a run that starts at step 1,000,000 gets there at once and with the very same batches.
"""

from collections.abc import Callable
from functools import partial

import tensorflow as tf

from keras_vit.augment import AugmentConfig, augment_batch, draw_key, random_box
from keras_vit.data.memory import choose_cache, hold_pictures, hold_resized
from keras_vit.data.source import Split
from keras_vit.images import Preprocessing, crop_resize, preprocess

# A finite end would make `fit` stop early after a resume: it counts the steps that it has seen.
_NO_END = 2**62


def training_batches(
    split: Split,
    preprocessing: Preprocessing,
    augment: AugmentConfig,
    batch_size: int,
    seed: int,
    steps_per_epoch: int,
    start_step: int = 0,
) -> tf.data.Dataset:
    """Return endless shuffled, augmented batches, from `start_step` on.

    Args:
        split: what to train on.
        preprocessing: how a picture is brought to size (training's random crop replaces it).
        augment: the random changes.
        batch_size: of every batch; what does not fill one is left out, another part each epoch.
        seed: of shuffling and augmentation.
        steps_per_epoch: at most `len(split) // batch_size`.
        start_step: counted over all epochs; costs nothing.

    Returns:
        A data set of `(batch_size, h, w, C)` float32 in [0, 255] and the labels, `(batch_size,)`
        int32 or `(batch_size, K)` float32.
    """
    _check_steps(len(split), batch_size, steps_per_epoch)

    def choose(step):  # -> (B,) examples, (B,) keys
        epoch = step // steps_per_epoch
        first = step % steps_per_epoch * batch_size
        indices = shuffle_indices(tf.range(first, first + batch_size), len(split), seed, epoch)
        indices = tf.ensure_shape(indices, (batch_size,))
        return indices, draw_key(seed, epoch, indices)

    def change(pixels, keys):
        return augment_batch(pixels, augment, keys)

    steps = tf.data.Dataset.range(start_step, _NO_END)
    if augment.random_resized_crop is None:
        return _read_batches(steps, choose, split, preprocessing, batch_size, change)

    choice = choose_cache(split, preprocessing, crops=True)
    crop = partial(_read_crop, augment, preprocessing)
    return _read_pictures(steps, choose, split, choice, crop, batch_size, change)


def evaluation_batches(
    split: Split, preprocessing: Preprocessing, batch_size: int
) -> tf.data.Dataset:
    """Return every picture of a split once, in order; the last batch may be smaller."""
    indices = tf.data.Dataset.range(len(split)).batch(batch_size)

    def choose(indices):
        return indices, indices

    def change(pixels, keys):
        return pixels

    return _read_batches(indices, choose, split, preprocessing, batch_size, change)


def shuffle_indices(places: tf.Tensor, count: int, seed: int, epoch: tf.Tensor) -> tf.Tensor:
    """Return which of `count` examples stand at `places` in the order of this epoch.

    Raw seeds give only 256 orders, alike from epoch to epoch; so they are hashed first.
    """
    key = tf.random.stateless_uniform([3], [seed, epoch], None, None, tf.int32)
    return tf.raw_ops.RandomIndexShuffle(index=places, seed=key, max_index=count - 1, rounds=8)


def _check_steps(count: int, batch_size: int, steps_per_epoch: int) -> None:
    if batch_size < 1 or count < batch_size:
        raise ValueError(
            f"batch_size must be from 1 to the number of pictures to train on, {count}; "
            f"got {batch_size}"
        )
    if not 1 <= steps_per_epoch <= count // batch_size:
        raise ValueError(
            f"steps_per_epoch must be from 1 to {count // batch_size} ({count} pictures in batches "
            f"of {batch_size}); got {steps_per_epoch}"
        )


def _read_crop(
    augment: AugmentConfig,
    preprocessing: Preprocessing,
    examples,
    raw: tf.Tensor,
    origin: tf.Tensor,
    key: tf.Tensor,
) -> tf.Tensor:
    """Read a random part of one picture and bring it to size."""
    part = examples.decode_box(raw, origin, lambda h, w: random_box(h, w, augment, key))
    size = tf.shape(part)
    return crop_resize(part, tf.stack([0, 0, size[0], size[1]]), preprocessing)


def _read_batches(
    numbers: tf.data.Dataset,
    choose: Callable,
    split: Split,
    preprocessing: Preprocessing,
    batch_size: int,
    change: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
) -> tf.data.Dataset:
    """Read pictures brought to size, from memory if they fit, for each of `numbers` a batch."""
    choice = choose_cache(split, preprocessing, crops=False)
    if choice == "resized":
        held, labels = hold_resized(split.examples, preprocessing), tf.constant(split.labels)

        def gather(number):
            indices, keys = choose(number)
            pixels = tf.cast(tf.gather(held, indices), tf.float32)
            return change(pixels, keys), tf.gather(labels, indices)

        return _finish(numbers, gather)

    def resize(examples, raw, origin, key):
        return preprocess(examples.decode(raw, origin), preprocessing)

    return _read_pictures(numbers, choose, split, choice, resize, batch_size, change)


def _read_pictures(
    numbers: tf.data.Dataset,
    choose: Callable,
    split: Split,
    choice: str,
    read: Callable[..., tf.Tensor],
    batch_size: int,
    change: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
) -> tf.data.Dataset:
    """Read one by one in parallel, `read(examples, raw, origin, key)`, and batch."""
    examples = split.examples if choice == "none" else hold_pictures(split, choice)

    def fetch(number):
        indices, keys = choose(number)
        return *examples.fetch(indices), keys

    def read_one(raw, origin, label, key):
        return read(examples, raw, origin, key), label, key

    pictures = _map(_map(numbers, fetch).unbatch(), read_one)
    # Endless batches are all full; said so, their shape is known beforehand.
    is_endless = numbers.element_spec.shape.rank == 0
    batches = pictures.batch(batch_size, drop_remainder=is_endless)
    return _finish(batches, lambda pixels, labels, keys: (change(pixels, keys), labels))


def _finish(dataset: tf.data.Dataset, function: Callable) -> tf.data.Dataset:
    """Do the last step, and read ahead."""
    options = tf.data.Options()
    options.deterministic = True
    return _map(dataset, function).prefetch(tf.data.AUTOTUNE).with_options(options)


def _map(dataset: tf.data.Dataset, function: Callable) -> tf.data.Dataset:
    """Map in parallel and in order; AutoGraph, which nothing here needs, would take seconds."""
    function = tf.autograph.experimental.do_not_convert(function)
    return dataset.map(function, tf.data.AUTOTUNE, deterministic=True)
