"""Vision Transformers for Keras 3: from a folder of images to production.

Importing this registers the layers, so that saved models load; everything that needs more than
Keras is imported when it is first used.
"""

from importlib import import_module

from keras_vit.attention import AttentionPooling, TransformerBlock
from keras_vit.layers import PatchEncoder, Patches
from keras_vit.model import VARIANTS, ViTConfig, build_vit
from keras_vit.optim import ClassificationLoss, WarmupSchedule

__version__ = "0.1.0"

_LAZY = {  # public name: its room
    "Preprocessing": "keras_vit.images",
    "read_image": "keras_vit.images",
    "load": "keras_vit.checkpoint",
    "save": "keras_vit.checkpoint",
    "predict": "keras_vit.prediction",
    "Recipe": "keras_vit.recipe",
}

__all__ = [
    "VARIANTS",
    "AttentionPooling",
    "ClassificationLoss",
    "PatchEncoder",
    "Patches",
    "TransformerBlock",
    "ViTConfig",
    "WarmupSchedule",
    "build_vit",
    *_LAZY,
]


def __getattr__(name):
    if name not in _LAZY:
        raise AttributeError(f"module 'keras_vit' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


def __dir__():
    return sorted([*globals(), *_LAZY])
