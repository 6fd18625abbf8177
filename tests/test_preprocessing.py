import json

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from pydantic import ValidationError

from keras_vit.images import Preprocessing, crop_resize, preprocess, to_channels

FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


def noise(height, width, low=0, high=256):
    values = np.random.default_rng([height, width]).integers(low, high, (height, width, 3))
    return values.astype(np.uint8)


def resize_by_pillow(pixels, height, width, interpolation="bilinear"):
    resized = Image.fromarray(pixels).resize((width, height), FILTERS[interpolation])
    return np.asarray(resized, np.float32)


def columns(*levels):
    """Return two equal rows of grey pixels."""
    return np.array([[[level] * 3 for level in levels]] * 2, np.uint8)


@pytest.mark.parametrize("size", [(1, 1), (223, 225), (10, 400), (37, 3), (16, 16)])
@pytest.mark.parametrize("target", [(16, 16), (24, 40)])
@pytest.mark.parametrize("interpolation", FILTERS)
def test_resizing_equals_pillows_within_a_level(size, target, interpolation):
    # Pillow clips between its two passes, so that bicubic is compared where nothing overshoots.
    pixels = noise(*size, 80, 176) if interpolation == "bicubic" else noise(*size)
    preprocessing = Preprocessing(image_size=target, interpolation=interpolation)

    resized = preprocess(pixels, preprocessing).numpy()

    assert resized.shape == (*target, 3) and resized.dtype == np.float32
    assert np.abs(resized - resize_by_pillow(pixels, *target, interpolation)).max() <= 1.1


def test_bicubic_has_the_kernel_of_pillow():
    pixels = noise(20, 30)[:, :, :1]
    in_floats = Image.fromarray(pixels[:, :, 0].astype(np.float32))
    expected = np.asarray(in_floats.resize((60, 40), FILTERS["bicubic"])).clip(0, 255)

    preprocessing = Preprocessing(image_size=(40, 60), num_channels=1, interpolation="bicubic")
    resized = preprocess(pixels, preprocessing)[:, :, 0]

    np.testing.assert_allclose(resized, expected, atol=0.01)
    assert resized.numpy().min() == 0 and resized.numpy().max() == 255


@pytest.mark.parametrize("size", [(30, 40), (40, 30), (33, 77), (4000, 10)])
@pytest.mark.parametrize(("side", "fraction"), [(28, 0.875), (24, 1.0), (31, 0.9)])
def test_crop_resizes_the_shorter_side_and_cuts_the_middle_out(size, side, fraction):
    # The recipe of torchvision and timm: Resize(floor(side / fraction)), then CenterCrop(side).
    pixels, covered = noise(*size), int(side / fraction)
    height, width = (covered * length // min(size) for length in size)
    top, left = round((height - side) / 2), round((width - side) / 2)
    resized = resize_by_pillow(pixels, height, width)[top : top + side, left : left + side]

    preprocessing = Preprocessing(image_size=side, resize="crop", crop_fraction=fraction)

    assert np.abs(preprocess(pixels, preprocessing).numpy() - resized).max() <= 1.01


def test_squash_takes_the_whole_picture():
    pixels = columns(0, 0, 100, 100, 200, 200)
    squashed = preprocess(pixels, Preprocessing(image_size=(2, 6))).numpy()

    np.testing.assert_array_equal(squashed, pixels)


def test_crop_cuts_off_what_juts_out():
    pixels = columns(0, 50, 100, 200)
    cropped = preprocess(pixels, Preprocessing(image_size=2, resize="crop")).numpy()

    np.testing.assert_array_equal(cropped, columns(50, 100))


def test_pad_leaves_the_rest_black():
    pixels = columns(50, 100)
    padded = preprocess(pixels, Preprocessing(image_size=(2, 6), resize="pad")).numpy()
    below = preprocess(pixels, Preprocessing(image_size=(5, 2), resize="pad")).numpy()

    np.testing.assert_array_equal(padded, columns(0, 0, 50, 100, 0, 0))
    np.testing.assert_array_equal(below[:, 0, 0], [0, 50, 50, 0, 0])


@pytest.mark.parametrize("interpolation", FILTERS)
def test_pad_fits_the_whole_picture_in(interpolation):
    pixels = noise(10, 30, 80, 176)
    preprocessing = Preprocessing(image_size=16, resize="pad", interpolation=interpolation)

    padded = preprocess(pixels, preprocessing).numpy()

    expected = resize_by_pillow(pixels, 5, 16, interpolation)  # a third of 16, rounded
    assert np.abs(padded[5:10] - expected).max() <= 1.1
    assert not padded[:5].any() and not padded[10:].any()


@pytest.mark.parametrize("resize", ["squash", "crop", "pad"])
@pytest.mark.parametrize("size", [(1, 1), (1, 300), (300, 1), (7, 9)])
def test_every_size_gives_finite_pixels_in_range(resize, size):
    preprocessing = Preprocessing(image_size=(8, 12), resize=resize, interpolation="bicubic")
    pixels = preprocess(noise(*size), preprocessing).numpy()

    assert pixels.shape == (8, 12, 3)
    assert pixels.min() >= 0 and pixels.max() <= 255


@pytest.mark.parametrize("resize", ["squash", "crop", "pad"])
@pytest.mark.parametrize("num_channels", [1, 3])
def test_a_graph_and_a_pipeline_give_the_bits_of_eager_mode(resize, num_channels):
    preprocessing = Preprocessing(
        image_size=(9, 14), num_channels=num_channels, resize=resize, interpolation="bicubic"
    )
    pixels = noise(31, 22)
    eager = preprocess(pixels, preprocessing)

    signature = [tf.TensorSpec((None, None, 3), tf.uint8)]
    graph = tf.function(lambda image: preprocess(image, preprocessing), signature)
    pipeline = tf.data.Dataset.from_tensors(pixels).map(graph)

    assert pipeline.element_spec.shape == (9, 14, num_channels)
    np.testing.assert_array_equal(graph(pixels), eager)
    np.testing.assert_array_equal(next(iter(pipeline)), eager)


def test_a_batch_is_preprocessed_picture_by_picture():
    batch = np.stack([noise(9, 7), noise(9, 7)[::-1]])
    preprocessing = Preprocessing(image_size=5, resize="crop", num_channels=1)

    expected = [preprocess(pixels, preprocessing) for pixels in batch]

    np.testing.assert_array_equal(preprocess(batch, preprocessing), expected)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
def test_pixels_of_any_type_give_the_same_bits(dtype):
    pixels, preprocessing = noise(9, 7), Preprocessing(image_size=5)

    expected = preprocess(pixels, preprocessing)

    np.testing.assert_array_equal(preprocess(pixels.astype(dtype), preprocessing), expected)


def test_one_channel_is_the_luma_of_pillow():
    pixels = noise(16, 16)
    luma = preprocess(pixels, Preprocessing(image_size=16, num_channels=1)).numpy()

    assert luma.shape == (16, 16, 1)
    assert np.abs(luma[:, :, 0] - np.asarray(Image.fromarray(pixels).convert("L"))).max() <= 0.51


def test_channels_are_kept_repeated_or_weighed():
    grey = tf.constant([[[10.0]]])
    colour = tf.constant([[[10.0, 20.0, 30.0]]])

    np.testing.assert_array_equal(to_channels(grey, 1), grey)
    np.testing.assert_array_equal(to_channels(grey, 3), [[[10, 10, 10]]])
    np.testing.assert_array_equal(to_channels(colour, 3), colour)
    np.testing.assert_allclose(to_channels(colour, 1), [[[2.99 + 11.74 + 3.42]]], rtol=1e-6)


@pytest.mark.parametrize("box", [(0, 0, 21, 33), (3, 5, 8, 8), (20, 0, 1, 33), (0, 32, 21, 1)])
def test_a_box_is_cut_out_and_resized_as_pillow_does(box):
    pixels, (top, left, height, width) = noise(21, 33), box
    preprocessing = Preprocessing(image_size=(12, 10), resize="crop", crop_fraction=0.5)

    resized = crop_resize(pixels, box, preprocessing).numpy()

    cut = np.ascontiguousarray(pixels[top : top + height, left : left + width])
    assert np.abs(resized - resize_by_pillow(cut, 12, 10)).max() <= 1.01


def test_a_box_may_be_drawn_in_a_graph():
    pixels, preprocessing = noise(21, 33), Preprocessing(image_size=8, num_channels=1)
    graph = tf.function(lambda image, box: crop_resize(image, box, preprocessing))
    box = tf.constant([2, 3, 9, 7])

    resized = graph(pixels, box)

    assert resized.shape == (8, 8, 1)
    np.testing.assert_array_equal(resized, crop_resize(pixels, box, preprocessing))


@pytest.mark.parametrize("shape", [(4, 4), (4, 4, 2), (4, 4, 4), (0, 4, 3), (1, 1, 4, 4, 3)])
def test_pixels_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match="one or three channels") as caught:
        preprocess(np.zeros(shape, np.uint8), Preprocessing(image_size=4))
    assert str(shape) in str(caught.value)


@pytest.mark.parametrize(
    "preprocessing",
    [
        Preprocessing(image_size=224),
        Preprocessing(image_size=(16, 24), num_channels=1, resize="pad", interpolation="bicubic"),
        Preprocessing(image_size=8, resize="crop", crop_fraction=0.875),
    ],
)
def test_preprocessing_survives_json(preprocessing):
    as_json = json.loads(json.dumps(preprocessing.model_dump(mode="json")))

    assert Preprocessing.model_validate(as_json) == preprocessing
    assert Preprocessing.model_validate_json(preprocessing.model_dump_json()) == preprocessing


def test_one_number_is_a_square():
    assert Preprocessing(image_size=32).image_size == (32, 32)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("image_size", 0, "greater than 0"),
        ("image_size", (16, -1), "greater than 0"),
        ("image_size", (16,), "Field required"),
        ("image_size", (16, 16, 3), "at most 2 items"),
        ("image_size", "224", "valid tuple"),
        ("image_size", (16.5, 16), "valid integer"),
        ("num_channels", 4, "1 or 3"),
        ("resize", "stretch", "'squash', 'crop' or 'pad'"),
        ("crop_fraction", 0.0, "greater than 0"),
        ("crop_fraction", 1.5, "less than or equal to 1"),
        ("crop_fraction", float("nan"), "finite"),
        ("interpolation", "nearest", "'bilinear' or 'bicubic'"),
        ("crop", 1, "Extra inputs"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(field, value, words):
    with pytest.raises(ValidationError, match=words) as caught:
        Preprocessing(**{"image_size": 16, "resize": "crop", field: value})
    assert caught.value.errors()[0]["loc"][0] == field


def test_a_crop_fraction_without_a_crop_is_refused():
    with pytest.raises(ValidationError, match="crop_fraction 0.9 goes with resize 'crop', not 'pa"):
        Preprocessing(image_size=16, resize="pad", crop_fraction=0.9)


def test_preprocessing_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        Preprocessing(image_size=16).num_channels = 1
