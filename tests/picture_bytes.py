"""Draw the odd pictures of the tests and write them byte by byte.

The picture is four flat fields, as a person sees it: red and green above, blue and yellow below.
A wrong turn, swapped channels, inverted ink or clipped 16-bit values all move a field's colour.
"""

import io
import struct
import zlib

import numpy as np
from PIL import Image

WIDTH, HEIGHT = 48, 32
RED, GREEN, BLUE, YELLOW = (220, 40, 40), (40, 180, 60), (50, 60, 210), (230, 210, 40)
FIELDS = (RED, GREEN, BLUE, YELLOW)
GREYS = tuple((level, level, level) for level in (32, 96, 160, 224))
ORIENTATION_TAG = 0x0112

# What was done to a picture, undone by a reader who heeds the tag (EXIF 2.3, section 4.6.4).
UNDONE_BY_ORIENTATION = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


def fields(colours=FIELDS, width: int = WIDTH, height: int = HEIGHT, dtype=np.uint8) -> np.ndarray:
    """Draw four flat fields: `(height, width, 3)`, or `(height, width)` for plain numbers."""
    rows, columns = np.arange(height) * 2 // height, np.arange(width) * 2 // width
    return np.array(colours, dtype)[rows[:, None] * 2 + columns]


def upright() -> Image.Image:
    """Return the picture as a person sees it."""
    return Image.fromarray(fields())


def encode(image: Image.Image, kind: str, **options) -> bytes:
    """Encode by Pillow; JPEG at a quality that keeps flat fields flat."""
    if kind == "JPEG":
        options = {"quality": 95, "subsampling": 0} | options
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def clean_jpeg(class_index: int, number: int) -> bytes:
    """Encode a picture of a class that a model can learn: a tint of its own with some noise."""
    noise = np.random.default_rng([class_index, number]).integers(-20, 21, (HEIGHT, WIDTH, 3))
    tint = np.array(FIELDS[class_index % 4]) // (1 + class_index // 4)
    return encode(Image.fromarray(np.clip(tint + noise, 0, 255).astype(np.uint8)), "JPEG")


def png_chunk(kind: bytes, content: bytes) -> bytes:
    """Return a PNG chunk with its length and checksum."""
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)


def png(width: int, height: int, depth: int, colour_type: int, rows: bytes, before=b"", after=b""):
    """Write a PNG by hand; `rows` have their filter bytes, `before` and `after` surround IDAT."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour_type, 0, 0, 0)
    chunks = png_chunk(b"IHDR", header) + before + png_chunk(b"IDAT", zlib.compress(rows)) + after
    return b"\x89PNG\r\n\x1a\n" + chunks + png_chunk(b"IEND", b"")


def png_rows(samples: np.ndarray) -> bytes:
    """Return the rows of `(H, W)` or `(H, W, C)` samples as PNG stores them, without filtering."""
    big_endian = samples.astype(samples.dtype.newbyteorder(">"))
    return b"".join(b"\0" + row.tobytes() for row in big_endian)


def exif(orientation: int, order: str = "<", kind: int = 3, count: int = 1) -> bytes:
    """Write an EXIF block that holds the orientation alone, in either byte order."""
    value = struct.pack(order + "HHIHH", ORIENTATION_TAG, kind, count, orientation, 0)
    magic = b"II*\0" if order == "<" else b"MM\0*"
    return magic + struct.pack(order + "IH", 8, 1) + value + bytes(4)


def turned(orientation: int) -> Image.Image:
    """Return the picture lying as a camera would store it under that orientation."""
    undone = UNDONE_BY_ORIENTATION.get(orientation)
    return upright() if undone is None else upright().transpose(undone)


def with_exif(jpeg: bytes, block: bytes) -> bytes:
    """Put an EXIF segment behind the JFIF segment of a JPEG, where cameras' software puts it."""
    segment = b"Exif\0\0" + block
    behind_jfif = 4 + struct.unpack(">H", jpeg[4:6])[0]
    marker = b"\xff\xe1" + struct.pack(">H", len(segment) + 2)
    return jpeg[:behind_jfif] + marker + segment + jpeg[behind_jfif:]


def jpeg_of_size(width: int, height: int) -> bytes:
    """Return a small JPEG whose frame header claims another size."""
    content = encode(upright(), "JPEG")
    frame = content.index(b"\xff\xc0")
    return content[: frame + 5] + struct.pack(">HH", height, width) + content[frame + 9 :]


def frames(kind: str, **options) -> bytes:
    """Encode an animation whose first frame is the picture and whose others are not."""
    others = [Image.fromarray(fields(FIELDS[k:] + FIELDS[:k])) for k in (1, 2)]
    return encode(upright(), kind, save_all=True, append_images=others, duration=80, **options)


def gif_with_small_frame() -> bytes:
    """Write a GIF whose only frame covers a part of its screen: the rest is black."""
    content = bytearray(encode(Image.fromarray(fields(width=WIDTH // 2)).quantize(4), "GIF"))
    content[6:8] = struct.pack("<H", WIDTH)
    frame = content.index(b",", 13 + 3 * 2 ** ((content[10] & 7) + 1))
    content[frame + 1 : frame + 3] = struct.pack("<H", WIDTH // 2)
    return bytes(content)


def run_length_bmp() -> bytes:
    """Write a run-length BMP of eight bits, which TensorFlow cannot read."""
    half_row, palette = WIDTH // 2, b"".join(bytes(c[::-1]) + b"\0" for c in FIELDS)
    below = bytes([half_row, 2, half_row, 3, 0, 0]) * (HEIGHT // 2)
    above = bytes([half_row, 0, half_row, 1, 0, 0]) * (HEIGHT // 2)
    body, offset = below + above + b"\0\1", 54 + len(palette)
    info = struct.pack("<IiiHHIIiiII", 40, WIDTH, HEIGHT, 1, 8, 1, len(body), 0, 0, 4, 4)
    return struct.pack("<2sIII", b"BM", offset + len(body), 0, offset) + info + palette + body
