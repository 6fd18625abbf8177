"""The ways to write self-attention in Keras, each as a layer, to be timed against ours."""

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_vit.attention import Attention


def _attend(layer, q, k, v):
    """(B, h, N, d) three times to (B, N, D), in the precision rules that ours keeps too."""
    scores = ops.matmul(q * q.shape[-1] ** -0.5, ops.transpose(k, (0, 1, 3, 2)))
    weights = ops.cast(ops.softmax(ops.cast(scores, "float32")), layer.compute_dtype)
    y = ops.transpose(ops.matmul(weights, v), (0, 2, 1, 3))
    return layer.projection(ops.reshape(y, (-1, y.shape[1], y.shape[2] * y.shape[3])))


class SeparateProjections(keras.layers.Layer):
    """Three Dense layers."""

    def __init__(self, num_heads, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads

    def build(self, input_shape):
        for name in ("query", "key", "value", "projection"):
            dense = keras.layers.Dense(input_shape[-1], dtype=self.dtype_policy, name=name)
            dense.build(input_shape)
            setattr(self, name, dense)

    def call(self, x):
        parts = (self.query(x), self.key(x), self.value(x))
        shape = (-1, x.shape[1], self.num_heads, x.shape[2] // self.num_heads)
        return _attend(
            self, *(ops.transpose(ops.reshape(part, shape), (0, 2, 1, 3)) for part in parts)
        )


class FusedProjection(keras.layers.Layer):
    """One Dense(3 D); its result split in three, or taken apart by a 5-D transpose."""

    def __init__(self, num_heads, five_dimensions, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.five_dimensions = five_dimensions

    def build(self, input_shape):
        width = input_shape[-1]
        self.qkv = keras.layers.Dense(3 * width, dtype=self.dtype_policy, name="qkv")
        self.projection = keras.layers.Dense(width, dtype=self.dtype_policy, name="projection")
        self.qkv.build(input_shape)
        self.projection.build(input_shape)

    def call(self, x):
        shape = (-1, x.shape[1], self.num_heads, x.shape[2] // self.num_heads)
        if self.five_dimensions:
            parts = ops.reshape(self.qkv(x), (-1, shape[1], 3, *shape[2:]))
            return _attend(self, *ops.unstack(ops.transpose(parts, (2, 0, 3, 1, 4)), axis=0))
        parts = ops.split(self.qkv(x), 3, axis=-1)
        return _attend(
            self, *(ops.transpose(ops.reshape(part, shape), (0, 2, 1, 3)) for part in parts)
        )


class KerasAttention(keras.layers.Layer):
    """Keras' own layer, attending to its input."""

    def __init__(self, num_heads, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads

    def build(self, input_shape):
        self.attention = keras.layers.MultiHeadAttention(
            self.num_heads, input_shape[-1] // self.num_heads, dtype=self.dtype_policy
        )
        self.attention.build(input_shape, input_shape)

    def call(self, x):
        return self.attention(x, x)


LAYOUTS = {
    "keras_vit.attention.Attention": Attention,
    "keras.layers.MultiHeadAttention": KerasAttention,
    "fused qkv, 5-D": lambda heads, **kwargs: FusedProjection(heads, True, **kwargs),
    "fused qkv, split": lambda heads, **kwargs: FusedProjection(heads, False, **kwargs),
    "separate projections": SeparateProjections,
}
DEPTH = 3  # layers on top of each other, so that what stands around them weighs little


def make_steps(contestant, size, precision):
    """Task `layout|infer or train|XLA or not` to a function that prepares that step."""
    policy = "float32" if precision == "float32" else "mixed_bfloat16"
    shape = (size.batch_size, size.num_tokens, size.hidden_dim)
    x = tf.constant(np.random.default_rng(0).normal(size=shape), "float32")
    return {
        f"{layout}|{task}|{xla}": _preparation(layout, task, xla == "XLA", size, policy, x)
        for layout in LAYOUTS
        for task in ("infer", "train")
        for xla in ("no XLA", "XLA")
    }


def _preparation(layout, task, xla, size, policy, x):
    def prepare():
        layers = [LAYOUTS[layout](size.num_heads, dtype=policy) for _ in range(DEPTH)]
        for layer in layers:
            layer.build(x.shape)
        weights = [weight.value for layer in layers for weight in layer.trainable_weights]

        def forward():
            y = tf.cast(x, layers[0].compute_dtype)
            for layer in layers:
                y = y + layer(y)
            return y

        def gradients():
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(tf.cast(forward(), "float32")))
            return tape.gradient(loss, weights)

        compiled = tf.function(gradients if task == "train" else forward, jit_compile=xla)
        return lambda: tf.nest.flatten(compiled())[0].numpy()

    return prepare
