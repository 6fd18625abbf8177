"""Batches: a function of (seed, step), every example in its turn, the same for any thread count."""

import hashlib
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from odd_trees import clean
from PIL import Image

from keras_vit.augment import AugmentConfig
from keras_vit.data import DataConfig, evaluation_batches, open_source, training_batches
from keras_vit.data.examples import FileExamples
from keras_vit.data.pipeline import shuffle_indices
from keras_vit.images import Preprocessing, read_image

GREY = Preprocessing(image_size=(8, 8), num_channels=1)
COLOUR = Preprocessing(image_size=(16, 12))
EVERYTHING = AugmentConfig(horizontal_flip=True, rotate=0.2, zoom=(0.9, 1.1), shift=1, cutout=0.2)
CROPPED = EVERYTHING.model_copy(update={"random_resized_crop": (0.3, 1.0)})


@pytest.fixture(autouse=True, scope="module")
def own_cache_folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def digits():
    return open_source(DataConfig(), 0).splits["train"]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    clean(folder, each=6)
    return open_source(DataConfig(source=f"folder:{folder}", validation_fraction=0), 0).splits[
        "train"
    ]


def draw(
    split, num_batches, augment=EVERYTHING, preprocessing=GREY, batch_size=8, steps=10, **rest
):
    batches = training_batches(
        split, preprocessing, augment, batch_size, steps_per_epoch=steps, **rest
    )
    return [(x.numpy(), y.numpy()) for x, y in batches.take(num_batches)]


def assert_equal(first, second):
    for (pixels, labels), (other_pixels, other_labels) in zip(first, second, strict=True):
        np.testing.assert_array_equal(pixels, other_pixels)
        np.testing.assert_array_equal(labels, other_labels)


def digest(batches):
    return hashlib.sha256(b"".join(x.tobytes() + y.tobytes() for x, y in batches)).hexdigest()


def test_batches_have_a_static_shape_and_no_end(digits):
    batches = training_batches(digits, GREY, EVERYTHING, 8, 0, 10)
    pixels, labels = batches.element_spec
    assert (pixels.shape, pixels.dtype) == ((8, 8, 8, 1), tf.float32)
    assert (labels.shape, labels.dtype) == ((8,), tf.int32)
    assert batches.cardinality() > 10**17


@pytest.mark.parametrize("augment", [EVERYTHING, CROPPED])
@pytest.mark.parametrize("start", [1, 9, 10, 23])
def test_starting_anywhere_gives_the_same_batches(digits, augment, start):
    whole = draw(digits, 26, augment, seed=3)
    assert_equal(draw(digits, 26 - start, augment, seed=3, start_step=start), whole[start:])


def test_a_far_step_is_reached_at_once(digits):
    assert len(draw(digits, 1, seed=0, start_step=10**12)) == 1


@pytest.mark.parametrize("augment", [EVERYTHING, CROPPED])
def test_files_give_the_same_batches_from_any_start_and_in_another_batch_size(pictures, augment):
    whole = draw(pictures, 4, augment, COLOUR, 6, 2, seed=1)
    assert_equal(draw(pictures, 1, augment, COLOUR, 6, 2, seed=1, start_step=3), whole[3:])
    halves = draw(pictures, 4, augment, COLOUR, 3, 4, seed=1)
    np.testing.assert_array_equal(
        np.concatenate([x for x, _ in halves]), np.concatenate([x for x, _ in whole[:2]])
    )


def test_the_number_of_threads_does_not_matter(pictures):
    batches = training_batches(pictures, COLOUR, CROPPED, 4, 1, 3)
    options = tf.data.Options()
    options.threading.private_threadpool_size = 3
    options.autotune.enabled = False
    few_threads = [(x.numpy(), y.numpy()) for x, y in batches.with_options(options).take(6)]
    assert_equal(few_threads, draw(pictures, 6, CROPPED, COLOUR, 4, 3, seed=1))


def test_each_epoch_holds_every_picture_once_in_another_order_and_look(pictures):
    plain = Preprocessing(image_size=(48, 64))
    epochs = []
    for epoch in range(2):
        pixels = np.concatenate(
            [
                x
                for x, _ in draw(
                    pictures, 2, AugmentConfig(), plain, 6, 2, seed=0, start_step=2 * epoch
                )
            ]
        )
        epochs.append([picture.tobytes() for picture in pixels])
    everything = next(iter(evaluation_batches(pictures, plain, 12)))[0].numpy()
    assert sorted(epochs[0]) == sorted(picture.tobytes() for picture in everything)
    assert sorted(epochs[1]) == sorted(epochs[0]) and epochs[1] != epochs[0]
    first, second = (
        np.concatenate(
            [x for x, _ in draw(pictures, 2, EVERYTHING, plain, 6, 2, seed=0, start_step=start)]
        )
        for start in (0, 2)
    )
    assert not {p.tobytes() for p in first} & {p.tobytes() for p in second}


@pytest.mark.parametrize("name", ["jpeg", "turned jpeg", "png"])
def test_a_part_is_decoded_with_the_same_bits_as_the_whole(name, tmp_path):
    pixels = (
        np.random.default_rng(0).integers(0, 255, (6, 9, 3), np.uint8).repeat(9, 0).repeat(9, 1)
    )
    picture, path = Image.fromarray(pixels), tmp_path / "picture"
    exif = Image.Exif()
    exif[0x0112] = 6
    options = {"exif": exif} if name == "turned jpeg" else {}
    picture.save(path, "PNG" if name == "png" else "JPEG", **options)
    whole = read_image(path)
    examples = FileExamples([str(path).encode()], np.zeros(1, np.int32))
    raw, origin, _ = examples.fetch(tf.range(1))
    rng = np.random.default_rng(1)
    for _ in range(30):
        top, left = (int(rng.integers(0, side)) for side in whole.shape[:2])
        height = int(rng.integers(1, whole.shape[0] - top + 1))
        width = int(rng.integers(1, whole.shape[1] - left + 1))
        sizes, box = [], [top, left, height, width]
        part = examples.decode_box(raw[0], origin[0], partial(choose, sizes, box))
        np.testing.assert_array_equal(part, whole[top : top + height, left : left + width])
        assert sizes == [list(whole.shape[:2])]


def choose(sizes, box, height, width):
    """Take `box`, and note the size that it was to be chosen from."""
    sizes.append([int(height), int(width)])
    return tf.constant(box)


def test_labels_stay_with_their_pictures(pictures):
    # The two classes of these folders differ in tint, by far more than any change here.
    by_order = next(iter(evaluation_batches(pictures, COLOUR, 12)))
    reds = [by_order[0].numpy()[by_order[1].numpy() == label][..., 0].mean() for label in (0, 1)]
    for pixels, labels in draw(
        pictures, 4, AugmentConfig(horizontal_flip=True), COLOUR, 6, 2, seed=0
    ):
        for picture, label in zip(pixels, labels, strict=True):
            assert np.argmin(np.abs(np.array(reds) - picture[..., 0].mean())) == label


def test_the_seed_decides(digits):
    assert digest(draw(digits, 3, seed=1)) == digest(draw(digits, 3, seed=1))
    assert digest(draw(digits, 3, seed=1)) != digest(draw(digits, 3, seed=2))


def test_another_process_gets_the_same_bits(digits):
    code = (
        "from keras_vit.data import DataConfig, open_source\n"
        "from test_data_pipeline import digest, draw\n"
        "digits = open_source(DataConfig(), 0).splits['train']\n"
        "print(digest(draw(digits, 3, seed=1)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == digest(draw(digits, 3, seed=1))


@pytest.mark.parametrize("count", [2, 13, 1000])
def test_the_shuffle_is_a_permutation_and_unlike_from_epoch_to_epoch(count):
    orders = [
        shuffle_indices(
            tf.range(count, dtype=tf.int64), count, 7, tf.constant(epoch, tf.int64)
        ).numpy()
        for epoch in range(20)
    ]
    for order in orders:
        np.testing.assert_array_equal(np.sort(order), np.arange(count))
    assert len({order.tobytes() for order in orders}) > min(count, 20) // 2
    if count == 1000:
        correlations = np.corrcoef(orders)[np.triu_indices(20, 1)]
        assert np.abs(correlations).max() < 0.13


@pytest.mark.parametrize(("count", "batch_size"), [(10, 4), (10, 5), (10, 64), (10, 1)])
def test_evaluation_has_every_picture_once_and_in_order(digits, count, batch_size):
    split = digits.take("part", np.arange(count))
    batches = [(x.numpy(), y.numpy()) for x, y in evaluation_batches(split, GREY, batch_size)]
    assert [len(y) for _, y in batches[:-1]] == [batch_size] * (len(batches) - 1)
    np.testing.assert_array_equal(np.concatenate([y for _, y in batches]), split.labels)
    together = np.concatenate([x for x, _ in batches])
    whole = next(iter(evaluation_batches(digits, GREY, 64)))[0].numpy()
    np.testing.assert_array_equal(together, whole[:count])


def test_pictures_held_in_memory_equal_those_read_one_by_one(pictures, monkeypatch):
    held = [(x.numpy(), y.numpy()) for x, y in evaluation_batches(pictures, COLOUR, 5)]
    monkeypatch.setattr("keras_vit.data.memory.MAX_HELD_BYTES", 0)
    other = pictures.take("copy", np.arange(len(pictures)))
    assert_equal([(x.numpy(), y.numpy()) for x, y in evaluation_batches(other, COLOUR, 5)], held)


def test_resizing_before_training_equals_resizing_before_evaluation(digits):
    larger = Preprocessing(image_size=(16, 16), num_channels=1)
    evaluated = next(iter(evaluation_batches(digits, larger, len(digits))))[0].numpy()
    known = {picture.tobytes() for picture in evaluated}
    for pixels, _ in draw(digits, 3, AugmentConfig(), larger, seed=0):
        assert all(picture.tobytes() in known for picture in pixels)


@pytest.mark.parametrize(
    ("batch_size", "steps", "parts"),
    [
        (2000, 1, ["batch_size", "1257", "2000"]),
        (0, 1, ["batch_size", "0"]),
        (100, 13, ["steps_per_epoch", "12", "1257", "13"]),
        (100, 0, ["steps_per_epoch", "got 0"]),
    ],
)
def test_impossible_sizes_are_refused_by_name(digits, batch_size, steps, parts):
    with pytest.raises(ValueError) as caught:
        training_batches(digits, GREY, AugmentConfig(), batch_size, 0, steps)
    for part in parts:
        assert part in str(caught.value)
