"""Decode a picture inside a TensorFlow graph: by content, as displayed, the first frame, 8 bits.

In what follows `content` is the bytes of a file as a vector of uint8 with PADDING zeros behind the
end, and `head` the first PADDING bytes of that: enough for every header but JPEG's.
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from keras_vit.chunks import (
    PADDING,
    find_gif_frame,
    find_jpeg_exif,
    find_png_exif,
    find_webp_exif,
    find_webp_frame,
    read_number,
    read_orientation,
)
from keras_vit.headers import BMP_HEADER_SIZES, MAX_PIXELS
from keras_vit.unreadable import ENCODED

GIF, BMP, WEBP, OTHER = range(4)
_RARE_MAGICS = (  # how those files start, with a 1 where a byte counts
    (b"GIF8\0a", b"\1\1\1\1\0\1"),
    (b"BM", b"\1\1"),
    (b"RIFF\0\0\0\0WEBP", b"\1\1\1\1\0\0\0\0\1\1\1\1"),
)
_ALL_BYTES = np.array([bytes([number]) for number in range(256)], object)
_NOT_OURS = "this is not a JPEG, PNG, GIF, BMP or WebP picture that TensorFlow can decode"

# A data pipeline optimises its graph anew for every iterator, which took a second for all of this:
# what is rarely needed is a function of its own, and left alone.
apart = tf.function(autograph=False, experimental_attributes={"_noinline": True})


@tf.function(input_signature=[tf.TensorSpec([], tf.string)], autograph=False)
def decode_image(encoded: tf.Tensor) -> tf.Tensor:
    """Decode JPEG, PNG, GIF, BMP or WebP in a graph; everything else fails in words.

    Args:
        encoded: Scalar string, the bytes of a picture.

    Returns:
        `(H, W, 3)` uint8 as displayed: turned as its EXIF says, the first frame.
    """
    name = tf.constant(ENCODED)
    return decode_common(encoded, name, lambda: _decode_rare(encoded, name))


def decode_common(
    encoded: tf.Tensor, name: tf.Tensor, otherwise: Callable[[], tf.Tensor]
) -> tf.Tensor:
    """Decode JPEG and PNG as `decode_image` does, and return `otherwise()` for all else.

    Args:
        encoded: Scalar string, the bytes of a picture.
        name: Scalar string that opens the message when the picture is refused by its header.
        otherwise: Returns `(H, W, 3)` uint8 for a picture of another format.
    """
    is_jpeg = tf.equal(tf.strings.substr(encoded, 0, 3), b"\xff\xd8\xff")
    is_png = tf.equal(tf.strings.substr(encoded, 0, 8), b"\x89PNG\r\n\x1a\n")
    pixels = tf.switch_case(
        tf.where(is_jpeg, 0, tf.where(is_png, 1, 2)),
        [lambda: _decode_jpeg(encoded, name), lambda: _decode_png(encoded, name), otherwise],
    )
    return tf.ensure_shape(pixels, (None, None, 3))


@apart
def _decode_rare(encoded: tf.Tensor, name: tf.Tensor) -> tf.Tensor:
    head = _to_head(encoded)
    is_kind = [
        tf.reduce_all(tf.equal(head[: len(magic)] * list(mask), list(magic)))
        for magic, mask in _RARE_MAGICS
    ]
    is_kind[BMP] &= _is_plain_bmp(head)
    decoders = {
        GIF: lambda: _decode_gif(encoded, head, name),
        BMP: lambda: _decode_bmp(encoded, head, name),
        WEBP: lambda: _decode_webp(encoded, head, name),
        OTHER: lambda: _refuse(name),
    }
    kind = tf.argmax(tf.cast(tf.stack([*is_kind, True]), tf.int32), output_type=tf.int32)
    return tf.switch_case(kind, decoders)


def _to_head(encoded: tf.Tensor) -> tf.Tensor:
    return _to_bytes(tf.strings.substr(encoded, 0, PADDING))[:PADDING]


def _to_bytes(encoded: tf.Tensor) -> tf.Tensor:
    return tf.io.decode_raw(tf.strings.join([encoded, tf.constant(bytes(PADDING))]), tf.uint8)


def _refuse(name: tf.Tensor) -> tf.Tensor:
    return _check(tf.zeros([0, 0, 3], tf.uint8), tf.constant(False), name, _NOT_OURS)


def _check(value: tf.Tensor, condition: tf.Tensor, name: tf.Tensor, reason: str) -> tf.Tensor:
    """Return `value` where the condition holds; nothing that uses it runs otherwise."""
    checked = tf.raw_ops.Assert(condition=condition, data=[name, reason])
    with tf.control_dependencies([checked]):
        return tf.identity(value)


def _check_size(
    encoded: tf.Tensor, width: tf.Tensor, height: tf.Tensor, name: tf.Tensor
) -> tf.Tensor:
    """Return `encoded` unless its header claims too many pixels, or none."""
    width, height = tf.cast(width, tf.int64), tf.cast(height, tf.int64)
    sides = (width > 0) & (height > 0) & (width <= MAX_PIXELS) & (height <= MAX_PIXELS)
    reason = f"its header claims no pixels, or more than {MAX_PIXELS:,}"
    return _check(encoded, sides & (width * height <= MAX_PIXELS), name, reason)


def _decode_jpeg(encoded: tf.Tensor, name: tf.Tensor) -> tf.Tensor:
    shape = tf.image.extract_jpeg_shape(encoded)
    encoded = _check_size(encoded, shape[1], shape[0], name)
    pixels = tf.io.decode_jpeg(encoded, channels=3, dct_method="INTEGER_ACCURATE")
    has_exif = _holds(encoded, r"Exif\x00\x00")
    return _turn_if(has_exif, pixels, encoded, find_jpeg_exif)


def _decode_png(encoded: tf.Tensor, name: tf.Tensor) -> tf.Tensor:
    head = _to_head(encoded)
    width, height = read_number(head, 16, 4, ">"), read_number(head, 20, 4, ">")
    encoded = _check_size(encoded, width, height, name)
    pixels = tf.io.decode_png(encoded, channels=3)
    has_exif = _holds(encoded, "eXIf")
    return _turn_if(has_exif, pixels, encoded, find_png_exif)


def _decode_webp(encoded: tf.Tensor, head: tf.Tensor, name: tf.Tensor) -> tf.Tensor:
    is_extended = tf.reduce_all(tf.equal(head[12:16], list(b"VP8X")))
    is_lossless = tf.reduce_all(tf.equal(head[12:16], list(b"VP8L")))
    packed, lossy = read_number(head, 21, 4), read_number(head, 26, 4)
    size = tf.where(
        is_lossless,
        tf.stack([packed % 0x4000 + 1, packed // 0x4000 % 0x4000 + 1]),
        tf.stack([lossy % 0x4000, lossy // 0x10000 % 0x4000]),
    )
    extended_size = tf.stack([read_number(head, 24, 3) + 1, read_number(head, 27, 3) + 1])
    size = tf.where(is_extended, extended_size, size)
    encoded = _check_size(encoded, size[0], size[1], name)
    pixels = tf.cond(
        is_extended & (head[20] // 2 % 2 == 1),
        lambda: _decode_webp_frame(encoded, size, name),
        lambda: _decode_still_webp(encoded),
    )
    has_exif = is_extended & (head[20] // 8 % 2 == 1)
    return _turn_if(has_exif, pixels, encoded, find_webp_exif)


def _decode_still_webp(encoded: tf.Tensor) -> tf.Tensor:
    """Decode as many channels as there are, since TensorFlow refuses any other number."""
    return tf.io.decode_image(encoded, channels=0, expand_animations=False)[:, :, :3]


def _decode_webp_frame(encoded: tf.Tensor, canvas: tf.Tensor, name: tf.Tensor) -> tf.Tensor:
    """Decode an animation's first frame as a file of its own: TensorFlow 2.21 crashes otherwise."""
    content = _to_bytes(encoded)
    start, stop = find_webp_frame(content)
    left, top = 2 * read_number(content, start, 3), 2 * read_number(content, start + 3, 3)
    width, height = (read_number(content, start + at, 3) + 1 for at in (6, 9))
    is_whole = (
        (start > 0) & (start + 16 <= stop) & (stop - start == read_number(content, start - 4, 4))
    )
    fits = (left + width <= canvas[0]) & (top + height <= canvas[1])
    encoded = _check(encoded, is_whole & fits, name, "the WebP file's first frame is cut off")
    chunks = tf.strings.substr(encoded, start + 16, stop - start - 16)
    size = tf.cast(tf.strings.length(chunks), tf.int64) + 22
    size_bytes = tf.gather(_ALL_BYTES, size // np.array([1, 1 << 8, 1 << 16, 1 << 24]) % 256)
    header = [b"RIFF", tf.strings.reduce_join(size_bytes), b"WEBPVP8X\x0a\0\0\0\x10\0\0\0"]
    frame_size = tf.strings.substr(encoded, start + 6, np.int64(6))
    pixels = _decode_still_webp(tf.strings.join([*header, frame_size, chunks]))
    rows, columns = [top, canvas[1] - top - height], [left, canvas[0] - left - width]
    return tf.pad(pixels, [rows, columns, [0, 0]])


def _decode_gif(encoded: tf.Tensor, head: tf.Tensor, name: tf.Tensor) -> tf.Tensor:
    """Decode a file that is cut behind the first frame, whose place on the canvas we keep."""
    content = _to_bytes(encoded)
    frame, end = find_gif_frame(content)
    encoded = _check(encoded, end > 0, name, "the GIF file is cut off or damaged")
    left, top, width, height = (read_number(content, frame + at, 2) for at in (1, 3, 5, 7))
    canvas_width = tf.maximum(read_number(head, 6, 2), left + width)
    canvas_height = tf.maximum(read_number(head, 8, 2), top + height)
    encoded = _check_size(encoded, canvas_width, canvas_height, name)
    before, behind = tf.strings.substr(encoded, np.int64(0), frame + 1), frame + 5
    first = [before, bytes(4), tf.strings.substr(encoded, behind, end - behind), b";"]
    pixels = tf.io.decode_gif(tf.strings.join(first))[0]
    rows, columns = [top, canvas_height - top - height], [left, canvas_width - left - width]
    return tf.pad(pixels, [rows, columns, [0, 0]])


def _is_plain_bmp(head: tf.Tensor) -> tf.Tensor:
    """Tell whether a BMP is uncompressed and of a usual depth; see `headers.is_plain_bmp`."""
    size, depth, compression = (read_number(head, *at) for at in ((14, 4), (28, 2), (30, 4)))
    masks = tf.stack([read_number(head, at, 4) for at in (54, 58, 62)])
    masked = (depth == 32) & tf.reduce_all(tf.equal(masks, [0xFF0000, 0xFF00, 0xFF]))
    known_size = tf.reduce_any(tf.equal(size, [s for s in BMP_HEADER_SIZES if s >= 40]))
    known_depth = tf.reduce_any(tf.equal(depth, [1, 4, 8, 24, 32]))
    return known_size & known_depth & ((compression == 0) | ((compression == 3) & masked))


def _decode_bmp(encoded: tf.Tensor, head: tf.Tensor, name: tf.Tensor) -> tf.Tensor:
    """Cut the rows out of the file: TensorFlow takes a palette's indices for grey levels."""
    offset, depth = read_number(head, 10, 4), read_number(head, 28, 2)
    width, height = (_to_signed(read_number(head, at, 4)) for at in (18, 22))
    num_rows, stride = tf.abs(height), (width * depth + 31) // 32 * 4
    encoded = _check_size(encoded, width, num_rows, name)
    content, end = _to_bytes(encoded), offset + stride * num_rows
    size = tf.strings.length(encoded)
    content = _check(content, end <= tf.cast(size, tf.int64), name, "the BMP file is cut off")
    rows = tf.reshape(content[offset:end], tf.stack([num_rows, stride]))
    pixels = tf.cond(
        depth > 8,
        lambda: _split_samples(rows, width, depth),
        lambda: _look_up(rows, width, depth, _bmp_palette(content, head, depth)),
    )
    return tf.cond(height > 0, lambda: tf.reverse(pixels, [0]), lambda: pixels)


def _to_signed(number: tf.Tensor) -> tf.Tensor:
    return tf.where(number < 1 << 31, number, number - (1 << 32))


def _split_samples(rows: tf.Tensor, width: tf.Tensor, depth: tf.Tensor) -> tf.Tensor:
    """Return `(H, W, 3)` of rows that hold blue, green, red, and perhaps one byte more."""
    samples = depth // 8
    rows = tf.reshape(rows[:, : width * samples], tf.stack([-1, width, samples]))
    return tf.reverse(rows[:, :, :3], [2])


def _bmp_palette(content: tf.Tensor, head: tf.Tensor, depth: tf.Tensor) -> tf.Tensor:
    """Return `(256, 3)` colours; black for those that the file leaves out."""
    start, announced = 14 + read_number(head, 14, 4), read_number(head, 46, 4)
    most = tf.bitwise.left_shift(tf.constant(1, tf.int64), depth)
    count = tf.where((announced == 0) | (announced > most), most, announced)
    there = content[start : start + 4 * count]
    colours = tf.reshape(there[: tf.size(there) // 4 * 4], [-1, 4])[:, 2::-1]
    return tf.pad(colours, [[0, 256 - tf.shape(colours)[0]], [0, 0]])


def _look_up(rows: tf.Tensor, width: tf.Tensor, depth: tf.Tensor, palette: tf.Tensor) -> tf.Tensor:
    """Return `(H, W, 3)` of rows that hold a palette's indices of 1, 4 or 8 bits."""
    shifts = tf.cast(tf.range(8 - depth, -1, -depth), tf.uint8)
    mask = tf.cast(tf.bitwise.left_shift(tf.constant(1, tf.int64), depth) - 1, tf.uint8)
    indices = tf.bitwise.right_shift(rows[:, :, None], shifts) & mask
    indices = tf.reshape(indices, tf.stack([tf.shape(rows)[0], -1]))[:, :width]
    return tf.gather(palette, tf.cast(indices, tf.int32))


def _holds(encoded: tf.Tensor, pattern: str) -> tf.Tensor:
    """Tell whether a pattern is in a string: a hundred times quicker than a walk in the graph."""
    without = tf.strings.regex_replace(encoded, pattern, "", replace_global=False)
    return tf.strings.length(without) < tf.strings.length(encoded)


def _turn_if(
    has_exif: tf.Tensor,
    pixels: tf.Tensor,
    encoded: tf.Tensor,
    find_exif: Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]],
) -> tf.Tensor:
    find = apart(lambda encoded: find_exif(_to_bytes(encoded)))
    return tf.cond(has_exif, lambda: _turn(pixels, encoded, *find(encoded)), lambda: pixels)


@apart
def _turn(pixels: tf.Tensor, encoded: tf.Tensor, start: tf.Tensor, stop: tf.Tensor) -> tf.Tensor:
    """Turn stored pixels as the EXIF block from start to stop says."""
    orientation = read_orientation(_to_bytes(encoded), start, stop)

    def transposed() -> tf.Tensor:
        return tf.transpose(pixels, [1, 0, 2])

    return tf.switch_case(
        orientation - 1,
        [
            lambda: pixels,
            lambda: tf.reverse(pixels, [1]),
            lambda: tf.reverse(pixels, [0, 1]),
            lambda: tf.reverse(pixels, [0]),
            transposed,
            lambda: tf.reverse(transposed(), [1]),
            lambda: tf.reverse(transposed(), [0, 1]),
            lambda: tf.reverse(transposed(), [0]),
        ],
    )
