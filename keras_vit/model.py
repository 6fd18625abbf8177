"""From a configuration to a Vision Transformer built by Keras' functional API.

References:
    Dosovitskiy et al., "An Image is Worth 16x16 Words", 2021 (arXiv 2010.11929).
    Zhai et al., "Scaling Vision Transformers", 2022 (arXiv 2106.04560), for the larger variants.
"""

import math
from typing import Annotated, Literal

import keras
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from keras_vit.attention import AttentionPooling, TransformerBlock
from keras_vit.layers import (
    ClassifierHead,
    PatchEncoder,
    Patches,
    PixelNormalization,
    TokenPooling,
    pair,
    sincos1d,
    sincos2d,
)


def _variant(hidden_dim, num_layers, mlp_dim, num_heads):
    return dict(hidden_dim=hidden_dim, num_layers=num_layers, mlp_dim=mlp_dim, num_heads=num_heads)


VARIANTS = {  # big_vision's models/vit.py, decode_variant
    "mu": _variant(32, 1, 128, 2),
    "Ti": _variant(192, 12, 768, 3),
    "S": _variant(384, 12, 1536, 6),
    "M": _variant(512, 12, 2048, 8),
    "B": _variant(768, 12, 3072, 12),
    "L": _variant(1024, 24, 4096, 16),
    "So400m": _variant(1152, 27, 4304, 16),
    "H": _variant(1280, 32, 5120, 16),
    "g": _variant(1408, 40, 6144, 16),
    "G": _variant(1664, 48, 8192, 16),
}

NORMALIZATIONS = {
    "minus_one_one": {"mean": 0.5, "std": 0.5},
    "imagenet": {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)},
}

Size = Annotated[tuple[int, int], BeforeValidator(lambda value: pair("size", value))]
Count = Annotated[int, Field(strict=True, ge=1)]
Rate = Annotated[float, Field(ge=0, lt=1)]


class Normalization(BaseModel):
    """Mean and standard deviation of each channel, both in the [0, 1] range of pixels."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    mean: tuple[float, ...]
    std: tuple[Annotated[float, Field(gt=0)], ...]


class Summary(BaseModel):
    """What a model costs, by arithmetic alone."""

    model_config = ConfigDict(frozen=True)

    num_parameters: int  # weights, trainable or not; fixed positions and seeds do not count
    multiply_accumulates: int  # of one picture's forward pass, attention's two products included
    activation_bytes: int  # kept for the backward pass of one picture in float32
    attention_map_bytes: int  # the scores of one block for one picture in float32


class ViTConfig(BaseModel):
    """Everything that defines a Vision Transformer; frozen, checked, JSON both ways.

    Raises:
        ValueError: (as pydantic's ValidationError) a field is unknown, of the wrong type, out of
            range, or two fields do not go together; the message names field and value.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)  # JSON has no NaN

    image_size: Size = (224, 224)  # (height, width) in pixels; one number means a square
    patch_size: Size = (16, 16)  # (height, width) in pixels
    num_channels: Count = 3
    hidden_dim: Count  # D
    num_layers: Count
    num_heads: Count
    mlp_dim: Count
    num_classes: Annotated[int, Field(strict=True, ge=0)] = 1000  # 0: the features, without a head
    class_token: bool = True
    num_register_tokens: Annotated[int, Field(strict=True, ge=0)] = 0
    position_embedding: Literal["learned", "sincos2d", "sincos1d", "none"] = "learned"
    pooling: Literal["token", "gap", "map"] = "token"
    representation_size: Count | None = None  # width of the tanh layer before a pre-training head
    dropout_rate: Rate = 0.0
    attention_dropout_rate: Rate = 0.0
    drop_path_rate: Rate = 0.0  # of the last block; rises linearly from 0 at the first of several
    layer_scale_init_value: float | None = None
    qkv_bias: bool = True
    qk_norm: bool = False
    activation: Literal["gelu", "gelu_tanh"] = "gelu"
    layer_norm_epsilon: Annotated[float, Field(gt=0)] = 1e-6
    head_bias: float = 0.0  # first value of the head's bias, such as -ln(1000) for sigmoid losses
    multi_label: bool = False  # independent sigmoids in place of one softmax
    normalization: Literal["minus_one_one", "imagenet"] | Normalization = "minus_one_one"

    @model_validator(mode="after")
    def _fields_go_together(self):
        for name, image, patch in zip(
            ("height", "width"), self.image_size, self.patch_size, strict=True
        ):
            if image % patch:
                raise ValueError(
                    f"image_size {image} ({name}) is not divisible by patch_size {patch}"
                )
        if self.hidden_dim % self.num_heads:
            raise ValueError(
                f"hidden_dim {self.hidden_dim} is not divisible by num_heads {self.num_heads}"
            )
        self._check_positions()
        if self.pooling == "token" and not self.class_token:
            raise ValueError("pooling 'token' needs class_token true; got class_token false")
        for name in ("mean", "std"):
            if len(self._channel_statistics()[name]) != self.num_channels:
                raise ValueError(
                    f"normalization {name} has {len(self._channel_statistics()[name])} channels, "
                    f"but num_channels is {self.num_channels}"
                )
        return self

    def _check_positions(self):
        if self.position_embedding == "sincos1d":
            sincos1d(1, self.hidden_dim)
        elif self.position_embedding == "sincos2d":
            sincos2d((1, 1), self.hidden_dim)

    def _channel_statistics(self):
        if isinstance(self.normalization, Normalization):
            return self.normalization.model_dump()
        known = NORMALIZATIONS[self.normalization]
        if self.normalization == "minus_one_one":
            return {name: (value,) * self.num_channels for name, value in known.items()}
        return known

    @classmethod
    def from_variant(cls, variant, **changes):
        """The configuration of a name such as "B/16" (patch size 16), with changes.

        Raises:
            ValueError: The name is unknown, or a change is not valid.
        """
        name, _, patch_size = str(variant).partition("/")
        if name not in VARIANTS or not patch_size.isdecimal():
            raise ValueError(
                f"variant must be one of {', '.join(VARIANTS)} with a patch size, such as 'B/16'; "
                f"got {variant!r}"
            )
        return cls(**{**VARIANTS[name], "patch_size": int(patch_size), **changes})

    @property
    def grid_size(self):
        """(rows, columns) of patches."""
        return tuple(i // p for i, p in zip(self.image_size, self.patch_size, strict=True))

    @property
    def num_prefix_tokens(self):
        return int(self.class_token) + self.num_register_tokens

    @property
    def num_tokens(self):
        return math.prod(self.grid_size) + self.num_prefix_tokens

    def summary(self):
        """Parameters, multiply-accumulates and activation memory by closed form: `Summary`."""
        d, m, n, h = self.hidden_dim, self.mlp_dim, self.num_tokens, self.num_heads
        patch = math.prod(self.patch_size) * self.num_channels
        pooled = self.representation_size or d
        macs = math.prod(self.grid_size) * patch * d
        macs += self.num_layers * (n * (4 * d * d + 2 * d * m) + 2 * n * n * d)
        macs += 2 * (d * d + n * d * d + n * d + d * m) if self.pooling == "map" else 0
        macs += d * pooled if self.representation_size else 0
        macs += pooled * self.num_classes
        # a block keeps both norms' outputs, q, k, v, the attention's output and two sums (8 D),
        # the MLP before and after its activation (2 M), and the scores before and after softmax
        activations = self.num_layers * (n * (8 * d + 2 * m) + 2 * h * n * n)
        return Summary(
            num_parameters=self._num_parameters(),
            multiply_accumulates=macs,
            activation_bytes=4
            * (activations + n * d + math.prod(self.image_size) * self.num_channels),
            attention_map_bytes=4 * h * n * n,
        )

    def _num_parameters(self):
        d, m = self.hidden_dim, self.mlp_dim
        dense = d * m + m + m * d + d
        block = 4 * d * d + d + (3 * d if self.qkv_bias else 0) + dense + 4 * d
        block += 4 * (d // self.num_heads) if self.qk_norm else 0
        block += 2 * d if self.layer_scale_init_value is not None else 0
        total = (
            (math.prod(self.patch_size) * self.num_channels + 1) * d
            + self.num_layers * block
            + 2 * d
        )
        total += self.num_prefix_tokens * d
        if self.position_embedding == "learned":
            total += (math.prod(self.grid_size) + int(self.class_token)) * d
        if self.pooling == "map":
            total += d + 4 * d * d + 4 * d + dense + 2 * d
        pooled = self.representation_size or d
        total += (d + 1) * pooled if self.representation_size else 0
        return total + (pooled + 1) * self.num_classes


def build_vit(config, class_names=None, preprocessing=None):
    """Builds the model: pixels in [0, 255] in, logits (or features) out.

    Args:
        config: A `ViTConfig`, or a variant's name such as "B/16" with its defaults.
        class_names: One name for each class; kept inside the saved file.
        preprocessing: How a picture gets to `image_size`, as a mapping with "resize",
            "crop_fraction" and "interpolation" (`keras_vit.Preprocessing`); kept likewise.

    Returns:
        A `keras.Model` `(B, H, W, C) -> (B, num_classes)` in float32; with `num_classes=0`
        `(B, D)`. Its named parts: pixel_normalization, patches, patch_encoder,
        transformer_block_00 and on, encoder_norm, pooling, pre_logits, predictions.

    Raises:
        ValueError: The number of class names is not `num_classes`.
    """
    config = ViTConfig.from_variant(config) if isinstance(config, str) else config
    if class_names is not None and len(class_names) != config.num_classes:
        raise ValueError(f"{len(class_names)} class_names for num_classes {config.num_classes}")
    pixels = keras.Input((*config.image_size, config.num_channels), name="pixels")
    x = PixelNormalization(
        **config._channel_statistics(), preprocessing=preprocessing, name="pixel_normalization"
    )(pixels)
    x = Patches(config.patch_size, name="patches")(x)
    x = PatchEncoder(
        config.hidden_dim,
        config.class_token,
        config.num_register_tokens,
        config.position_embedding,
        config.dropout_rate,
        config.grid_size,
        name="patch_encoder",
    )(x)
    for index in range(config.num_layers):
        x = _block(config, index)(x)
    x = keras.layers.LayerNormalization(
        epsilon=config.layer_norm_epsilon, dtype="float32", name="encoder_norm"
    )(x)
    x = _pool(config)(x)
    if config.representation_size:
        x = keras.layers.Dense(
            config.representation_size,
            activation="tanh",
            kernel_initializer="lecun_normal",
            dtype="float32",
            name="pre_logits",
        )(x)
    if config.num_classes:
        x = ClassifierHead(
            config.num_classes,
            class_names,
            config.multi_label,
            kernel_initializer="zeros",
            bias_initializer=keras.initializers.Constant(config.head_bias),
            name="predictions",
        )(x)
    return keras.Model(pixels, x, name="vit")


def _block(config, index):
    """Block `index`; its drop path rises from 0 to the configured rate (Huang et al. 2016)."""
    last = config.num_layers - 1
    return TransformerBlock(
        config.num_heads,
        config.mlp_dim,
        config.dropout_rate,
        config.attention_dropout_rate,
        config.drop_path_rate * (index / last if last else 1.0),
        config.layer_scale_init_value,
        config.qkv_bias,
        config.qk_norm,
        config.activation,
        config.layer_norm_epsilon,
        name=f"transformer_block_{index:02d}",
    )


def _pool(config):
    if config.pooling == "map":
        return AttentionPooling(
            config.num_heads,
            config.mlp_dim,
            config.activation,
            config.layer_norm_epsilon,
            dtype="float32",
            name="pooling",
        )
    return TokenPooling(config.pooling, config.num_prefix_tokens, dtype="float32", name="pooling")


def blocks(model):
    """The transformer blocks of a model in their order, found by type, whatever their names."""
    return [layer for layer in model.layers if isinstance(layer, TransformerBlock)]


def config_of(model):
    """The `ViTConfig` that builds a model like this one, read from its layers.

    Raises:
        ValueError: The model was not built by `build_vit`.
    """
    layers = {layer.name: layer for layer in model.layers}
    missing = {"pixel_normalization", "patches", "patch_encoder", "pooling"} - set(layers)
    if missing:
        raise ValueError(f"{model.name} is no model of build_vit: it has no {sorted(missing)[0]}")
    encoder, block = layers["patch_encoder"], blocks(model)
    head, pre_logits = layers.get("predictions"), layers.get("pre_logits")
    pixels = layers["pixel_normalization"]
    shared = (
        "num_heads mlp_dim dropout_rate attention_dropout_rate layer_scale_init_value "
        "qkv_bias qk_norm activation layer_norm_epsilon"
    )
    return ViTConfig(
        image_size=tuple(model.input_shape[1:3]),
        num_channels=model.input_shape[3],
        patch_size=layers["patches"].patch_size,
        hidden_dim=encoder.hidden_dim,
        num_layers=len(block),
        num_classes=head.units if head else 0,
        class_token=encoder.class_token,
        num_register_tokens=encoder.num_register_tokens,
        position_embedding=encoder.position_embedding,
        pooling=getattr(layers["pooling"], "pooling", "map"),
        representation_size=pre_logits.units if pre_logits else None,
        drop_path_rate=block[-1].drop_path_rate,
        head_bias=float(head.bias_initializer.value) if head else 0.0,
        multi_label=head.multi_label if head else False,
        normalization=_name_of_normalization(pixels.mean, pixels.std),
        **{name: getattr(block[0], name) for name in shared.split()},
    )


def _name_of_normalization(mean, std):
    if set(mean) == set(std) == {0.5}:
        return "minus_one_one"
    if {"mean": mean, "std": std} == NORMALIZATIONS["imagenet"]:
        return "imagenet"
    return Normalization(mean=mean, std=std)
