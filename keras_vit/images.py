"""Read a picture and bring it to a model's size: one preprocessing, in Python and in a graph."""

import os
from typing import Annotated, Literal

import numpy as np
import pydantic
import tensorflow as tf

from keras_vit import pillow_formats
from keras_vit.decoding import decode_common, decode_image
from keras_vit.headers import (
    IMAGE_FORMATS,
    MAX_PIXELS,
    Content,
    Header,
    explain_damage,
    find_format,
    inspect_header,
    is_plain_bmp,
    read_header,
)
from keras_vit.unreadable import (
    ImageError,
    UnreadableError,
    describe_foreign_file,
    display_name,
    is_hidden_name,
    naming,
)

__all__ = [
    "IMAGE_FORMATS",
    "MAX_PIXELS",
    "Header",
    "ImageError",
    "Preprocessing",
    "check_file",
    "crop_resize",
    "decode_image",
    "display_name",
    "inspect_header",
    "is_hidden_name",
    "preprocess",
    "read_encoded",
    "read_image",
    "to_channels",
]

LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601, as Pillow's mode "L"
# The cubic kernel with a = -0.5, which is Pillow's and so timm's; TensorFlow has one more.
KERNELS = {"bilinear": "triangle", "bicubic": "keyscubic"}
Side = Annotated[int, pydantic.Field(gt=0, strict=True)]


class Preprocessing(pydantic.BaseModel):
    """How a picture becomes a model's input; saved inside every model.

    Attributes:
        image_size: `(height, width)` of the model's input in pixels; one number means a square.
        num_channels: 3 for RGB, or 1 for its luma.
        resize: `squash` takes the whole picture and ignores its aspect, `crop` covers the input
            and cuts off what juts out, `pad` fits the whole picture in and leaves the rest black.
        crop_fraction: for `crop`, the part of each side of the covered area that is kept.
        interpolation: always antialiased.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    image_size: tuple[Side, Side]
    num_channels: Literal[1, 3] = 3
    resize: Literal["squash", "crop", "pad"] = "squash"
    crop_fraction: float = pydantic.Field(default=1.0, gt=0, le=1, allow_inf_nan=False)
    interpolation: Literal["bilinear", "bicubic"] = "bilinear"

    @pydantic.field_validator("image_size", mode="before")
    @classmethod
    def _make_square(cls, value):
        return (value, value) if isinstance(value, int) else value

    @pydantic.model_validator(mode="after")
    def _check_crop_fraction(self):
        if self.resize != "crop" and self.crop_fraction != 1.0:
            raise ValueError(
                f"crop_fraction {self.crop_fraction} goes with resize 'crop', not {self.resize!r}"
            )
        return self


def read_image(source: str | os.PathLike | bytes) -> np.ndarray:
    """Read a picture as a person sees it, by the decoder that training and exported models use.

    Args:
        source: A path, or the encoded picture as bytes.

    Returns:
        `(H, W, 3)` uint8: EXIF turned, the first frame, 16 bits scaled to 8.

    Raises:
        ImageError: The picture cannot be read; the message names the file and says why.
    """
    with naming(source):
        return _decode(_load(source))


def check_file(path: str | os.PathLike) -> Header:
    """Decode a picture in full and return its header; raise ImageError where that fails."""
    with naming(path):
        encoded = _load(path)
        header = read_header(Content(encoded))
        _decode(encoded)
        return header


@tf.function(input_signature=[tf.TensorSpec([], tf.string)] * 2, autograph=False)
def read_encoded(encoded: tf.Tensor, path: tf.Tensor) -> tf.Tensor:
    """Decode the bytes of a file in a data pipeline: JPEG and PNG in the graph, all else in Python.

    Args:
        encoded: Scalar string, the bytes of the file.
        path: Scalar string, for messages.

    Returns:
        `(H, W, 3)` uint8 as `read_image`.
    """

    def read_named(encoded: bytes, path: bytes) -> np.ndarray:
        with naming(os.fsdecode(path)):
            return _decode(encoded)

    def read_in_python() -> tf.Tensor:
        pixels = tf.numpy_function(read_named, [encoded, path], tf.uint8)
        return tf.ensure_shape(pixels, (None, None, 3))

    return decode_common(encoded, path, read_in_python)


@tf.autograph.experimental.do_not_convert
def preprocess(pixels, preprocessing: Preprocessing) -> tf.Tensor:
    """Bring pixels to the model's size and channels; the same bits eagerly and in a graph.

    Args:
        pixels: `(H, W, C)` or `(B, H, W, C)` in [0, 255] with one or three channels, of any type.
        preprocessing: What the model takes.

    Returns:
        `(h, w, num_channels)` or `(B, h, w, num_channels)` float32 in [0, 255].
    """
    pixels = _to_pixels(pixels)
    size = tf.cast(tf.shape(pixels)[-3:-1], tf.int64)
    resized, offset = _place(size, preprocessing)
    return _resample(pixels, size, resized, offset, preprocessing)


@tf.autograph.experimental.do_not_convert
def crop_resize(pixels, box, preprocessing: Preprocessing) -> tf.Tensor:
    """Cut a box out of a picture and bring it to the model's size, whatever its aspect.

    Args:
        pixels: `(H, W, C)` in [0, 255] with one or three channels.
        box: `(top, left, height, width)` int32 in pixels, inside the picture.
        preprocessing: What the model takes; `resize` and `crop_fraction` play no part.

    Returns:
        `(h, w, num_channels)` float32 in [0, 255].
    """
    top, left, height, width = tf.unstack(tf.convert_to_tensor(box, tf.int32), 4)
    pixels = _to_pixels(pixels)[top : top + height, left : left + width]
    size = tf.cast(tf.stack([height, width]), tf.int64)
    target = tf.constant(preprocessing.image_size, tf.int64)
    return _resample(pixels, size, target, tf.zeros(2, tf.int64), preprocessing)


def to_channels(pixels: tf.Tensor, num_channels: int) -> tf.Tensor:
    """Give float pixels one channel (luma) or three; `(..., C)` with C of 1 or 3."""
    if pixels.shape[-1] == num_channels:
        return pixels
    if num_channels == 1:
        return tf.reduce_sum(pixels * tf.constant(LUMA, pixels.dtype), axis=-1, keepdims=True)
    return tf.repeat(pixels, num_channels, axis=-1)


def _to_pixels(pixels) -> tf.Tensor:
    pixels = tf.convert_to_tensor(pixels)
    if pixels.shape.rank not in (3, 4) or pixels.shape[-1] not in (1, 3) or 0 in pixels.shape:
        raise ValueError(
            "pixels must have the shape (H, W, C) or (B, H, W, C) with one or three channels, "
            f"received {tuple(pixels.shape)}"
        )
    return pixels if pixels.dtype == tf.uint8 else tf.cast(pixels, tf.float32)


def _place(size: tf.Tensor, preprocessing: Preprocessing) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the size that the whole picture is resized to, and where it lies on the input."""
    target = tf.constant(preprocessing.image_size, tf.int64)
    if preprocessing.resize == "squash":
        return target, tf.zeros(2, tf.int64)
    if preprocessing.resize == "crop":
        covered = [int(side / preprocessing.crop_fraction) for side in preprocessing.image_size]
        resized = _scale_to(size, covered, tf.maximum, 0)
        excess = resized - target
        half = excess // 2 + (excess % 2) * (excess // 2 % 2)  # rounds half to even, as torchvision
        return resized, -half
    resized = tf.maximum(_scale_to(size, preprocessing.image_size, tf.minimum, 1), 1)
    return resized, (target - resized) // 2


def _scale_to(size: tf.Tensor, box, choose, half: int) -> tf.Tensor:
    """Return `size` scaled to cover (maximum) or fit into (minimum) a box of whole pixels."""
    by_height = tf.stack([box[0], (2 * size[1] * box[0] + half * size[0]) // (2 * size[0])])
    by_width = tf.stack([(2 * size[0] * box[1] + half * size[1]) // (2 * size[1]), box[1]])
    return choose(by_height, by_width)


def _resample(pixels, size, resized, offset, preprocessing: Preprocessing) -> tf.Tensor:
    batch = pixels if pixels.shape.rank == 4 else pixels[None]
    resampled = tf.raw_ops.ScaleAndTranslate(
        images=batch,
        size=tf.constant(preprocessing.image_size, tf.int32),
        scale=tf.cast(resized, tf.float32) / tf.cast(size, tf.float32),
        translation=tf.cast(offset, tf.float32),
        kernel_type=KERNELS[preprocessing.interpolation],
        antialias=True,
    )
    resampled = tf.clip_by_value(resampled, 0.0, 255.0)
    resampled = to_channels(resampled, preprocessing.num_channels)
    return resampled if pixels.shape.rank == 4 else resampled[0]


def _load(source: str | os.PathLike | bytes) -> bytes:
    if isinstance(source, bytes):
        return source
    with open(source, "rb") as file:
        return file.read()


def _decode(encoded: bytes) -> np.ndarray:
    """Decode by the graph where it can; only a picture that it refuses is looked at in Python."""
    kind, content = find_format(encoded[:32]), Content(encoded)
    if kind is None:
        raise UnreadableError(describe_foreign_file(encoded[:512]))
    if kind not in IMAGE_FORMATS["everywhere"] or (kind == "BMP" and not is_plain_bmp(content)):
        read_header(content)
        return pillow_formats.read_pixels(encoded, kind)
    try:
        return decode_image(encoded).numpy()
    except tf.errors.InvalidArgumentError as error:
        raise UnreadableError(explain_damage(content, kind)) from error
