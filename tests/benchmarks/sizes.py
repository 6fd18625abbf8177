"""What is measured: the models' sizes, and who takes part."""

from importlib.util import find_spec
from typing import NamedTuple


class Size(NamedTuple):
    """One model and its batch; the same numbers go to every contestant."""

    image_size: int  # pixels of a side
    num_channels: int
    patch_size: int
    hidden_dim: int
    num_heads: int
    num_layers: int
    mlp_dim: int
    num_classes: int
    batch_size: int

    @property
    def num_tokens(self):
        return (self.image_size // self.patch_size) ** 2 + 1


SIZES = {
    "Ti/16 at 224": Size(224, 3, 16, 192, 3, 12, 768, 1000, 16),
    "the lesson's model": Size(28, 1, 4, 64, 4, 3, 128, 10, 128),
    # for --quick only: the same roads, nothing to conclude from
    "a toy": Size(32, 3, 8, 32, 2, 2, 64, 10, 8),
}

CONTESTANTS = {  # name: the packages it needs, the module that knows it
    "keras_vit": ((), "keras_models"),
    "keras_vit, XLA": ((), "keras_models"),
    "keras-hub": (("keras_hub",), "keras_models"),
    "keras-hub, XLA": (("keras_hub",), "keras_models"),
    "timm": (("torch", "timm"), "timm_models"),
    "attention": ((), "attention_layouts"),
    "matmul, TensorFlow": ((), "matmul_tensorflow"),
    "matmul, PyTorch": (("torch",), "matmul_torch"),
}


def missing_packages(contestant):
    return [name for name in CONTESTANTS[contestant][0] if find_spec(name) is None]
