"""Patches, encoder, normalisation, pooling and head against hand-made and NumPy answers."""

import keras
import numpy as np
import numpy_vit
import pytest
from layer_contract import check_layer, randomize, to_numpy

from keras_vit.layers import (
    ClassifierHead,
    PatchEncoder,
    Patches,
    PixelNormalization,
    TokenPooling,
    gelu,
    gelu_tanh,
    sincos1d,
    sincos2d,
)

RANDOM = np.random.default_rng(3)
PIXELS = RANDOM.uniform(0, 255, (2, 4, 6, 3)).astype("float32")
PATCHES = RANDOM.normal(size=(2, 6, 12)).astype("float32")
TOKENS = RANDOM.normal(size=(2, 6, 8)).astype("float32")
ENCODER = {"hidden_dim": 8, "grid_size": (2, 3)}


@pytest.mark.parametrize(
    "layer_class, arguments, inputs",
    [
        (PixelNormalization, {"mean": (0.4, 0.5, 0.6), "std": (0.2, 0.3, 0.5)}, PIXELS),
        (
            PixelNormalization,
            {"mean": (0.5,), "std": (0.5,), "preprocessing": {"resize": "crop"}},
            PIXELS[..., :1],
        ),
        (Patches, {"patch_size": (2, 3)}, PIXELS / 255),
        (PatchEncoder, {**ENCODER, "num_register_tokens": 2, "dropout_rate": 0.1}, PATCHES),
        (PatchEncoder, {**ENCODER, "position_embedding": "sincos2d"}, PATCHES),
        (
            PatchEncoder,
            {**ENCODER, "class_token": False, "position_embedding": "sincos1d"},
            PATCHES,
        ),
        (PatchEncoder, {**ENCODER, "position_embedding": "none"}, PATCHES),
        (TokenPooling, {"pooling": "token", "num_prefix_tokens": 2}, TOKENS),
        (TokenPooling, {"pooling": "gap", "num_prefix_tokens": 3}, TOKENS),
        (
            ClassifierHead,
            {"units": 3, "class_names": ("a", "b", "ä"), "multi_label": True},
            TOKENS[:, 0],
        ),
    ],
)
def test_layers_keep_the_contract(layer_class, arguments, inputs, tmp_path):
    check_layer(layer_class, arguments, inputs, tmp_path)


def test_patches_of_sixteen_numbers_are_squares():
    grey = np.arange(16.0).reshape(1, 4, 4, 1)
    expected = [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]
    np.testing.assert_array_equal(to_numpy(Patches(2)(grey))[0], expected)


def test_patches_keep_a_pixels_channels_together():
    colour = np.arange(48.0).reshape(1, 4, 4, 3)
    first = to_numpy(Patches(2)(colour))[0, 0]
    np.testing.assert_array_equal(first, [0, 1, 2, 3, 4, 5, 12, 13, 14, 15, 16, 17])


def test_patches_that_are_no_squares_equal_numpy():
    expected = [numpy_vit.cut_patches(picture, (2, 3)) for picture in PIXELS]
    np.testing.assert_array_equal(to_numpy(Patches((2, 3))(PIXELS)), expected)


def test_a_picture_constant_over_each_patch_gives_constant_tokens():
    values = np.arange(6.0).reshape(2, 3)
    picture = np.kron(values, np.ones((2, 2)))[None, ..., None]
    tokens = to_numpy(Patches(2)(picture))[0]
    np.testing.assert_array_equal(tokens, np.repeat(values.reshape(6, 1), 4, axis=1))


def test_swapping_two_patches_of_the_picture_swaps_their_tokens_only():
    swapped = PIXELS.copy()
    swapped[:, :2, :2], swapped[:, 2:, 4:] = PIXELS[:, 2:, 4:], PIXELS[:, :2, :2]
    before, after = to_numpy(Patches(2)(PIXELS)), to_numpy(Patches(2)(swapped))
    np.testing.assert_array_equal(after, before[:, [5, 1, 2, 3, 4, 0]])


def test_a_convolution_kernel_loads_by_one_reshape():
    convolution = keras.layers.Conv2D(8, 2, strides=2)
    expected = to_numpy(convolution(PIXELS / 255)).reshape(2, 6, 8)
    encoder = PatchEncoder(8, class_token=False, position_embedding="none", grid_size=(2, 3))
    encoder.build((None, 6, 12))
    kernel = to_numpy(convolution.kernel).reshape(12, 8)
    encoder.projection.set_weights([kernel, to_numpy(convolution.bias)])
    result = to_numpy(encoder(Patches(2)(PIXELS / 255)))
    np.testing.assert_allclose(result, expected, atol=1e-6)


def encoded(**options):
    """An encoder with random weights whose projection gives zeros, and what it puts out."""
    encoder = PatchEncoder(**{**ENCODER, **options})
    encoder.build(PATCHES.shape)
    randomize(encoder)
    encoder.projection.set_weights([np.zeros((12, 8)), np.zeros(8)])
    return encoder, to_numpy(encoder(PATCHES))


def test_tokens_come_as_class_token_registers_patches_and_registers_have_no_position():
    encoder, tokens = encoded(num_register_tokens=2)
    weights = {w.name: to_numpy(w) for w in encoder.weights}
    positions = weights["position_embedding"]
    assert positions.shape == (7, 8)
    for picture in tokens:
        np.testing.assert_allclose(picture[:1], weights["class_token"] + positions[:1], rtol=1e-6)
        np.testing.assert_array_equal(picture[1:3], weights["register_tokens"])
        np.testing.assert_array_equal(picture[3:], positions[1:])


def test_without_class_token_the_positions_are_the_patches_only():
    encoder, tokens = encoded(class_token=False)
    weights = {w.name: to_numpy(w) for w in encoder.weights}
    assert set(weights) == {"position_embedding", "kernel", "bias"}
    np.testing.assert_array_equal(tokens[1], weights["position_embedding"])


@pytest.mark.parametrize("kind", ["sincos1d", "sincos2d"])
def test_fixed_positions_equal_numpy_and_leave_the_class_token_alone(kind):
    encoder, tokens = encoded(position_embedding=kind)
    table = {"sincos1d": numpy_vit.sinusoids_1d(6, 8), "sincos2d": numpy_vit.sinusoids_2d(2, 3, 8)}
    np.testing.assert_allclose(tokens[0, 1:], table[kind], atol=1e-6)
    weights = {w.name: to_numpy(w) for w in encoder.weights}
    np.testing.assert_array_equal(tokens[:, :1], [weights["class_token"]] * 2)
    assert "position_embedding" not in weights


def test_a_square_grid_need_not_be_given():
    encoder = PatchEncoder(8, class_token=False, position_embedding="sincos2d")
    encoder.build((None, 9, 12))
    encoder.projection.set_weights([np.zeros((12, 8)), np.zeros(8)])
    tokens = to_numpy(encoder(np.zeros((1, 9, 12))))
    np.testing.assert_allclose(tokens[0], numpy_vit.sinusoids_2d(3, 3, 8), atol=1e-6)


def test_normalization_tells_neighbouring_pixels_apart_under_half_precision():
    ramp = np.arange(256.0).reshape(1, 16, 16, 1)
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        result = PixelNormalization((0.5,), (0.5,))(ramp)
    finally:
        keras.config.set_dtype_policy("float32")
    assert keras.backend.standardize_dtype(result.dtype) == "float32"
    np.testing.assert_allclose(to_numpy(result).ravel(), np.linspace(-1, 1, 256), atol=1e-6)


def test_normalization_takes_bytes_and_uses_each_channels_own_numbers():
    pixels = np.full((1, 1, 1, 3), 51, "uint8")
    result = to_numpy(PixelNormalization((0.1, 0.2, 0.3), (0.1, 0.2, 0.4))(pixels))
    np.testing.assert_allclose(result.ravel(), [1, 0, -0.25], atol=1e-6)


def test_pooling_by_hand():
    np.testing.assert_array_equal(to_numpy(TokenPooling("token", 3)(TOKENS)), TOKENS[:, 0])
    mean = TOKENS[:, 3:].mean(axis=1)
    np.testing.assert_allclose(to_numpy(TokenPooling("gap", 3)(TOKENS)), mean, atol=1e-6)


@pytest.mark.parametrize("ours, truth", [(gelu, numpy_vit.gelu), (gelu_tanh, numpy_vit.gelu_tanh)])
def test_activations_equal_numpy(ours, truth):
    x = np.linspace(-6, 6, 241)
    np.testing.assert_allclose(
        to_numpy(ours(keras.ops.convert_to_tensor(x, "float32"))), truth(x), atol=1e-6
    )


def test_the_two_activations_differ_by_at_most_half_a_thousandth():
    x = np.linspace(-6, 6, 2401)
    gap = np.abs(numpy_vit.gelu(x) - numpy_vit.gelu_tanh(x)).max()
    assert 4.6e-4 < gap < 4.8e-4


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Patches("16"), r"patch_size must be a whole number or \(height, width\).*'16'"),
        (lambda: Patches((2, 2, 2)), r"patch_size must be .*\(2, 2, 2\)"),
        (lambda: Patches(0), "patch_size must be a whole number >= 1; got 0"),
        (lambda: Patches(True), "patch_size must be a whole number >= 1; got True"),
        (lambda: Patches((2, 1.5)), "patch_size must be a whole number >= 1; got 1.5"),
        (lambda: Patches(16)(np.zeros((1, 222, 224, 3))), "height 222 is not divisible by .* 16"),
        (lambda: Patches(16)(np.zeros((1, 224, 230, 3))), "width 230 is not divisible by .* 16"),
        (lambda: Patches(512)(np.zeros((1, 224, 224, 3))), "height 224 is not .* 512"),
        (lambda: Patches(2)(keras.Input((None, 4, 3))), r"known; got \(None, None, 4, 3\)"),
        (lambda: Patches(2)(np.zeros((4, 4, 3))), r"\(B, H, W, C\) .* got \(4, 4, 3\)"),
        (lambda: PatchEncoder(0), "hidden_dim must be a whole number >= 1; got 0"),
        (lambda: PatchEncoder(8, num_register_tokens=-1), "num_register_tokens .* >= 0; got -1"),
        (
            lambda: PatchEncoder(8, position_embedding="rope"),
            "position_embedding must be one of learned, sincos2d, sincos1d, none; got 'rope'",
        ),
        (lambda: PatchEncoder(8, dropout_rate=1.0), r"dropout_rate .* \[0, 1\); got 1.0"),
        (lambda: PatchEncoder(8, dropout_rate="0.1"), "dropout_rate must be a number .* '0.1'"),
        (lambda: PatchEncoder(8, grid_size=(2, 0)), "grid_size must be .* >= 1; got 0"),
        (
            lambda: PatchEncoder(8, grid_size=(2, 3))(np.zeros((1, 4, 12))),
            r"grid_size \(2, 3\) does not hold 4 patches",
        ),
        (
            lambda: PatchEncoder(8, position_embedding="sincos2d")(np.zeros((1, 6, 12))),
            "6 patches are no square: sincos2d needs grid_size",
        ),
        (lambda: PatchEncoder(8)(keras.Input((None, 12))), r"N known; got \(None, None, 12\)"),
        (lambda: sincos1d(4, 7), "sincos1d needs an even hidden_dim >= 4; got 7"),
        (lambda: sincos2d((2, 2), 6), "sincos2d needs a hidden_dim divisible by 4 .* got 6"),
        (lambda: sincos2d((2, 2), 4), "divisible by 4 and >= 8; got 4"),
        (lambda: PixelNormalization((0.5,), (0.5, 0.4)), r"channel; got \(0.5,\) and \(0.5, 0.4\)"),
        (lambda: PixelNormalization((), ()), r"a number per channel; got \(\) and \(\)"),
        (lambda: PixelNormalization((0.5,), (0.0,)), r"std must be > 0 .* got \(0.0,\)"),
        (lambda: PixelNormalization((0, 0, 0), (1, 1, 1))(np.zeros((1, 2, 2, 1))), "3.* 2, 1"),
        (lambda: TokenPooling("max"), "pooling must be one of token, gap; got 'max'"),
        (lambda: TokenPooling("gap", -1), "num_prefix_tokens .* >= 0; got -1"),
        (lambda: TokenPooling("token", 0), "'token' needs a class token; got .* 0"),
        (lambda: ClassifierHead(3, class_names=["a", "b"]), "2 class_names for 3 classes"),
    ],
)
def test_wrong_arguments_are_named_with_their_value(make, message):
    with pytest.raises(ValueError, match=message):
        make()
