"""The contract that every layer of keras_vit keeps, on every Keras backend."""

import json

import keras
import numpy as np

POLICIES = {"float32": 1e-6, "mixed_bfloat16": 0.05, "mixed_float16": 0.01}  # policy: tolerance


def check_layer(layer_class, arguments, inputs, folder):
    """Runs every part of the contract on one layer.

    Args:
        layer_class: A layer of keras_vit.
        arguments: Its constructor's arguments, all different from their defaults where possible.
        inputs: A float32 batch.
        folder: Where a saved model may be written.
    """
    keras.utils.set_random_seed(7)
    layer = layer_class(**arguments, name="tested")
    outputs = to_numpy(layer(inputs))
    assert layer.built and np.isfinite(outputs).all()
    check_config(layer, arguments)
    check_symbolic_call(layer, inputs, outputs)
    check_policies(layer, arguments, inputs, outputs)
    check_saving(layer, inputs, folder / "layer.keras")
    check_learning(layer_class(**arguments, name="learning"), inputs)


def check_config(layer, arguments):
    """The config holds every argument, and is the constructor's inverse, also through JSON."""
    config = layer.get_config()
    assert set(arguments) <= set(config)
    twin = type(layer).from_config(json.loads(json.dumps(config)))
    assert twin.get_config() == config
    for name, value in arguments.items():
        assert getattr(twin, name) == getattr(layer, name) == value, name


def check_symbolic_call(layer, inputs, outputs):
    """What a functional model is told is what comes; the batch size stays open."""
    promise = layer(keras.KerasTensor((None, *inputs.shape[1:]), "float32"))
    assert promise.shape == (None, *outputs.shape[1:])
    assert promise.dtype == "float32"
    assert layer(inputs[:1]).shape[0] == 1


def check_policies(layer, arguments, inputs, outputs):
    """Half precision computes in half, keeps float32 weights and gives nearly the same."""
    for policy, tolerance in POLICIES.items():
        half = type(layer)(**arguments, dtype=policy)
        half.build(inputs.shape)
        half.set_weights(layer.get_weights())
        result = half(inputs)
        dtype = keras.DTypePolicy(policy).compute_dtype
        promise = half(keras.KerasTensor((None, *inputs.shape[1:]), "float32"))
        assert keras.backend.standardize_dtype(result.dtype) == promise.dtype == dtype
        assert {weight.dtype for weight in half.weights} <= {"float32"}
        np.testing.assert_allclose(
            to_numpy(result), outputs, atol=tolerance * max(1, np.abs(outputs).max())
        )
        assert type(layer).from_config(half.get_config()).dtype_policy.name == policy


def check_saving(layer, inputs, path):
    """A model with this layer comes back from its file bit for bit, in safe mode."""
    pixels = keras.Input(inputs.shape[1:])
    model = keras.Model(pixels, layer(pixels))
    model.save(path)
    loaded = keras.saving.load_model(path, safe_mode=True)
    assert [w.path for w in loaded.weights] == [w.path for w in model.weights]
    assert loaded.get_layer("tested").get_config() == layer.get_config()
    before, after = (m.predict(inputs, verbose=0) for m in (model, loaded))
    np.testing.assert_array_equal(before, after)


def check_learning(layer, inputs):
    """A gradient reaches every weight, and the layer before; steps lower the loss."""
    tokens = keras.Input(inputs.shape[1:])
    before = keras.layers.Dense(inputs.shape[-1], name="before")
    model = keras.Model(tokens, layer(before(tokens)))
    model.compile(optimizer=keras.optimizers.SGD(0.05), loss="mean_squared_error")
    targets = np.random.default_rng(1).normal(size=model(inputs).shape).astype("float32")
    start = {weight.path: to_numpy(weight) for weight in model.trainable_weights}
    first_loss = np.mean((to_numpy(model(inputs)) - targets) ** 2)
    for _ in range(10):
        model.train_on_batch(inputs, targets)
    assert np.mean((to_numpy(model(inputs)) - targets) ** 2) < first_loss
    for weight in model.trainable_weights:
        # a bias on the keys moves all scores of a query alike: softmax takes no notice of it
        if not weight.path.endswith("key/bias"):
            assert not np.array_equal(to_numpy(weight), start[weight.path]), weight.path


def to_numpy(tensor):
    """float32 NumPy, whatever the backend and the precision."""
    return np.asarray(keras.ops.convert_to_numpy(keras.ops.cast(tensor, "float32")))


def randomize(layer, seed=0, spread=0.3):
    """Gives every weight a value of its own, so that none can hide behind a zero or a one."""
    random = np.random.default_rng(seed)
    for weight in layer.weights:
        fan_in = weight.shape[0] if len(weight.shape) == 2 else 1
        value = random.normal(scale=fan_in**-0.5 if fan_in > 1 else spread, size=weight.shape)
        weight.assign(value + ("gamma" in weight.path))


def named_weights(layer):
    """The layer's weights by their path within it."""
    prefix = layer.path + "/" if getattr(layer, "path", None) else ""
    return {w.path.removeprefix(prefix): to_numpy(w) for w in layer.weights}
