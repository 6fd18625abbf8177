"""Saved models come back whole, in other processes too, whatever their options."""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
from layer_contract import named_weights, randomize, to_numpy

from keras_vit.attention import MLP, Attention, AttentionPooling, TransformerBlock
from keras_vit.layers import ClassifierHead, PatchEncoder, Patches, PixelNormalization, TokenPooling
from keras_vit.model import ViTConfig, build_vit, config_of

TINY = {
    "image_size": 8,
    "patch_size": 4,
    "hidden_dim": 16,
    "num_layers": 2,
    "num_heads": 2,
    "mlp_dim": 24,
    "num_classes": 3,
}
ALL_OFF_DEFAULT = {
    "image_size": (8, 12),
    "patch_size": (4, 3),
    "num_channels": 1,
    "num_register_tokens": 2,
    "position_embedding": "sincos2d",
    "pooling": "gap",
    "class_token": False,
    "representation_size": 6,
    "dropout_rate": 0.1,
    "attention_dropout_rate": 0.2,
    "drop_path_rate": 0.3,
    "layer_scale_init_value": 0.5,
    "qkv_bias": False,
    "qk_norm": True,
    "activation": "gelu_tanh",
    "layer_norm_epsilon": 1e-5,
    "head_bias": -2.0,
    "multi_label": True,
    "normalization": {"mean": (0.2,), "std": (0.3,)},
}
MODELS = {  # name: fields, dtype policy
    "plain": ({}, "float32"),
    "everything": (ALL_OFF_DEFAULT, "float32"),
    "half": (ALL_OFF_DEFAULT, "mixed_bfloat16"),
    "map": ({"pooling": "map", "position_embedding": "sincos1d"}, "mixed_float16"),
    "features": ({"num_classes": 0, "position_embedding": "none"}, "float32"),
}
LAYERS = {  # every layer alone: name: the layer's maker, the shape of one input
    "pixel_normalization": (lambda: PixelNormalization((0.4,), (0.2,)), (4, 4, 1)),
    "patches": (lambda: Patches((2, 4)), (4, 4, 1)),
    "patch_encoder": (lambda: PatchEncoder(8, num_register_tokens=1), (4, 6)),
    "token_pooling": (lambda: TokenPooling("gap", 2), (4, 6)),
    "classifier_head": (lambda: ClassifierHead(2, ["a", "b"], True), (6,)),
    "attention": (lambda: Attention(2, qk_norm=True), (4, 6)),
    "mlp": (lambda: MLP(5), (4, 6)),
    "transformer_block": (lambda: TransformerBlock(2, 5, drop_path_rate=0.1), (4, 6)),
    "attention_pooling": (lambda: AttentionPooling(2, 5), (4, 6)),
}
LOAD_ALL = """
import json, sys
import {first}
import {second}
import numpy as np
differences = dict()
for name in sys.argv[2].split(","):
    model = keras.saving.load_model(sys.argv[1] + "/" + name + ".keras")  # safe mode is the default
    saved = np.load(sys.argv[1] + "/" + name + ".npz")
    result = np.asarray(keras.ops.convert_to_numpy(model(saved["inputs"])))
    differences[name] = float(np.abs(result - saved["outputs"]).max())
print(json.dumps(differences))
"""


def run_python(code, *arguments, flags=()):
    """A fresh interpreter; its answer, without the lines of TensorFlow's own."""
    command = [sys.executable, *flags, "-c", code, *map(str, arguments)]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def make_model(name):
    fields, policy = MODELS[name]
    keras.config.set_dtype_policy(policy)
    try:
        return build_vit(ViTConfig(**{**TINY, **fields}))
    finally:
        keras.config.set_dtype_policy("float32")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with every model and every layer, and what each answered before."""
    folder = tmp_path_factory.mktemp("saved")
    models = {name: make_model(name) for name in MODELS}
    for name, (make, shape) in LAYERS.items():
        inputs = keras.Input(shape)
        models[name] = keras.Model(inputs, make()(inputs))
    for name, model in models.items():
        randomize(model)
        inputs = np.random.default_rng(1).uniform(0, 255, (2, *model.input_shape[1:]))
        inputs = inputs.astype("float32")
        model.save(folder / f"{name}.keras")
        np.savez(folder / f"{name}.npz", inputs=inputs, outputs=to_numpy(model(inputs)))
    return folder


@pytest.mark.parametrize("first, second", [("keras", "keras_vit"), ("keras_vit", "keras")])
def test_a_process_that_only_imports_keras_and_keras_vit_reads_every_model(saved, first, second):
    names = [*MODELS, *LAYERS]
    result = run_python(LOAD_ALL.format(first=first, second=second), saved, ",".join(names))
    assert result.returncode == 0, result.stderr
    differences = json.loads(result.stdout)
    assert list(differences) == names
    assert max(differences.values()) <= 1e-6


def test_without_keras_vit_the_error_says_to_import_it(saved):
    code = "import keras, sys; keras.saving.load_model(sys.argv[1])"
    result = run_python(code, saved / "plain.keras")
    assert result.returncode == 1
    message = result.stderr.splitlines()[-1]
    assert "keras_vit.layers" in message and "make sure they are all imported" in message


@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_models_configuration_is_that_of_the_saved_one(saved, name):
    loaded = keras.saving.load_model(saved / f"{name}.keras")
    assert config_of(loaded) == ViTConfig(**{**TINY, **MODELS[name][0]})
    original = make_model(name)
    assert [w.path for w in loaded.weights] == [w.path for w in original.weights]
    for ours, theirs in zip(loaded.layers, original.layers, strict=True):
        assert ours.get_config() == theirs.get_config()


def test_class_names_and_preprocessing_travel_inside_the_file(tmp_path):
    names = ["Käfer", "b c", "日本"]
    model = build_vit(ViTConfig(**TINY), names, {"resize": "crop", "crop_fraction": 0.9})
    model.save(tmp_path / "named.keras")
    loaded = keras.saving.load_model(tmp_path / "named.keras")
    assert loaded.get_layer("predictions").class_names == tuple(names)
    preprocessing = loaded.get_layer("pixel_normalization").preprocessing
    assert preprocessing == {"resize": "crop", "crop_fraction": 0.9}


@pytest.mark.parametrize("num_classes", [3, 0])
@pytest.mark.parametrize("kind", ["keras", "weights.h5"])
def test_class_token_and_positions_come_back_before_the_first_call(tmp_path, kind, num_classes):
    config = ViTConfig(**{**TINY, "num_classes": num_classes})
    model, path = build_vit(config), tmp_path / f"model.{kind}"
    randomize(model)
    if kind == "keras":
        model.save(path)
        fresh = keras.saving.load_model(path)
    else:
        model.save_weights(path)
        fresh = build_vit(config)
        fresh.load_weights(path)
    expected, found = named_weights(model), named_weights(fresh)
    assert list(found) == list(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
    for name in ("class_token", "position_embedding"):
        assert np.abs(found[f"patch_encoder/{name}"]).min() > 0
    pixels = np.full((1, 8, 8, 3), 99.0, "float32")
    np.testing.assert_array_equal(
        model.predict(pixels, verbose=0), fresh.predict(pixels, verbose=0)
    )


def test_the_trained_state_of_the_optimizer_comes_back_with_the_model(tmp_path):
    model = build_vit(ViTConfig(**TINY, dropout_rate=0.1))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.AdamW(1e-3), loss=loss, jit_compile=False)
    model.train_on_batch(np.zeros((2, 8, 8, 3)), np.array([0, 1]))
    model.save(tmp_path / "trained.keras")
    loaded = keras.saving.load_model(tmp_path / "trained.keras")
    for ours, theirs in zip(loaded.optimizer.variables, model.optimizer.variables, strict=True):
        np.testing.assert_array_equal(to_numpy(ours), to_numpy(theirs))


def test_sizes_are_checked_without_asserts():
    """`python -O` removes asserts: nothing may depend on one."""
    code = """
import numpy as np
import keras_vit
attempts = [
    (dict(image_size=222), "222", "16"),
    (dict(image_size=(224, 230)), "230", "16"),
    (dict(patch_size=0), "patch_size", "0"),
    (dict(patch_size=512), "224", "512"),
    (dict(hidden_dim=100, num_heads=12), "100", "12"),
    (dict(image_size=(224,)), "image_size", "(224,)"),
    (dict(image_size=(224, 224, 3)), "image_size", "(224, 224, 3)"),
    (dict(image_size="224"), "image_size", "'224'"),
]
for changes, first, second in attempts:
    try:
        keras_vit.build_vit(keras_vit.ViTConfig.from_variant("B/16", **changes))
    except ValueError as error:
        print(first in str(error) and second in str(error))
try:
    keras_vit.Patches(2)(np.zeros((1, 5, 7, 3)))
except ValueError as error:
    print("5" in str(error) and "2" in str(error))
print(__debug__)
"""
    result = run_python(code, flags=["-O"])
    assert result.stdout.split() == ["True"] * 9 + ["False"], result.stderr
