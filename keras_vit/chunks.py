"""Walk the segments of a picture file inside a TensorFlow graph, for its EXIF turn or first frame.

`content` is always the bytes of a file as a vector of uint8 with PADDING zeros behind the end, so
that reading a few bytes from any position in the file succeeds. `keras_vit.headers` takes the same
walks in Python; the tests hold the two together.
"""

import numpy as np
import tensorflow as tf

from keras_vit.headers import LAST_MARKERS, LONG, MAX_STEPS, RUN, SHORT, STANDALONE_MARKERS
from keras_vit.pillow_formats import ORIENTATION_TAG

PADDING = 80
MAX_GIF_STEPS = 20_000  # runs of equal blocks: a walk over more would take longer than a second
_FAR = np.int64(1 << 40)  # a step that leads out of any file
_LITTLE, _BIG = [1, 1 << 8, 1 << 16, 1 << 24], [1 << 24, 1 << 16, 1 << 8, 1]

# How far a JPEG marker leads to the next; 0 where a length follows.
_MARKER_STEPS = np.zeros(256, np.int64)
_MARKER_STEPS[list(STANDALONE_MARKERS)] = 2
_MARKER_STEPS[list(LAST_MARKERS)] = _FAR
_MARKER_STEPS[0xFF] = 1
_EXIF_PREFIX = list(b"Exif\0\0")


def read_number(content: tf.Tensor, position, count: int, order: str = "<") -> tf.Tensor:
    """Return the unsigned number of `count` bytes at `position`, scalar int64."""
    powers = _LITTLE[:count] if order == "<" else _BIG[-count:]
    return tf.reduce_sum(tf.cast(content[position : position + count], tf.int64) * powers)


def find_jpeg_exif(content: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return where the first EXIF block before the scan starts and stops; 0, 0 if none."""
    size = _size(content)

    def step(position, start, stop):
        mark = tf.cast(content[position : position + 10], tf.int64)
        length = mark[2] * 256 + mark[3]
        known = tf.gather(_MARKER_STEPS, mark[1])
        onward = tf.where(mark[0] == 0xFF, tf.where(known == 0, length + 2, known), np.int64(1))
        found = (mark[0] == 0xFF) & (mark[1] == 0xE1) & _equal(mark[4:], _EXIF_PREFIX)
        return (
            tf.where(found, size, position + onward),
            tf.where(found, position + 10, start),
            tf.where(found, tf.minimum(position + 2 + length, size), stop),
        )

    _, start, stop = _walk(lambda position, *_: position + 4 <= size, step, [2, 0, 0])
    return start, stop


def find_png_exif(content: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return where the first `eXIf` chunk's content starts and stops; 0, 0 if there is none."""
    return _find_chunk(content, 8, b"eXIf", b"IEND", is_png=True)


def find_webp_exif(content: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return where the first `EXIF` chunk's content starts and stops; 0, 0 if there is none."""
    return _find_chunk(content, 12, b"EXIF", b"", is_png=False)


def find_webp_frame(content: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return where the first frame's content starts and stops; 0, 0 if there is no animation."""
    return _find_chunk(content, 12, b"ANMF", b"", is_png=False)


def find_gif_frame(content: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return where the first frame's descriptor starts and where its last block ends.

    The end is 0 where the file is cut off or damaged before.
    """
    size = _size(content)

    def step(position, frame, in_blocks):
        mark = tf.cast(content[position : position + 10], tf.int64)
        is_frame, is_extension = mark[0] == ord(","), mark[0] == ord("!")
        to_blocks = tf.where(is_frame, 11 + _colour_table_size(mark[9]), np.int64(2))
        to_blocks = tf.where(is_frame | is_extension, to_blocks, _FAR)
        places = position + (mark[0] + 1) * tf.range(RUN, dtype=tf.int64)
        equal = tf.equal(_gather(content, places), content[position]) & (places < size)
        over_blocks = tf.where(mark[0] == 0, np.int64(1), _count_leading(equal) * (mark[0] + 1))
        starts = ~in_blocks & is_frame
        return (
            position + tf.where(in_blocks, over_blocks, to_blocks),
            tf.where(starts, position, frame),
            tf.where(in_blocks, mark[0] != 0, True),
        )

    def goes_on(position, frame, in_blocks):
        return (position < size) & (in_blocks | (frame == 0))

    first = 13 + _colour_table_size(tf.cast(content[10], tf.int64))
    end, frame, in_blocks = _walk(goes_on, step, [first, 0, False], MAX_GIF_STEPS)
    is_whole = (frame > 0) & ~in_blocks & (end <= size)
    return frame, tf.where(is_whole, end, np.int64(0))


def _size(content: tf.Tensor) -> tf.Tensor:
    return tf.size(content, tf.int64) - PADDING


def _equal(part: tf.Tensor, expected: list[int]) -> tf.Tensor:
    return tf.reduce_all(tf.equal(part, tf.constant(expected, part.dtype)))


def _gather(content: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
    return tf.gather(content, tf.minimum(places, tf.size(content, tf.int64) - 1))


def _count_leading(flags: tf.Tensor) -> tf.Tensor:
    """Return how many flags are set before the first that is not."""
    return tf.argmin(tf.cast(tf.concat([flags, [False]], 0), tf.int32))


def _colour_table_size(flags: tf.Tensor) -> tf.Tensor:
    """Return the bytes of the colour table that a GIF's flags announce."""
    return tf.where(
        flags >= 0x80, 3 * tf.bitwise.left_shift(tf.constant(2, tf.int64), flags % 8), 0
    )


def _walk(goes_on, step, start: list, max_steps: int = MAX_STEPS) -> list[tf.Tensor]:
    start = [
        tf.convert_to_tensor(v) if isinstance(v, bool) else tf.cast(v, tf.int64) for v in start
    ]
    return tf.while_loop(goes_on, step, start, parallel_iterations=1, maximum_iterations=max_steps)


def _find_chunk(
    content: tf.Tensor, position: int, wanted: bytes, last: bytes, is_png: bool
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return where the content of the first such PNG or WebP chunk starts and stops; 0, 0 if none.

    A run of chunks of equal length and kind, as IDAT mostly comes, is one step.
    """
    size = _size(content)

    def step(position, start, stop):
        head = content[position : position + 8]
        kind = head[4:] if is_png else head[:4]
        length = read_number(head, 0, 4, ">") if is_png else read_number(head, 4, 4, "<")
        stride = length + 12 if is_png else length + length % 2 + 8
        places = position + stride * tf.range(RUN, dtype=tf.int64)
        heads = _gather(content, places[:, None] + tf.range(8, dtype=tf.int64))
        equal = tf.reduce_all(tf.equal(heads, head), 1) & (places + 8 <= size)
        found = _equal(kind, list(wanted))
        over = found | _equal(kind, list(last.ljust(4)))
        return (
            tf.where(over, size, position + _count_leading(equal) * stride),
            tf.where(found, position + 8, start),
            tf.where(found, tf.minimum(position + 8 + length, size), stop),
        )

    _, start, stop = _walk(lambda position, *_: position + 8 <= size, step, [position, 0, 0])
    return start, stop


def read_orientation(content: tf.Tensor, start: tf.Tensor, stop: tf.Tensor) -> tf.Tensor:
    """Return the orientation in the EXIF block from start to stop; 1 if none, or damaged."""
    start = tf.where(_equal(content[start : start + 6], _EXIF_PREFIX), start + 6, start)
    is_little = _equal(content[start : start + 4], list(b"II*\0"))
    is_big = _equal(content[start : start + 4], list(b"MM\0*"))
    powers = tf.where(is_little, tf.constant(_LITTLE, tf.int64), tf.constant(_BIG, tf.int64))

    def numbers(table, column, count):  # the unsigned number in each row of bytes
        used = powers[:count] if count == 4 else tf.where(is_little, powers[:2], powers[2:])
        return tf.reduce_sum(table[:, column : column + count] * used, axis=1)

    head = tf.cast(content[start : start + 8], tf.int64)[None]
    first = start + numbers(head, 4, 4)[0]
    is_sound = (is_little | is_big) & (start + 10 <= stop) & (first + 2 <= stop)
    first = tf.where(is_sound, first, start)
    count = numbers(tf.cast(content[first : first + 2], tf.int64)[None], 0, 2)[0]
    count = tf.where(is_sound, tf.minimum(count, (stop - first - 2) // 12), np.int64(0))
    entries = tf.reshape(content[first + 2 : first + 2 + 12 * count], [-1, 12])
    entries = tf.cast(entries, tf.int64)
    kind = numbers(entries, 2, 2)
    is_orientation = (numbers(entries, 0, 2) == ORIENTATION_TAG) & (numbers(entries, 4, 4) == 1)
    is_orientation &= (kind == SHORT) | (kind == LONG)
    values = tf.where(kind == SHORT, numbers(entries, 8, 2), numbers(entries, 8, 4))
    last = tf.concat([np.ones(1, np.int64), tf.boolean_mask(values, is_orientation)], 0)[-1]
    return tf.cast(tf.where((last >= 1) & (last <= 8), last, np.int64(1)), tf.int32)
