"""Attention, MLP, block and attention pooling against hand-made and NumPy answers."""

import math

import keras
import numpy as np
import numpy_vit
import pytest
from layer_contract import check_layer, named_weights, randomize, to_numpy

from keras_vit.attention import MLP, Attention, AttentionPooling, TransformerBlock

TOKENS = np.random.default_rng(5).normal(size=(2, 6, 8)).astype("float32")
CONTEXT = np.random.default_rng(6).normal(size=(2, 4, 8)).astype("float32")
EVERYTHING = {
    "num_heads": 2,
    "mlp_dim": 12,
    "dropout_rate": 0.1,
    "attention_dropout_rate": 0.2,
    "drop_path_rate": 0.3,
    "layer_scale_init_value": 0.5,
    "qkv_bias": False,
    "qk_norm": True,
    "activation": "gelu_tanh",
    "layer_norm_epsilon": 1e-5,
}


@pytest.mark.parametrize(
    "layer_class, arguments",
    [
        (Attention, {"num_heads": 2}),
        (
            Attention,
            {
                "num_heads": 2,
                "dropout_rate": 0.1,
                "qkv_bias": False,
                "qk_norm": True,
                "layer_norm_epsilon": 1e-5,
            },
        ),
        (MLP, {"mlp_dim": 12, "dropout_rate": 0.1, "activation": "gelu_tanh"}),
        (TransformerBlock, {"num_heads": 2, "mlp_dim": 12}),
        (TransformerBlock, EVERYTHING),
        (AttentionPooling, {"num_heads": 2, "mlp_dim": 12}),
        (
            AttentionPooling,
            {
                "num_heads": 4,
                "mlp_dim": 9,
                "activation": "gelu_tanh",
                "layer_norm_epsilon": 1e-5,
            },
        ),
    ],
)
def test_layers_keep_the_contract(layer_class, arguments, tmp_path):
    check_layer(layer_class, arguments, TOKENS, tmp_path)


def built(layer, shape=TOKENS.shape):
    layer.build(shape)
    randomize(layer)
    return layer


def identity(width, num_heads=1, **options):
    """Attention whose four projections do nothing."""
    attention = Attention(num_heads, **options)
    attention.build((None, None, width))
    for part in (attention.query, attention.key, attention.value, attention.projection):
        part.set_weights([np.eye(width), np.zeros(width)])
    return attention


def test_attention_weights_by_hand():
    x = np.array([[[2, 2, 2, 2], [0, 0, 0, 0]]], "float32")
    y, scores = identity(4)(x, return_attention_scores=True)
    np.testing.assert_allclose(to_numpy(scores)[0, 0, 0], [0.999665, 0.000335], atol=1e-6)
    np.testing.assert_allclose(to_numpy(y)[0, 0], [1.99933] * 4, atol=1e-5)


@pytest.mark.parametrize(
    "width, num_heads, factor", [(768, 12, 1 / 8), (1280, 16, 1 / math.sqrt(80))]
)
def test_the_scale_is_the_root_of_one_heads_width(width, num_heads, factor):
    x = np.zeros((1, 2, width), "float32")
    x[0, 0, 0] = 3  # the first head's product is 9 with itself, 0 with the other token
    _, scores = identity(width, num_heads)(x, return_attention_scores=True)
    np.testing.assert_allclose(
        to_numpy(scores)[0, 0, 0], numpy_vit.softmax(np.array([9, 0]) * factor), atol=1e-6
    )


@pytest.mark.parametrize("context", [None, CONTEXT])
@pytest.mark.parametrize("options", [{}, {"qkv_bias": False}, {"qk_norm": True}])
def test_attention_equals_numpy(options, context):
    attention = built(Attention(2, **options))
    y, scores = attention(TOKENS, context, return_attention_scores=True)
    weights = named_weights(attention)
    for index, x in enumerate(TOKENS):
        memory = x if context is None else context[index]
        truth, maps = numpy_vit.attention(weights, "", x, memory, 2, **options)
        np.testing.assert_allclose(to_numpy(y)[index], truth, atol=1e-5)
        np.testing.assert_allclose(to_numpy(scores)[index], maps, atol=1e-6)


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh"])
def test_mlp_equals_numpy(activation):
    mlp = built(MLP(12, activation=activation))
    truth = numpy_vit.mlp(named_weights(mlp), "", TOKENS, activation)
    np.testing.assert_allclose(to_numpy(mlp(TOKENS)), truth, atol=1e-5)


def test_attention_pooling_equals_numpy_and_ignores_the_tokens_order():
    pooling = built(AttentionPooling(2, 12))
    weights, result = named_weights(pooling), to_numpy(pooling(TOKENS))
    for index, x in enumerate(TOKENS):
        truth = numpy_vit.map_head(weights, "", x, 2, "gelu", 1e-6)
        np.testing.assert_allclose(result[index], truth, atol=1e-5)
    np.testing.assert_allclose(to_numpy(pooling(TOKENS[:, ::-1])), result, atol=1e-5)


@pytest.mark.parametrize("layer", [Attention(2), TransformerBlock(**EVERYTHING)])
def test_asking_for_scores_does_not_change_the_answer(layer):
    built(layer)
    y, scores = layer(TOKENS, return_attention_scores=True)
    np.testing.assert_array_equal(to_numpy(y), to_numpy(layer(TOKENS)))
    assert scores.shape == (2, 2, 6, 6)
    np.testing.assert_allclose(to_numpy(scores).sum(axis=-1), 1, atol=1e-6)


@pytest.mark.parametrize("layer", [Attention(2), TransformerBlock(**EVERYTHING)])
def test_a_functional_model_can_give_the_scores_too(layer):
    tokens = keras.Input((6, 8))
    model = keras.Model(tokens, layer(tokens, return_attention_scores=True))
    randomize(layer)
    results = model.predict(TOKENS, verbose=0)
    for result, symbol, eager in zip(
        results, model.outputs, layer(TOKENS, return_attention_scores=True), strict=True
    ):
        assert result.shape[1:] == symbol.shape[1:]
        np.testing.assert_allclose(result, to_numpy(eager), atol=1e-6)


def test_a_functional_model_knows_the_shape_of_attention_to_a_context():
    x, context = keras.Input((6, 8)), keras.Input((4, 8))
    y, scores = Attention(2)(x, context, return_attention_scores=True)
    assert (y.shape, scores.shape) == ((None, 6, 8), (None, 2, 6, 4))


def test_scores_are_those_before_dropout():
    attention = built(Attention(2, dropout_rate=0.9))
    dropped, scores = attention(TOKENS, training=True, return_attention_scores=True)
    np.testing.assert_allclose(to_numpy(scores).sum(axis=-1), 1, atol=1e-6)
    assert np.abs(to_numpy(dropped) - to_numpy(attention(TOKENS))).max() > 0.1


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_scores_of_ten_thousand_stay_finite_in_half_precision(policy):
    x = np.array([[[100, 0], [0, 100], [-100, 0]]], "float32") * 2**0.25  # products of +-10,000
    y, scores = identity(2, dtype=policy)(x, return_attention_scores=True)
    assert keras.backend.standardize_dtype(scores.dtype) == "float32"
    np.testing.assert_allclose(to_numpy(scores)[0, 0], np.eye(3), atol=1e-6)
    assert np.isfinite(to_numpy(y)).all()


def drop_path_block(rate, biases=(1, 0), **options):
    """A block whose two branches give constants, so that only drop path is seen."""
    block = built(TransformerBlock(1, 4, drop_path_rate=rate, **options), (None, 3, 2))
    for layer, bias in zip((block.attention.projection, block.mlp.dense_2), biases, strict=True):
        layer.set_weights([np.zeros(layer.kernel.shape), np.full(2, bias)])
    return block


def test_drop_path_drops_whole_pictures_one_by_one():
    x, block = np.zeros((1000, 3, 2), "float32"), drop_path_block(0.5)
    first, second = (to_numpy(block(x, training=True)) for _ in range(2))
    for result in (first, second):
        assert set(np.unique(result)) == {0, 2}
        assert (result == result[:, :1, :1]).all()  # a picture is dropped as a whole
        assert 400 < (result[:, 0, 0] == 2).sum() < 600
        assert abs(result.mean() - 1) < 0.1
    assert (first != second).any()
    np.testing.assert_array_equal(to_numpy(block(x, training=False)), np.ones_like(x))
    np.testing.assert_array_equal(to_numpy(block(x)), np.ones_like(x))


def test_the_two_branches_of_a_block_are_dropped_independently():
    x = np.zeros((1000, 3, 2), "float32")
    result = to_numpy(drop_path_block(0.5, biases=(1, 10))(x, training=True))[:, 0, 0]
    counts = [(result == value).sum() for value in (0, 2, 20, 22)]
    assert sum(counts) == 1000 and min(counts) > 200


def test_drop_path_of_zero_leaves_training_as_inference():
    x, block = np.zeros((5, 3, 2), "float32"), drop_path_block(0.0)
    np.testing.assert_array_equal(to_numpy(block(x, training=True)), to_numpy(block(x)))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_drop_path_keeps_half_precision(dtype):
    result = drop_path_block(0.5, dtype=dtype)(np.zeros((8, 3, 2), dtype), training=True)
    assert keras.backend.standardize_dtype(result.dtype) == dtype
    assert set(np.unique(to_numpy(result))) <= {0, 2}


def test_a_layer_scale_of_zero_makes_a_block_do_nothing_and_one_changes_nothing():
    plain = built(TransformerBlock(2, 12))
    for value, expected in ((0.0, TOKENS), (1.0, to_numpy(plain(TOKENS)))):
        scaled = TransformerBlock(2, 12, layer_scale_init_value=value)
        scaled.build(TOKENS.shape)
        named = {w.path.split("/", 1)[1]: to_numpy(w) for w in plain.weights}
        for weight in scaled.weights:
            weight.assign(named.get(weight.path.split("/", 1)[1], weight))
        np.testing.assert_array_equal(to_numpy(scaled(TOKENS)), expected)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Attention(12)(np.zeros((1, 2, 100))), "hidden_dim 100 .* by num_heads 12"),
        (lambda: TransformerBlock(12, 4)(np.zeros((1, 2, 100))), "100 .* num_heads 12"),
        (lambda: AttentionPooling(12, 4)(np.zeros((1, 2, 100))), "100 .* num_heads 12"),
        (lambda: Attention(0), "num_heads must be a whole number >= 1; got 0"),
        (lambda: Attention(2.0), "num_heads must be a whole number >= 1; got 2.0"),
        (lambda: Attention(2, dropout_rate=1), r"attention_dropout_rate .* \[0, 1\); got 1"),
        (lambda: MLP(0), "mlp_dim must be a whole number >= 1; got 0"),
        (lambda: MLP(4, dropout_rate=-0.1), "dropout_rate .* got -0.1"),
        (lambda: MLP(4, activation="relu"), "activation must be one of gelu, gelu_tanh.*'relu'"),
        (lambda: TransformerBlock("2", 4), "num_heads must be a whole number >= 1; got '2'"),
        (lambda: TransformerBlock(2, None), "mlp_dim must be a whole number >= 1; got None"),
        (lambda: TransformerBlock(2, 4, dropout_rate=2), r"dropout_rate .* \[0, 1\); got 2"),
        (
            lambda: TransformerBlock(2, 4, attention_dropout_rate=None),
            "attention_dropout_rate must be a number .* got None",
        ),
        (lambda: TransformerBlock(2, 4, drop_path_rate=1.0), "drop_path_rate .* got 1.0"),
        (lambda: TransformerBlock(2, 4, activation="x"), "activation .* got 'x'"),
        (lambda: AttentionPooling(-1, 4), "num_heads .* got -1"),
        (lambda: AttentionPooling(2, 0), "mlp_dim .* got 0"),
        (lambda: AttentionPooling(2, 4, "x"), "activation .* got 'x'"),
    ],
)
def test_wrong_arguments_are_named_with_their_value(make, message):
    with pytest.raises(ValueError, match=message):
        make()
