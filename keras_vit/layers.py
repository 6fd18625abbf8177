"""The layers of a Vision Transformer, written with `keras.ops` only.

Shapes: B pictures, H W pixels, C channels, P patch side, N tokens, D width, M MLP width, h heads.

References:
    Dosovitskiy et al., "An Image is Worth 16x16 Words", 2021 (arXiv 2010.11929), section 3.1.
    Each later part names its own paper.
"""

import math
import numbers

import keras
import numpy as np
from keras import ops

POSITION_EMBEDDINGS = ("learned", "sincos2d", "sincos1d", "none")
POOLINGS = ("token", "gap")


def gelu(x):
    """Exact GELU (Hendrycks and Gimpel, 2016), spelled with `erf` so that every export has it."""
    return 0.5 * x * (1.0 + ops.erf(x * 0.7071067811865476))


def gelu_tanh(x):
    """The tanh form of GELU that JAX's models use; at most 4.7e-4 from the exact one."""
    return keras.activations.gelu(x, approximate=True)


ACTIVATIONS = {"gelu": gelu, "gelu_tanh": gelu_tanh}


def check_choice(name, value, choices):
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}; got {value!r}")


def check_whole(name, value, least=1):
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be a whole number >= {least}; got {value!r}")


def check_rate(name, value):
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= value < 1:
        raise ValueError(f"{name} must be a number in [0, 1); got {value!r}")


def pair(name, value):
    """`16` or `(16, 16)` to `(16, 16)`; anything else is refused by name."""
    values = (value, value) if isinstance(value, int | np.integer) else value
    if not isinstance(values, list | tuple) or len(values) != 2:
        raise ValueError(f"{name} must be a whole number or (height, width); got {value!r}")
    for number in values:
        check_whole(name, number)
    return tuple(int(number) for number in values)


def sincos1d(length, width):
    """Sinusoids of Vaswani et al. 2017, section 3.5, sines first: `(length, width)` float32."""
    if width % 2 or width < 4:
        raise ValueError(f"sincos1d needs an even hidden_dim >= 4; got {width}")
    angles = np.outer(np.arange(length), 10_000.0 ** (-np.arange(width // 2) / (width // 2)))
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype("float32")


def sincos2d(grid_size, width):
    """Fixed 2-D sinusoids of Beyer et al. 2022 (arXiv 2205.01580): `(rows * columns, width)`."""
    if width % 4 or width < 8:
        raise ValueError(f"sincos2d needs a hidden_dim divisible by 4 and >= 8; got {width}")
    omega = 10_000.0 ** (-np.arange(width // 4) / (width // 4 - 1))
    y, x = np.mgrid[: grid_size[0], : grid_size[1]]
    x, y = np.outer(x.ravel(), omega), np.outer(y.ravel(), omega)
    return np.concatenate([np.sin(x), np.cos(x), np.sin(y), np.cos(y)], axis=1).astype("float32")


@keras.saving.register_keras_serializable(package="keras_vit")
class PixelNormalization(keras.layers.Layer):
    """Turns pixels in [0, 255] into what the weights were trained on: `(x / 255 - mean) / std`.

    It also carries how a picture must be brought to the model's size, so that the knowledge
    travels inside every saved file. Computes in float32 whatever the policy: half precision
    cannot tell neighbouring pixel values apart.

    Args:
        mean: One number for each channel, in [0, 1].
        std: One number for each channel, > 0, in units of the [0, 1] range.
        preprocessing: The picture's way to the model's size as plain values, such as
            `{"resize": "crop", "crop_fraction": 0.9, "interpolation": "bicubic"}`; kept, not used.

    Call arguments:
        pixels: `(B, H, W, C)`, any number type, in [0, 255].

    Raises:
        ValueError: `mean` and `std` differ in length, `std` holds a number <= 0, or pixels with
            another number of channels come.
    """

    def __init__(self, mean, std, preprocessing=None, **kwargs):
        kwargs.setdefault("dtype", "float32")
        super().__init__(**kwargs)
        self.mean = tuple(float(value) for value in mean)
        self.std = tuple(float(value) for value in std)
        self.preprocessing = dict(preprocessing or {})
        if len(self.mean) != len(self.std) or not self.mean:
            raise ValueError(f"mean and std need a number per channel; got {mean!r} and {std!r}")
        if not all(value > 0 for value in self.std):
            raise ValueError(f"std must be > 0 for every channel; got {std!r}")
        # checked at every call: a built model alone lets one channel pass for three
        self.input_spec = keras.layers.InputSpec(axes={-1: len(self.mean)})

    def call(self, pixels):
        mean, std = np.asarray(self.mean), np.asarray(self.std)
        scale = ops.convert_to_tensor(1.0 / (255.0 * std), self.compute_dtype)
        offset = ops.convert_to_tensor(-mean / std, self.compute_dtype)
        return ops.cast(pixels, self.compute_dtype) * scale + offset

    def get_config(self):
        config = {"mean": self.mean, "std": self.std, "preprocessing": self.preprocessing}
        return {**super().get_config(), **config}


@keras.saving.register_keras_serializable(package="keras_vit")
class Patches(keras.layers.Layer):
    """Cuts pictures into flat patches, row by row.

    `(B, H, W, C) -> (B, H / Ph * W / Pw, Ph * Pw * C)`. By reshape and transpose: exact, and a size
    that does not divide is an error, where `ops.image.extract_patches` drops the edge in silence.

    Args:
        patch_size: Side in pixels, or (height, width).

    Call arguments:
        pixels: `(B, H, W, C)`; H and W known when the layer is built.

    Raises:
        ValueError: A side of the picture is not a whole number of patches.
    """

    def __init__(self, patch_size, **kwargs):
        super().__init__(**kwargs)
        self.patch_size = pair("patch_size", patch_size)

    def build(self, input_shape):
        self.compute_output_shape(tuple(input_shape))
        super().build(input_shape)

    def compute_output_shape(self, input_shape):
        if len(input_shape) != 4 or None in input_shape[1:]:
            raise ValueError(f"Patches needs (B, H, W, C) with H, W, C known; got {input_shape}")
        batch, *size, channels = input_shape
        for name, side, patch in zip(("height", "width"), size, self.patch_size, strict=True):
            if side % patch:
                raise ValueError(f"image {name} {side} is not divisible by patch_size {patch}")
        rows, columns = size[0] // self.patch_size[0], size[1] // self.patch_size[1]
        return (batch, rows * columns, math.prod(self.patch_size) * channels)

    def call(self, pixels):
        _, height, width, channels = pixels.shape
        rows, columns = height // self.patch_size[0], width // self.patch_size[1]
        x = ops.reshape(
            pixels, (-1, rows, self.patch_size[0], columns, self.patch_size[1], channels)
        )
        x = ops.transpose(x, (0, 1, 3, 2, 4, 5))  # (B, rows, columns, Ph, Pw, C)
        return ops.reshape(x, (-1, rows * columns, math.prod(self.patch_size) * channels))

    def get_config(self):
        return {**super().get_config(), "patch_size": self.patch_size}


@keras.saving.register_keras_serializable(package="keras_vit")
class PatchEncoder(keras.layers.Layer):
    """Projects patches and adds class token, registers and positions.

    `(B, N, P * P * C) -> (B, [1] + [registers] + N, D)`, in this order. A published convolution
    kernel `(P, P, C, D)` is the projection's kernel after one reshape to `(P * P * C, D)`.

    Args:
        hidden_dim: Width D.
        class_token: Put a learned token in front (section 3.1).
        num_register_tokens: Learned tokens after the class token, without positions
            (Darcet et al. 2023, arXiv 2309.16588).
        position_embedding: "learned" (one row for the class token too, then for each patch),
            "sincos2d", "sincos1d" (fixed, patches only) or "none".
        dropout_rate: After the sum, in [0, 1).
        grid_size: (rows, columns) of patches; None means a square.

    Call arguments:
        patches: `(B, N, P * P * C)`.

    Raises:
        ValueError: An argument is out of range, or the number of patches does not fit the grid.
    """

    def __init__(
        self,
        hidden_dim,
        class_token=True,
        num_register_tokens=0,
        position_embedding="learned",
        dropout_rate=0.0,
        grid_size=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_whole("hidden_dim", hidden_dim)
        check_whole("num_register_tokens", num_register_tokens, least=0)
        check_choice("position_embedding", position_embedding, POSITION_EMBEDDINGS)
        check_rate("dropout_rate", dropout_rate)
        self.hidden_dim = hidden_dim
        self.class_token = class_token
        self.num_register_tokens = num_register_tokens
        self.position_embedding = position_embedding
        self.dropout_rate = dropout_rate
        self.grid_size = None if grid_size is None else pair("grid_size", grid_size)

    def build(self, input_shape):
        if len(input_shape) != 3 or None in input_shape[1:]:
            raise ValueError(f"PatchEncoder needs (B, N, P * P * C), N known; got {input_shape}")
        num_patches = input_shape[1]
        self._check_grid(num_patches)
        self.projection = keras.layers.Dense(
            self.hidden_dim,
            kernel_initializer="lecun_normal",
            dtype=self.dtype_policy,
            name="projection",
        )
        self.projection.build(input_shape)
        if self.class_token:
            self.token = self._row("class_token", 1, "zeros")
        if self.num_register_tokens:
            self.registers = self._row("register_tokens", self.num_register_tokens)
        if self.position_embedding == "learned":
            self.positions = self._row("position_embedding", num_patches + int(self.class_token))
        elif self.position_embedding != "none":
            self.positions = self._fixed_positions(num_patches)
        self.dropout = keras.layers.Dropout(
            self.dropout_rate, dtype=self.dtype_policy, name="dropout"
        )
        super().build(input_shape)

    def _row(self, name, length, initializer=None):
        # big_vision's deviation: 0.02 at width 2500, and strong enough to be seen at width 64
        initializer = initializer or keras.initializers.RandomNormal(stddev=self.hidden_dim**-0.5)
        return self.add_weight(name=name, shape=(length, self.hidden_dim), initializer=initializer)

    def _check_grid(self, num_patches):
        if self.grid_size is not None and math.prod(self.grid_size) != num_patches:
            raise ValueError(f"grid_size {self.grid_size} does not hold {num_patches} patches")
        square = math.isqrt(num_patches) ** 2 == num_patches
        if self.grid_size is None and self.position_embedding == "sincos2d" and not square:
            raise ValueError(f"{num_patches} patches are no square: sincos2d needs grid_size")

    def _fixed_positions(self, num_patches):
        if self.position_embedding == "sincos1d":
            rows = sincos1d(num_patches, self.hidden_dim)
        else:
            rows = sincos2d(self.grid_size or (math.isqrt(num_patches),) * 2, self.hidden_dim)
        return np.pad(rows, ((int(self.class_token), 0), (0, 0)))  # the class token gets zeros

    def call(self, patches, training=None):
        x = self.projection(patches)  # (B, N, D)
        tokens = [self.token] if self.class_token else []
        if self.position_embedding != "none":
            positions = ops.cast(self.positions, self.compute_dtype)
            if self.class_token:
                tokens = [ops.cast(self.token, self.compute_dtype) + positions[:1]]
            x = x + positions[int(self.class_token) :]
        if self.num_register_tokens:
            tokens.append(self.registers)
        tokens = [self._for_each_picture(token, x) for token in tokens]
        x = ops.concatenate([*tokens, x], axis=1) if tokens else x
        return self.dropout(x, training=training)

    def _for_each_picture(self, token, x):
        token = ops.expand_dims(ops.cast(token, self.compute_dtype), 0)
        return ops.broadcast_to(token, (ops.shape(x)[0], token.shape[1], self.hidden_dim))

    def compute_output_shape(self, input_shape):
        prefix = int(self.class_token) + self.num_register_tokens
        return (input_shape[0], prefix + input_shape[1], self.hidden_dim)

    def get_config(self):
        config = {
            "hidden_dim": self.hidden_dim,
            "class_token": self.class_token,
            "num_register_tokens": self.num_register_tokens,
            "position_embedding": self.position_embedding,
            "dropout_rate": self.dropout_rate,
            "grid_size": self.grid_size,
        }
        return {**super().get_config(), **config}


@keras.saving.register_keras_serializable(package="keras_vit")
class TokenPooling(keras.layers.Layer):
    """One vector for each picture: the class token, or the mean of the patches' tokens.

    Args:
        pooling: "token" (the first) or "gap" (mean over all but the prefix).
        num_prefix_tokens: Class token and registers, left out by "gap".

    Call arguments:
        x: `(B, N, D)`; the result is `(B, D)`.

    Raises:
        ValueError: `pooling` is neither, or "token" is asked of tokens without a class token.
    """

    def __init__(self, pooling="token", num_prefix_tokens=1, **kwargs):
        super().__init__(**kwargs)
        check_choice("pooling", pooling, POOLINGS)
        check_whole("num_prefix_tokens", num_prefix_tokens, least=0)
        if pooling == "token" and num_prefix_tokens == 0:
            raise ValueError("pooling 'token' needs a class token; got num_prefix_tokens 0")
        self.pooling = pooling
        self.num_prefix_tokens = num_prefix_tokens

    def call(self, x):
        if self.pooling == "token":
            return x[:, 0]
        return ops.mean(x[:, self.num_prefix_tokens :], axis=1)

    def get_config(self):
        config = {"pooling": self.pooling, "num_prefix_tokens": self.num_prefix_tokens}
        return {**super().get_config(), **config}


@keras.saving.register_keras_serializable(package="keras_vit")
class ClassifierHead(keras.layers.Dense):
    """The last Dense layer, in float32, which also knows what its outputs mean.

    Args:
        units: Number of classes.
        class_names: One name for each output, or None.
        multi_label: Outputs are independent (sigmoids), not alternatives (softmax).

    Raises:
        ValueError: The number of names is not the number of outputs.
    """

    def __init__(self, units, class_names=None, multi_label=False, **kwargs):
        kwargs.setdefault("dtype", "float32")
        super().__init__(units, **kwargs)
        self.class_names = None if class_names is None else tuple(map(str, class_names))
        self.multi_label = multi_label
        if self.class_names is not None and len(self.class_names) != units:
            raise ValueError(f"{len(self.class_names)} class_names for {units} classes")

    def get_config(self):
        config = {"class_names": self.class_names, "multi_label": self.multi_label}
        return {**super().get_config(), **config}
