"""The most that TensorFlow's matrix product reaches on this machine."""

import tensorflow as tf

SIDE = 2048


def make_steps(contestant, size, precision):
    """Task (a precision) to a function that prepares one product of two square matrices."""

    def preparation(dtype):
        def prepare():
            a = tf.cast(tf.random.normal((SIDE, SIDE)), dtype)
            product = tf.function(lambda: tf.matmul(a, a))
            return lambda: product()[0, 0].numpy()

        return prepare

    return {dtype: preparation(dtype) for dtype in ("float32", "bfloat16")}
