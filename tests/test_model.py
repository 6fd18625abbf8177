"""The configuration and the built model against published counts and a NumPy forward pass."""

import math

import keras
import numpy as np
import numpy_vit
import pytest
from layer_contract import named_weights, randomize, to_numpy

from keras_vit.layers import ClassifierHead
from keras_vit.model import VARIANTS, ViTConfig, blocks, build_vit, config_of

TINY = {
    "image_size": 8,
    "patch_size": 4,
    "hidden_dim": 16,
    "num_layers": 2,
    "num_heads": 2,
    "mlp_dim": 24,
    "num_classes": 5,
}
PIXELS = np.random.default_rng(2).uniform(0, 255, (2, 12, 8, 3)).astype("float32")

OPTIONS = {
    "the paper's": {},
    "pre-training head": {"representation_size": 10},
    "mean of the patches": {"pooling": "gap"},
    "mean without class token": {
        "pooling": "gap",
        "class_token": False,
        "position_embedding": "sincos2d",
    },
    "attention pooling": {"pooling": "map", "class_token": False, "representation_size": 7},
    "registers": {"num_register_tokens": 3},
    "registers left out of the mean": {"num_register_tokens": 3, "pooling": "gap"},
    "patches that are no squares": {"patch_size": (3, 4), "position_embedding": "sincos1d"},
    "no positions": {"position_embedding": "none"},
    "queries and keys normalised": {"qk_norm": True, "qkv_bias": False},
    "layer scale": {"layer_scale_init_value": 0.1},
    "tanh GELU": {"activation": "gelu_tanh", "layer_norm_epsilon": 1e-3},
    "one head, one layer": {"num_heads": 1, "num_layers": 1},
    "ImageNet's statistics": {"normalization": "imagenet"},
    "given statistics": {"normalization": {"mean": (0.1, 0.2, 0.3), "std": (0.5, 0.6, 0.7)}},
    "features": {"num_classes": 0, "pooling": "map", "num_register_tokens": 1},
    "dropout does nothing here": {"dropout_rate": 0.5, "drop_path_rate": 0.5},
}
STATISTICS = {
    "minus_one_one": {"mean": [0.5] * 3, "std": [0.5] * 3},
    "imagenet": {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_the_answer_equals_numpy(name):
    config = ViTConfig(**{**TINY, "image_size": (12, 8), **OPTIONS[name]})
    model = build_vit(config)
    randomize(model)
    options = config.model_dump()
    options |= STATISTICS.get(config.normalization) or options["normalization"]
    truth = numpy_vit.forward(named_weights(model), PIXELS, options)
    result = model(PIXELS)
    assert keras.backend.standardize_dtype(result.dtype) == "float32"
    assert np.abs(truth).max() > 0.1
    np.testing.assert_allclose(to_numpy(result), truth, atol=1e-5)


COUNTS = {  # variant: parameters for 1000 classes, 10 classes, without a head
    "Ti/16": (5_717_416, 5_526_346, 5_524_416),
    "S/16": (22_050_664, 21_669_514, 21_665_664),
    "B/16": (86_567_656, 85_806_346, 85_798_656),
    "B/32": (88_224_232, 87_462_922, 87_455_232),
    "L/16": (304_326_632, 303_311_882, 303_301_632),
    "L/32": (306_535_400, None, 305_510_400),
    "H/14": (632_045_800, 630_777_610, 630_764_800),
}


@pytest.mark.parametrize("variant", COUNTS)
def test_the_summary_counts_the_published_parameters(variant):
    for num_classes, expected in zip((1000, 10, 0), COUNTS[variant], strict=True):
        summary = ViTConfig.from_variant(variant, num_classes=num_classes).summary()
        assert expected in (None, summary.num_parameters)


@pytest.mark.parametrize(
    "variant, changes, expected",
    [
        ("B/16", {"image_size": 384}, 86_859_496),
        ("B/16", {"num_channels": 1}, 86_174_440),
        ("L/16", {"image_size": 512}, 305_174_504),
        ("H/14", {"image_size": 518}, 633_470_440),
        ("S/16", {"pooling": "gap", "class_token": False, "num_classes": 0}, 21_664_896),
        ("B/16", {"representation_size": 768}, 86_567_656 + 590_592),
    ],
)
def test_the_summary_counts_published_changes(variant, changes, expected):
    assert ViTConfig.from_variant(variant, **changes).summary().num_parameters == expected


def closed_form(width, depth, mlp_dim, patches, patch_dim, num_classes):
    """numbers known of every plain ViT: embedding, class token, positions, blocks, norm, head."""
    block = 4 * width**2 + 4 * width + 2 * width * mlp_dim + width + mlp_dim + 4 * width
    start = (patch_dim + 1) * width + width + (patches + 1) * width
    return start + depth * block + 2 * width + (width + 1) * num_classes


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variants_summary_equals_the_closed_form(name):
    sizes = VARIANTS[name]
    form = closed_form(
        sizes["hidden_dim"], sizes["num_layers"], sizes["mlp_dim"], 14 * 14, 16 * 16 * 3, 1000
    )
    assert ViTConfig.from_variant(f"{name}/16").summary().num_parameters == form


@pytest.mark.parametrize("variant, millions", [("g/14", 1012.61), ("G/14", 1844.44)])
def test_the_giants_have_the_published_millions(variant, millions):
    parameters = ViTConfig.from_variant(variant).summary().num_parameters
    assert round(parameters / 1e6, 2) == millions


@pytest.mark.parametrize("variant", ["mu/16", "Ti/16", "S/16", "B/16"])
def test_a_built_model_has_the_parameters_of_its_summary(variant):
    config = ViTConfig.from_variant(variant, drop_path_rate=0.1)  # its seeds must not count
    assert build_vit(config).count_params() == config.summary().num_parameters


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_is_in_the_summarys_count(name):
    config = ViTConfig(**{**TINY, "image_size": (12, 8), **OPTIONS[name]})
    assert build_vit(config).count_params() == config.summary().num_parameters


@pytest.mark.parametrize(
    "variant, size, giga",
    [("Ti/16", 224, 1.26), ("S/16", 384, 15.52), ("B/16", 224, 17.58), ("B/32", 384, 13.06)],
)
def test_multiply_accumulates_are_those_published(variant, size, giga):
    summary = ViTConfig.from_variant(variant, image_size=size).summary()
    assert summary.multiply_accumulates / 1e9 == pytest.approx(giga, rel=0.01)


@pytest.mark.parametrize(
    "size, mebibytes", [(224, 1.78), (384, 15.24), (512, 48.09), (1024, 768.38)]
)
def test_the_attention_map_of_a_layer_takes_this_memory(size, mebibytes):
    summary = ViTConfig.from_variant("B/16", image_size=size).summary()
    assert round(summary.attention_map_bytes / 2**20, 2) == mebibytes
    assert summary.activation_bytes > 12 * summary.attention_map_bytes


def test_weight_names_are_those_of_the_contract():
    everything = {"qk_norm": True, "layer_scale_init_value": 1.0, "num_register_tokens": 1}
    config = ViTConfig(**{**TINY, **everything, "pooling": "map", "representation_size": 3})

    def affine(*names):
        return [f"{name}/{part}" for name in names for part in ("kernel", "bias")]

    def norm(*names):
        return [f"{name}/{part}" for name in names for part in ("gamma", "beta")]

    attention = affine(*(f"attention/{n}" for n in ("query", "key", "value", "projection")))
    mlp = affine("mlp/dense_1", "mlp/dense_2")
    block = attention + mlp + norm("norm_1", "norm_2") + ["layer_scale_1", "layer_scale_2"]
    block += norm("attention/query_norm", "attention/key_norm")
    encoder = ["class_token", "register_tokens", "position_embedding"] + affine("projection")
    expected = [f"patch_encoder/{n}" for n in encoder]
    expected += [f"transformer_block_{i:02d}/{n}" for i in range(2) for n in block]
    expected += norm("encoder_norm") + affine("pre_logits", "predictions")
    expected += [f"pooling/{n}" for n in ["probe", *attention, *mlp, *norm("norm")]]
    assert {w.path for w in build_vit(config).weights} == set(expected)


def test_a_fresh_model_knows_nothing_and_its_loss_is_the_logarithm_of_the_classes():
    model = build_vit(ViTConfig(**{**TINY, "num_classes": 7}))
    logits = to_numpy(model(PIXELS[:, :8]))
    np.testing.assert_array_equal(logits, np.zeros((2, 7)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    assert float(loss(np.array([3, 6]), logits)) == pytest.approx(math.log(7), abs=1e-6)


def test_the_heads_bias_starts_where_it_is_told():
    model = build_vit(ViTConfig(**TINY, head_bias=-6.9))
    np.testing.assert_allclose(to_numpy(model(PIXELS[:, :8])), np.full((2, 5), -6.9), rtol=1e-6)


@pytest.mark.parametrize("num_layers, step", [(12, 0.1 / 11), (2, 0.1), (1, None)])
def test_drop_path_rises_from_zero_to_the_given_rate(num_layers, step):
    model = build_vit(ViTConfig(**{**TINY, "num_layers": num_layers}, drop_path_rate=0.1))
    rates = [block.drop_path_rate for block in blocks(model)]
    expected = [0.1] if step is None else [index * step for index in range(num_layers)]
    assert rates == pytest.approx(expected) and rates[-1] == 0.1


def test_predicting_twice_gives_the_same_bits_whatever_the_training_noise():
    noise = {"dropout_rate": 0.5, "attention_dropout_rate": 0.5, "drop_path_rate": 0.5}
    model = build_vit(ViTConfig(**TINY, **noise))
    randomize(model)
    pixels = np.tile(PIXELS[:, :8], (32, 1, 1, 1))
    first, second = (model.predict(pixels, batch_size=64, verbose=0) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert np.abs(to_numpy(model(pixels, training=True)) - first).max() > 0.1


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_trains_without_nan_and_agrees_with_float32(policy):
    config = ViTConfig(**{**TINY, "num_layers": 1})
    pixels = np.random.default_rng(0).uniform(0, 255, (8, 8, 8, 3)).astype("float32")
    labels = np.arange(8) % 5
    keras.utils.set_random_seed(0)
    exact = build_vit(config)
    keras.config.set_dtype_policy(policy)
    try:
        half = build_vit(config)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        half.compile(optimizer=keras.optimizers.Adam(1e-3), loss=loss, jit_compile=False)
        kernel = half.get_layer("patch_encoder").projection.kernel
        kernel.assign(kernel * 1000)
        losses = [float(half.train_on_batch(pixels, labels)) for _ in range(20)]
    finally:
        keras.config.set_dtype_policy("float32")
    assert np.isfinite(losses).all()
    assert {w.dtype for w in half.weights} == {"float32"}
    logits = half(pixels)
    assert keras.backend.standardize_dtype(logits.dtype) == "float32"
    exact.set_weights(half.get_weights())
    scale = max(1, np.abs(to_numpy(exact(pixels))).max())
    np.testing.assert_allclose(to_numpy(logits), to_numpy(exact(pixels)), atol=0.02 * scale)
    float32_parts = ("pixel_normalization", "encoder_norm", "pooling", "predictions")
    assert {half.get_layer(name).compute_dtype for name in float32_parts} == {"float32"}


def test_a_model_of_another_number_of_channels_or_pixels_refuses_the_picture():
    model = build_vit(ViTConfig(**TINY))
    for shape in ((1, 8, 8, 1), (1, 8, 8, 4), (1, 9, 8, 3), (8, 8, 3)):
        with pytest.raises(ValueError, match=f"(?s)3.*{', '.join(map(str, shape))}"):
            model(np.zeros(shape, "float32"))


def test_a_name_builds_a_model_and_a_model_tells_its_names():
    model = build_vit("mu/32")
    assert model.input_shape == (None, 224, 224, 3) and model.output_shape == (None, 1000)
    named = build_vit(ViTConfig(**{**TINY, "num_classes": 2}), ["cat", "dog"], {"resize": "pad"})
    head = named.get_layer("predictions")
    assert isinstance(head, ClassifierHead) and head.class_names == ("cat", "dog")
    assert named.get_layer("pixel_normalization").preprocessing == {"resize": "pad"}


@pytest.mark.parametrize("num_classes, names", [(2, ["a"]), (0, ["a"]), (1, ["a", "b"])])
def test_class_names_must_be_as_many_as_the_classes(num_classes, names):
    with pytest.raises(ValueError, match=f"{len(names)} class_names for .* {num_classes}"):
        build_vit(ViTConfig(**{**TINY, "num_classes": num_classes}), names)


def test_a_strangers_model_has_no_configuration():
    tokens = keras.Input((3,))
    stranger = keras.Model(tokens, keras.layers.Dense(2)(tokens), name="stranger")
    with pytest.raises(ValueError, match="stranger is no model of build_vit: it has no patch_enc"):
        config_of(stranger)
