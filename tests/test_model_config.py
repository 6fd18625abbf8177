"""The configuration goes to JSON, to a model and back, and refuses what cannot be."""

import keras
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from keras_vit.model import ViTConfig, build_vit, config_of

TINY = {
    "image_size": 8,
    "patch_size": 4,
    "hidden_dim": 16,
    "num_layers": 2,
    "num_heads": 2,
    "mlp_dim": 24,
}
RATE = st.floats(0, 0.9)
SHARE = st.floats(0.01, 0.99).filter(lambda value: value != 0.5)


@st.composite
def configs(draw):
    """Small configurations in which every field is drawn."""
    channels, heads = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    grid = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    patch = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    pooling = draw(st.sampled_from(["token", "gap", "map"]))
    normalizations = [st.just("minus_one_one")] + [st.just("imagenet")] * (channels == 3)
    given_statistics = st.tuples(*[SHARE] * channels)
    normalizations.append(
        st.fixed_dictionaries({"mean": given_statistics, "std": given_statistics})
    )
    num_classes = draw(st.integers(0, 3))
    return ViTConfig(
        image_size=(grid[0] * patch[0], grid[1] * patch[1]),
        patch_size=patch,
        num_channels=channels,
        hidden_dim=8 * heads,
        num_layers=draw(st.integers(1, 3)),
        num_heads=heads,
        mlp_dim=draw(st.integers(1, 9)),
        num_classes=num_classes,
        class_token=pooling == "token" or draw(st.booleans()),
        num_register_tokens=draw(st.integers(0, 2)),
        position_embedding=draw(st.sampled_from(["learned", "sincos2d", "sincos1d", "none"])),
        pooling=pooling,
        representation_size=draw(st.none() | st.integers(1, 5)),
        dropout_rate=draw(RATE),
        attention_dropout_rate=draw(RATE),
        drop_path_rate=draw(RATE),
        layer_scale_init_value=draw(st.none() | st.floats(0, 2)),
        qkv_bias=draw(st.booleans()),
        qk_norm=draw(st.booleans()),
        activation=draw(st.sampled_from(["gelu", "gelu_tanh"])),
        layer_norm_epsilon=draw(st.floats(1e-12, 1e-3)),
        # without a head there is nothing that could remember these two
        head_bias=draw(st.floats(-9, 9)) if num_classes else 0.0,
        multi_label=draw(st.booleans()) if num_classes else False,
        normalization=draw(st.one_of(normalizations)),
    )


@settings(max_examples=8, deadline=None, derandomize=True, database=None)
@given(config=configs())
def test_a_built_model_gives_its_configuration_and_parameters_back(config):
    model = build_vit(config)
    assert config_of(model) == config
    assert model.count_params() == config.summary().num_parameters
    features = config.num_classes or config.representation_size or config.hidden_dim
    assert model.output_shape == (None, features)
    keras.backend.clear_session()


@settings(max_examples=50, deadline=None, derandomize=True, database=None)
@given(config=configs())
def test_a_configuration_comes_back_from_json(config):
    assert ViTConfig.model_validate_json(config.model_dump_json()) == config
    assert ViTConfig(**config.model_dump()) == config


def test_a_configuration_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        ViTConfig(**TINY).hidden_dim = 8


@pytest.mark.parametrize("size", [224, (224, 224), [224, 224]])
def test_a_size_is_a_number_or_a_pair(size):
    config = ViTConfig.from_variant("B/16", image_size=size)
    assert config.image_size == (224, 224) and config.grid_size == (14, 14)
    assert config.num_tokens == 197


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"image_size": 222, "patch_size": 16}, "image_size 222 .* by patch_size 16"),
        ({"image_size": (224, 230), "patch_size": 16}, r"image_size 230 \(width\) .* 16"),
        ({"image_size": 224, "patch_size": 512}, "image_size 224 .* patch_size 512"),
        ({"image_size": (224,)}, r"(?s)image_size.*number or \(height, width\); got \(224,\)"),
        ({"image_size": (224, 224, 3)}, r"(?s)image_size.*got \(224, 224, 3\)"),
        ({"image_size": "224"}, "(?s)image_size.*got '224'"),
        ({"image_size": 224.0}, "(?s)image_size.*got 224.0"),
        ({"patch_size": 0}, "(?s)patch_size.*>= 1; got 0"),
        ({"hidden_dim": 100, "num_heads": 12}, "hidden_dim 100 .* by num_heads 12"),
        (
            {"pooling": "token", "class_token": False},
            "'token' needs class_token true; got .* false",
        ),
        (
            {"num_channels": 1, "normalization": "imagenet"},
            "mean has 3 channels.* num_channels is 1",
        ),
        (
            {"normalization": {"mean": (0.5,) * 3, "std": (0.5,) * 2}},
            "std has 2 channels, but num_channels is 3",
        ),
        ({"normalization": {"mean": (0.5,) * 3, "std": (0, 1, 1)}}, "(?s)std.*greater than 0"),
        ({"position_embedding": "sincos2d", "hidden_dim": 18}, "sincos2d .* by 4 .* got 18"),
        (
            {"position_embedding": "sincos1d", "hidden_dim": 9, "num_heads": 1},
            "sincos1d needs an even hidden_dim .* got 9",
        ),
        ({"hiden_dim": 8}, "(?s)hiden_dim.*not permitted"),
        ({"num_layers": 0}, "(?s)num_layers.*greater than or equal to 1.*input_value=0"),
        ({"num_layers": True}, "(?s)num_layers.*valid integer.*True"),
        ({"drop_path_rate": 1.0}, "(?s)drop_path_rate.*less than 1.*1.0"),
        ({"head_bias": float("nan")}, "(?s)head_bias.*finite.*nan"),
        ({"pooling": "max"}, "(?s)pooling.*'token', 'gap' or 'map'.*'max'"),
    ],
)
def test_impossible_configurations_are_refused_by_field_and_value(changes, message):
    with pytest.raises(ValueError, match=message):
        ViTConfig(**{**TINY, **changes})


@pytest.mark.parametrize("variant", ["B", "B/x", "X/16", "b/16", "", None, "B/-16"])
def test_an_unknown_variant_is_refused_with_the_known_names(variant):
    with pytest.raises(ValueError, match=f"mu, Ti, S, .*, G with a patch size.*{variant!r}"):
        ViTConfig.from_variant(variant)
