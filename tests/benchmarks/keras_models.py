"""keras_vit and keras-hub: the compiled steps that `fit` runs, the same for both."""

import keras
import numpy as np
import tensorflow as tf

import keras_vit


def _ours(size):
    config = keras_vit.ViTConfig(
        image_size=size.image_size,
        patch_size=size.patch_size,
        num_channels=size.num_channels,
        hidden_dim=size.hidden_dim,
        num_layers=size.num_layers,
        num_heads=size.num_heads,
        mlp_dim=size.mlp_dim,
        num_classes=size.num_classes,
    )
    return keras_vit.build_vit(config)


def _keras_hub(size):
    import keras_hub

    backbone = keras_hub.models.ViTBackbone(
        image_shape=(size.image_size, size.image_size, size.num_channels),
        patch_size=size.patch_size,
        num_layers=size.num_layers,
        num_heads=size.num_heads,
        hidden_dim=size.hidden_dim,
        mlp_dim=size.mlp_dim,
    )
    return keras_hub.models.ViTImageClassifier(backbone, size.num_classes, preprocessor=None)


def make_steps(contestant, size, precision):
    """Task to a function that prepares it; each gives a step that ends when its result is there."""
    keras.config.set_dtype_policy("float32" if precision == "float32" else "mixed_bfloat16")
    xla = contestant.endswith("XLA")
    model = _ours(size) if contestant.startswith("keras_vit") else _keras_hub(size)
    random = np.random.default_rng(0)
    shape = (size.batch_size, size.image_size, size.image_size, size.num_channels)
    pixels = tf.constant(random.uniform(0, 255, shape), "float32")
    labels = tf.constant(random.integers(0, size.num_classes, size.batch_size))

    def infer():
        answer = tf.function(lambda: model(pixels, training=False), jit_compile=xla)
        return lambda: answer().numpy()

    def train():
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        optimizer = keras.optimizers.AdamW(1e-4, weight_decay=0.01)
        model.compile(optimizer=optimizer, loss=loss, jit_compile=xla)
        model.make_train_function()
        batches = iter(tf.data.Dataset.from_tensors((pixels, labels)).repeat())
        return lambda: float(model.train_function(batches)["loss"])

    return {"infer": infer, "train": train}
