"""Saved models: written whole, loaded with everything that a prediction needs."""

import zipfile
from pathlib import Path

import keras
import numpy as np

from keras_vit.files import replacing
from keras_vit.images import Preprocessing

BEST_MODEL = "best.keras"


class KerasPredictor:
    """A Keras model behind the small interface that everything which answers batches has.

    Attributes:
        model: The Keras model.
        class_names: One name for each output.
        preprocessing: How a picture gets to the model's size.
        multi_label: Whether outputs are independent sigmoids.
    """

    def __init__(self, model):
        import tensorflow as tf

        self.model = model
        self.class_names = class_names_of(model)
        self.preprocessing = preprocessing_of(model)
        self.multi_label = getattr(_head(model), "multi_label", False)
        self._answer = tf.function(lambda pixels: model(pixels, training=False))

    def predict_batch(self, pixels):
        """`(B, H, W, C)` pixels in [0, 255] to `(B, K)` float32 logits."""
        return self._answer(np.asarray(pixels, "float32")).numpy()


def wrap(model):
    """Puts a Keras model behind `predict_batch`, `class_names`, `preprocessing`."""
    return KerasPredictor(model)


def save(model, path):
    """Saves a model as a `.keras` file, for predicting: without the optimizer.

    Class names and preprocessing are inside (`build_vit(class_names=..., preprocessing=...)`).

    Args:
        model: A built `keras.Model`.
        path: The file; written beside and renamed, so that it is whole or the old one.

    Raises:
        ValueError: The name does not end in `.keras`.
    """
    if Path(path).suffix != ".keras":
        raise ValueError(f"{path}: a saved model's name must end in .keras")
    with replacing(path) as temporary:
        model.save(temporary, include_optimizer=False)


def load(path):
    """Loads a saved model, ready to predict, to fine-tune or to export.

    Args:
        path: A `.keras` file, or a run folder (its `best.keras`).

    Returns:
        The `keras.Model`, not compiled, with `class_names` (a tuple) and `preprocessing`
        (a `keras_vit.Preprocessing`, or None where the channels are no picture's).

    Raises:
        ValueError: There is no such file, or it is damaged or no Keras model; names the file.
    """
    path = _model_file(Path(path))
    try:
        model = keras.saving.load_model(path, compile=False, safe_mode=True)
    except Exception as error:
        reason = str(error).strip().splitlines()
        raise ValueError(
            f"{path}: cannot be loaded as a Keras model: {reason[0] if reason else repr(error)}"
        ) from error
    model.class_names = class_names_of(model)
    model.preprocessing = preprocessing_of(model)
    return model


def _model_file(path):
    if path.is_dir():
        if not (path / BEST_MODEL).is_file():
            raise ValueError(f"{path}: no {BEST_MODEL} in this folder, so it is no finished run")
        path = path / BEST_MODEL
    if not path.is_file():
        raise ValueError(f"{path}: no such model file or run folder")
    if path.suffix != ".keras":
        raise ValueError(f"{path}: expected a .keras file or a run folder")
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path}: cut off or no Keras model at all (not a zip archive)")
    return path


def load_any(path):
    """Opens whatever answers batches of pictures, behind one small interface.

    Args:
        path: A `.keras` file or a run folder.

    Returns:
        An object with `predict_batch(pixels) -> logits`, `class_names`, `preprocessing` and
        `multi_label`.

    Raises:
        ValueError: As `load`.
    """
    return wrap(load(path))


def class_names_of(model):
    """The names of a model's outputs; their numbers as text where the file has no names."""
    names = getattr(_head(model), "class_names", None)
    return tuple(names or map(str, range(model.output_shape[-1])))


def preprocessing_of(model):
    """How a picture gets to a model's size; None if its channels are no picture's."""
    height, width, channels = model.input_shape[1:]
    if channels not in (1, 3):
        return None
    layers = {layer.name: layer for layer in model.layers}
    rules = getattr(layers.get("pixel_normalization"), "preprocessing", {})
    return Preprocessing(image_size=(height, width), num_channels=channels, **rules)


def _head(model):
    return model.layers[-1]
