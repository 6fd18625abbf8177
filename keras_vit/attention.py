"""Attention, the transformer block made of it, and attention pooling; `keras.ops` only.

Shapes: B pictures, N tokens, D width, M MLP width, h heads, d = D / h.
"""

import keras
from keras import ops

from keras_vit.layers import ACTIVATIONS, check_choice, check_rate, check_whole


def _norm(layer, name):
    return keras.layers.LayerNormalization(
        epsilon=layer.layer_norm_epsilon, dtype=layer.dtype_policy, name=name
    )


def _output_spec(layer, x, context, return_attention_scores):
    """What a call will give, said rather than traced: tracing costs 0.1 s a block."""
    y = keras.KerasTensor(x.shape, layer.compute_dtype)
    shape = (x.shape[0], layer.num_heads, x.shape[1], context.shape[1])
    return (y, keras.KerasTensor(shape, "float32")) if return_attention_scores else y


@keras.saving.register_keras_serializable(package="keras_vit")
class Attention(keras.layers.Layer):
    """Multi-head scaled dot-product attention (Dosovitskiy et al. 2021, appendix A).

    Three projections with 4-D head tensors: of the layouts measured (Keras' own, one fused
    matrix, three) none was faster, and the names suit other people's files, LoRA and Muon.

    Args:
        num_heads: h; must divide the width.
        dropout_rate: On the attention weights, in [0, 1).
        qkv_bias: Biases on query, key and value.
        qk_norm: Layer norm of every head's queries and keys (Dehghani et al. 2023,
            arXiv 2302.05442, section 2).
        layer_norm_epsilon: For `qk_norm`.

    Call arguments:
        x: Queries come from here, `(B, N, D)`.
        context: Keys and values come from here, `(B, M, D)`; None means `x`.
        return_attention_scores: Also give the weights, `(B, h, N, M)`, rows summing to 1.

    Raises:
        ValueError: The width is not divisible by `num_heads`, or an argument is out of range.
    """

    def __init__(
        self,
        num_heads,
        dropout_rate=0.0,
        qkv_bias=True,
        qk_norm=False,
        layer_norm_epsilon=1e-6,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_whole("num_heads", num_heads)
        check_rate("attention_dropout_rate", dropout_rate)
        self.num_heads = num_heads
        self.dropout_rate = dropout_rate
        self.qkv_bias = qkv_bias
        self.qk_norm = qk_norm
        self.layer_norm_epsilon = layer_norm_epsilon

    def build(self, input_shape):
        width = input_shape[-1]
        if width % self.num_heads:
            raise ValueError(f"hidden_dim {width} is not divisible by num_heads {self.num_heads}")
        self.head_dim = width // self.num_heads
        self.query = self._dense(width, "query", input_shape, self.qkv_bias)
        self.key = self._dense(width, "key", input_shape, self.qkv_bias)
        self.value = self._dense(width, "value", input_shape, self.qkv_bias)
        self.projection = self._dense(width, "projection", input_shape, True)
        if self.qk_norm:
            self.query_norm, self.key_norm = _norm(self, "query_norm"), _norm(self, "key_norm")
            self.query_norm.build((None, self.num_heads, None, self.head_dim))
            self.key_norm.build((None, self.num_heads, None, self.head_dim))
        self.dropout = keras.layers.Dropout(
            self.dropout_rate, dtype=self.dtype_policy, name="dropout"
        )
        super().build(input_shape)

    def _dense(self, width, name, input_shape, use_bias):
        dense = keras.layers.Dense(width, use_bias=use_bias, dtype=self.dtype_policy, name=name)
        dense.build(input_shape)
        return dense

    def _heads(self, x):
        x = ops.reshape(x, (-1, x.shape[1], self.num_heads, self.head_dim))
        return ops.transpose(x, (0, 2, 1, 3))  # (B, h, N, d)

    def call(self, x, context=None, training=None, return_attention_scores=False):
        context = x if context is None else context
        q, k, v = self.query(x), self.key(context), self.value(context)
        q, k, v = self._heads(q), self._heads(k), self._heads(v)  # (B, h, N, d)
        if self.qk_norm:
            q, k = self.query_norm(q), self.key_norm(k)
        scores = ops.matmul(q * self.head_dim**-0.5, ops.transpose(k, (0, 1, 3, 2)))
        scores = ops.softmax(ops.cast(scores, "float32"))  # (B, h, N, N); float16 would overflow
        weights = self.dropout(ops.cast(scores, self.compute_dtype), training=training)
        y = ops.transpose(ops.matmul(weights, v), (0, 2, 1, 3))  # (B, N, h, d)
        y = self.projection(ops.reshape(y, (-1, *x.shape[1:])))
        return (y, scores) if return_attention_scores else y

    def compute_output_shape(self, x_shape, context_shape=None):
        return x_shape

    def compute_output_spec(self, x, context=None, training=None, return_attention_scores=False):
        return _output_spec(self, x, x if context is None else context, return_attention_scores)

    def get_config(self):
        config = {
            "num_heads": self.num_heads,
            "dropout_rate": self.dropout_rate,
            "qkv_bias": self.qkv_bias,
            "qk_norm": self.qk_norm,
            "layer_norm_epsilon": self.layer_norm_epsilon,
        }
        return {**super().get_config(), **config}


@keras.saving.register_keras_serializable(package="keras_vit")
class MLP(keras.layers.Layer):
    """Two Dense layers with an activation between, back to the width of the input.

    Args:
        mlp_dim: Inner width M.
        dropout_rate: After each Dense layer, in [0, 1).
        activation: "gelu" (exact) or "gelu_tanh".

    Call arguments:
        x: `(B, N, D)`.

    Raises:
        ValueError: An argument is out of range.
    """

    def __init__(self, mlp_dim, dropout_rate=0.0, activation="gelu", **kwargs):
        super().__init__(**kwargs)
        check_whole("mlp_dim", mlp_dim)
        check_rate("dropout_rate", dropout_rate)
        check_choice("activation", activation, tuple(ACTIVATIONS))
        self.mlp_dim = mlp_dim
        self.dropout_rate = dropout_rate
        self.activation = activation

    def build(self, input_shape):
        self.dense_1 = self._dense(self.mlp_dim, "dense_1")
        self.dense_1.build(input_shape)
        self.dense_2 = self._dense(input_shape[-1], "dense_2")
        self.dense_2.build((*input_shape[:-1], self.mlp_dim))
        self.dropout = keras.layers.Dropout(
            self.dropout_rate, dtype=self.dtype_policy, name="dropout"
        )
        super().build(input_shape)

    def _dense(self, width, name):
        bias = keras.initializers.RandomNormal(stddev=1e-6)  # as the paper's code
        return keras.layers.Dense(width, bias_initializer=bias, dtype=self.dtype_policy, name=name)

    def call(self, x, training=None):
        x = ACTIVATIONS[self.activation](self.dense_1(x))  # (B, N, M)
        x = self.dropout(x, training=training)
        return self.dropout(self.dense_2(x), training=training)

    def get_config(self):
        config = {
            "mlp_dim": self.mlp_dim,
            "dropout_rate": self.dropout_rate,
            "activation": self.activation,
        }
        return {**super().get_config(), **config}


@keras.saving.register_keras_serializable(package="keras_vit")
class TransformerBlock(keras.layers.Layer):
    """A pre-norm encoder block: attention, then an MLP, each added to its input.

    Args:
        num_heads: h; must divide the width.
        mlp_dim: Inner width of the MLP.
        dropout_rate: On the two branches' outputs and inside the MLP, in [0, 1).
        attention_dropout_rate: On the attention weights, in [0, 1).
        drop_path_rate: Chance that a picture skips a branch (Huang et al. 2016), in [0, 1).
        layer_scale_init_value: First value of a learned factor for each channel of a branch
            (Touvron et al. 2021, arXiv 2103.17239, section 2.1); None means no such factor.
        qkv_bias: Biases on query, key and value.
        qk_norm: Layer norm of queries and keys.
        activation: "gelu" (exact) or "gelu_tanh".
        layer_norm_epsilon: Of both norms; every published ViT uses 1e-6 or less.

    Call arguments:
        x: `(B, N, D)`; the result has this shape.
        return_attention_scores: Give `(result, scores)`, scores `(B, h, N, N)` in float32.

    Raises:
        ValueError: An argument is out of range, or D is not divisible by `num_heads`.
    """

    def __init__(
        self,
        num_heads,
        mlp_dim,
        dropout_rate=0.0,
        attention_dropout_rate=0.0,
        drop_path_rate=0.0,
        layer_scale_init_value=None,
        qkv_bias=True,
        qk_norm=False,
        activation="gelu",
        layer_norm_epsilon=1e-6,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_whole("num_heads", num_heads)
        check_whole("mlp_dim", mlp_dim)
        check_rate("dropout_rate", dropout_rate)
        check_rate("attention_dropout_rate", attention_dropout_rate)
        check_rate("drop_path_rate", drop_path_rate)
        check_choice("activation", activation, tuple(ACTIVATIONS))
        self.num_heads = num_heads
        self.mlp_dim = mlp_dim
        self.dropout_rate = dropout_rate
        self.attention_dropout_rate = attention_dropout_rate
        self.drop_path_rate = drop_path_rate
        self.layer_scale_init_value = layer_scale_init_value
        self.qkv_bias = qkv_bias
        self.qk_norm = qk_norm
        self.activation = activation
        self.layer_norm_epsilon = layer_norm_epsilon

    def build(self, input_shape):
        self.norm_1, self.norm_2 = _norm(self, "norm_1"), _norm(self, "norm_2")
        self.attention = Attention(
            self.num_heads,
            self.attention_dropout_rate,
            self.qkv_bias,
            self.qk_norm,
            self.layer_norm_epsilon,
            dtype=self.dtype_policy,
            name="attention",
        )
        self.mlp = MLP(
            self.mlp_dim, self.dropout_rate, self.activation, dtype=self.dtype_policy, name="mlp"
        )
        for part in (self.norm_1, self.attention, self.norm_2, self.mlp):
            part.build(input_shape)
        if self.layer_scale_init_value is not None:
            self.scale_1 = self._scale("layer_scale_1", input_shape[-1])
            self.scale_2 = self._scale("layer_scale_2", input_shape[-1])
        self.dropout = keras.layers.Dropout(
            self.dropout_rate, dtype=self.dtype_policy, name="dropout"
        )
        self.drop_path = keras.layers.Dropout(  # one draw for each picture and branch
            self.drop_path_rate, (None, 1, 1), dtype=self.dtype_policy, name="drop_path"
        )
        super().build(input_shape)

    def _scale(self, name, width):
        initializer = keras.initializers.Constant(self.layer_scale_init_value)
        return self.add_weight(name=name, shape=(width,), initializer=initializer)

    def call(self, x, training=None, return_attention_scores=False):
        y, scores = self.attention(self.norm_1(x), training=training, return_attention_scores=True)
        y = self.dropout(y, training=training)
        x = x + self._branch(y, "scale_1", training)
        x = x + self._branch(self.mlp(self.norm_2(x), training=training), "scale_2", training)
        return (x, scores) if return_attention_scores else x

    def _branch(self, y, scale, training):
        if self.layer_scale_init_value is not None:
            y = y * ops.cast(getattr(self, scale), self.compute_dtype)
        return self.drop_path(y, training=training)

    def compute_output_shape(self, input_shape):
        return input_shape

    def compute_output_spec(self, x, training=None, return_attention_scores=False):
        return _output_spec(self, x, x, return_attention_scores)

    def get_config(self):
        config = {
            "num_heads": self.num_heads,
            "mlp_dim": self.mlp_dim,
            "dropout_rate": self.dropout_rate,
            "attention_dropout_rate": self.attention_dropout_rate,
            "drop_path_rate": self.drop_path_rate,
            "layer_scale_init_value": self.layer_scale_init_value,
            "qkv_bias": self.qkv_bias,
            "qk_norm": self.qk_norm,
            "activation": self.activation,
            "layer_norm_epsilon": self.layer_norm_epsilon,
        }
        return {**super().get_config(), **config}


@keras.saving.register_keras_serializable(package="keras_vit")
class AttentionPooling(keras.layers.Layer):
    """Pools tokens with one learned query, then an MLP (the MAP head of Zhai et al. 2022,
    arXiv 2106.04560, section 3.3, as big_vision computes it).

    Args:
        num_heads: h; must divide the width.
        mlp_dim: Inner width of the MLP.
        activation: "gelu" (exact) or "gelu_tanh".
        layer_norm_epsilon: Of the norm before the MLP.

    Call arguments:
        x: `(B, N, D)`; the result is `(B, D)`.

    Raises:
        ValueError: An argument is out of range, or D is not divisible by `num_heads`.
    """

    def __init__(self, num_heads, mlp_dim, activation="gelu", layer_norm_epsilon=1e-6, **kwargs):
        super().__init__(**kwargs)
        check_whole("num_heads", num_heads)
        check_whole("mlp_dim", mlp_dim)
        check_choice("activation", activation, tuple(ACTIVATIONS))
        self.num_heads = num_heads
        self.mlp_dim = mlp_dim
        self.activation = activation
        self.layer_norm_epsilon = layer_norm_epsilon

    def build(self, input_shape):
        width = input_shape[-1]
        self.probe = self.add_weight(name="probe", shape=(1, width), initializer="glorot_uniform")
        self.attention = Attention(self.num_heads, dtype=self.dtype_policy, name="attention")
        self.norm = _norm(self, "norm")
        self.mlp = MLP(
            self.mlp_dim, activation=self.activation, dtype=self.dtype_policy, name="mlp"
        )
        self.attention.build(input_shape)
        for part in (self.norm, self.mlp):
            part.build((input_shape[0], 1, width))
        super().build(input_shape)

    def call(self, x, training=None):
        probe = ops.expand_dims(ops.cast(self.probe, self.compute_dtype), 0)
        probe = ops.broadcast_to(probe, (ops.shape(x)[0], 1, x.shape[-1]))
        y = self.attention(probe, x)  # (B, 1, D)
        y = y + self.mlp(self.norm(y), training=training)
        return y[:, 0]

    def compute_output_shape(self, input_shape):
        return (input_shape[0], input_shape[-1])

    def get_config(self):
        config = {
            "num_heads": self.num_heads,
            "mlp_dim": self.mlp_dim,
            "activation": self.activation,
            "layer_norm_epsilon": self.layer_norm_epsilon,
        }
        return {**super().get_config(), **config}
