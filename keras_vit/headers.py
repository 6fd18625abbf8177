"""Read a picture's header in Python: format by content, size as displayed, EXIF orientation."""

import os
import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

from keras_vit import pillow_formats
from keras_vit.unreadable import UnreadableError, describe_foreign_file, naming

MAX_PIXELS = 50_000_000
MAX_STEPS = 1_000  # segments, runs of chunks or stray bytes walked in search of a header or EXIF
RUN = 256  # equal chunks that are one step, since the graph's walk takes them at once
# The formats read everywhere, and those read in Python only; with the usual endings of their files.
IMAGE_FORMATS = {
    "everywhere": {
        "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif"),
        "PNG": (".png", ".apng"),
        "GIF": (".gif",),
        "BMP": (".bmp", ".dib"),
        "WEBP": (".webp",),
    },
    "python": {
        "TIFF": (".tif", ".tiff"),
        "JPEG2000": (".jp2", ".j2k", ".jpx"),
        "AVIF": (".avif",),
        "PPM": (".ppm", ".pgm", ".pbm", ".pnm"),
    },
}
BMP_HEADER_SIZES = (12, 16, 40, 52, 56, 64, 108, 124)
STANDALONE_MARKERS = frozenset([0x00, 0x01, *range(0xD0, 0xD8)])  # JPEG markers of two bytes
FRAME_MARKERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
LAST_MARKERS = frozenset([0xD8, 0xD9, 0xDA])  # behind them the header is over
_MAGICS = {
    "JPEG": (b"\xff\xd8\xff",),
    "PNG": (b"\x89PNG\r\n\x1a\n",),
    "TIFF": (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"),
    "JPEG2000": (b"\0\0\0\x0cjP  \r\n\x87\n", b"\xff\x4f\xff\x51"),
}
SHORT, LONG = 3, 4  # the EXIF types of an orientation


class Header(NamedTuple):
    """What a picture's header says; width and height as displayed."""

    format: str
    width: int
    height: int
    orientation: int


class Content:
    """Random access to a file's bytes, or to the bytes of a picture, without reading it whole."""

    def __init__(self, source: str | os.PathLike | bytes):
        self.source, self._file = source, None
        if isinstance(source, bytes):
            self._start, self.size = source, len(source)
        else:
            self._file = open(source, "rb", buffering=0)
            self.size = os.fstat(self._file.fileno()).st_size
            self._start = self._file.read(1 << 16)

    def __enter__(self) -> "Content":
        return self

    def __exit__(self, *error) -> None:
        if self._file is not None:
            self._file.close()

    def at(self, position: int, count: int) -> bytes:
        """Return `count` bytes from `position`; fewer at the end."""
        if self._file is None or position + count <= len(self._start):
            return self._start[position : position + count]
        self._file.seek(position)
        return self._file.read(count)

    def unpack(self, layout: str, position: int) -> tuple[int, ...]:
        """Return the numbers at `position` in the layout of `struct`; zero behind the end."""
        size = struct.calcsize(layout)
        return struct.unpack(layout, self.at(position, size).ljust(size, b"\0"))


def inspect_header(source: str | os.PathLike | bytes) -> Header:
    """Read a picture's header: quick, by content, from any thread.

    Args:
        source: A path, or the encoded picture as bytes.

    Raises:
        ImageError: The file is missing, is no picture, is cut off in its header, or claims more
            than `MAX_PIXELS` pixels.
    """
    with naming(source), Content(source) as content:
        return read_header(content)


def read_header(content: Content) -> Header:
    """Return the header of an open picture; raise `UnreadableError` with the reason."""
    kind = find_format(content.at(0, 32))
    if kind is None:
        raise UnreadableError(describe_foreign_file(content.at(0, 512)))
    if kind in _PARSERS:
        width, height, orientation = _PARSERS[kind](content)
    else:
        width, height, orientation = pillow_formats.read_size(content.source, kind)
    claim = f"the {kind} header claims {width}x{height} pixels"
    if width < 1 or height < 1:
        raise UnreadableError(f"{claim}, which are none")
    if width * height > MAX_PIXELS:
        raise UnreadableError(f"{claim}, more than {MAX_PIXELS:,}")
    if orientation > 4:
        width, height = height, width
    return Header(kind, width, height, orientation)


def find_format(head: bytes) -> str | None:
    """Return the format that the first 32 bytes announce; None when it is none of ours."""
    for kind, starts in _MAGICS.items():
        if head.startswith(starts):
            return kind
    if re.match(rb"GIF8.a", head, re.DOTALL):
        return "GIF"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "WEBP"
    if head[:2] == b"BM" and int.from_bytes(head[14:18], "little") in BMP_HEADER_SIZES:
        return "BMP"
    if head[4:12] in (b"ftypavif", b"ftypavis"):
        return "AVIF"
    if re.match(rb"P[1-6]\s", head):
        return "PPM"
    return None


def exif_orientation(block: bytes) -> int:
    """Return the orientation in an EXIF block, 1 to 8; 1 where it has none or is damaged."""
    block = block.removeprefix(b"Exif\0\0")
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(block[:4])
    if order is None or len(block) < 10:
        return 1
    start = struct.unpack_from(order + "I", block, 4)[0]
    if start + 2 > len(block):
        return 1
    count, orientation = struct.unpack_from(order + "H", block, start)[0], 1
    for at in range(start + 2, min(start + 2 + 12 * count, len(block) - 11), 12):
        tag, kind, number = struct.unpack_from(order + "HHI", block, at)
        if tag == pillow_formats.ORIENTATION_TAG and number == 1 and kind in (SHORT, LONG):
            value_layout = order + ("H" if kind == SHORT else "I")
            orientation = struct.unpack_from(value_layout, block, at + 8)[0]
    return orientation if 1 <= orientation <= 8 else 1


def _jpeg_header(content: Content) -> tuple[int, int, int]:
    position, size, block = 2, None, None
    for _ in range(MAX_STEPS):
        mark = content.at(position, 10)
        if len(mark) < 4:
            raise _cut_off("JPEG", content)
        if mark[0] != 0xFF or mark[1] == 0xFF:
            position += 1  # stray and filling bytes, which libjpeg skips as well
        elif mark[1] in STANDALONE_MARKERS:
            position += 2
        elif mark[1] in LAST_MARKERS:
            break
        else:
            length = mark[2] * 256 + mark[3]
            if mark[1] in FRAME_MARKERS and size is None:
                size = content.unpack(">HH", position + 5)
            if block is None and mark[1] == 0xE1 and mark[4:] == b"Exif\0\0":
                block = content.at(position + 10, max(length - 8, 0))
            position += 2 + length
    if size is None:
        raise UnreadableError("the JPEG file has no frame header, so no size")
    return size[1], size[0], exif_orientation(block or b"")


def _png_header(content: Content) -> tuple[int, int, int]:
    if content.at(12, 4) != b"IHDR" or content.size < 33:
        raise UnreadableError("the PNG file is cut off or damaged in its header")
    width, height = content.unpack(">II", 16)
    block, end = None, 0
    for kind, start, length in _walk_chunks(content, 8, is_png=True):
        end = start + length + 4
        if kind == b"IEND" or end > content.size:
            break
        if kind == b"eXIf" and block is None:
            block = content.at(start, length)
    if end > content.size or (kind != b"IEND" and end + 8 > content.size):
        raise _cut_off("PNG", content)
    return width, height, exif_orientation(block or b"")


def _walk_chunks(content: Content, position: int, is_png: bool) -> Iterator[tuple[bytes, int, int]]:
    """Yield kind, start and length of the content of each PNG or WebP chunk."""
    steps, run, previous = 0, 0, b""
    while position + 8 <= content.size and steps < MAX_STEPS:
        head = content.at(position, 8)
        kind = head[4:] if is_png else head[:4]
        length = int.from_bytes(head[:4], "big") if is_png else int.from_bytes(head[4:], "little")
        yield kind, position + 8, length
        run = run + 1 if head == previous and run < RUN else 1
        steps, previous = steps + (run == 1), head
        position += length + 12 if is_png else length + length % 2 + 8


def _cut_off(kind: str, content: Content) -> UnreadableError:
    return UnreadableError(f"the {kind} file is cut off after {content.size:,} bytes")


def _webp_header(content: Content) -> tuple[int, int, int]:
    kind, flags = content.at(12, 4), content.unpack("B", 20)[0]
    is_extended = kind == b"VP8X"
    is_animated = is_extended and flags & 2
    if content.unpack("<I", 4)[0] + 8 > content.size and not is_animated:
        raise _cut_off("WebP", content)
    if kind == b"VP8 ":
        width, height = content.unpack("<HH", 26)
        return width & 0x3FFF, height & 0x3FFF, 1
    if kind == b"VP8L":
        packed = content.unpack("<I", 21)[0]
        return (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1, 1
    if not is_extended:
        raise UnreadableError("the WebP file has no picture where it should be")
    exif = _find_webp_chunk(content, b"EXIF") if flags & 8 else (0, 0)
    if is_animated and sum(_find_webp_chunk(content, b"ANMF")) not in range(1, content.size + 1):
        raise _cut_off("WebP", content)
    packed = int.from_bytes(content.at(24, 6), "little")
    return (packed & 0xFFFFFF) + 1, (packed >> 24) + 1, exif_orientation(content.at(*exif))


def _find_webp_chunk(content: Content, wanted: bytes) -> tuple[int, int]:
    """Return start and length of the content of the first such chunk; 0, 0 if there is none."""
    for kind, start, length in _walk_chunks(content, 12, is_png=False):
        if kind == wanted:
            return start, length
    return 0, 0


def _gif_header(content: Content) -> tuple[int, int, int]:
    """Return the canvas: the screen, enlarged where the first frame reaches out of it."""
    width, height, flags = content.unpack("<HHB", 6)
    position = 13 + (3 << (flags & 7) + 1) * (flags >> 7)
    for _ in range(MAX_STEPS):
        mark = content.at(position, 1)
        if mark == b",":
            left, top, frame_width, frame_height = content.unpack("<4H", position + 1)
            if not frame_width * frame_height:
                return 0, 0, 1
            return max(width, left + frame_width), max(height, top + frame_height), 1
        if mark != b"!":
            break
        position += 2
        while length := content.unpack("B", position)[0]:
            position += 1 + length
        position += 1
    raise UnreadableError("the GIF file is cut off or damaged before its first frame")


def _bmp_header(content: Content) -> tuple[int, int, int]:
    if content.unpack("<I", 14)[0] == 12:
        return *content.unpack("<HH", 18), 1
    width, height = content.unpack("<ii", 18)
    if 0 < width * abs(height) <= MAX_PIXELS and is_plain_bmp(content):
        offset, depth = content.unpack("<I", 10)[0], content.unpack("<H", 28)[0]
        if offset + (width * depth + 31) // 32 * 4 * abs(height) > content.size:
            raise _cut_off("BMP", content)
    return max(width, 0), abs(height), 1


def is_plain_bmp(content: Content) -> bool:
    """Tell whether the graph reads this BMP: not compressed, and of a usual bit depth."""
    size, depth, compression = content.unpack("<I10xHI", 14)
    masked = depth == 32 and content.unpack("<3I", 54) == (0xFF0000, 0xFF00, 0xFF)
    plain = compression == 0 or (compression == 3 and masked)
    return size >= 40 and depth in (1, 4, 8, 24, 32) and plain


def explain_damage(content: Content, kind: str) -> str:
    """Return why a picture of that format, which the decoder has refused, cannot be read."""
    try:
        read_header(content)
    except UnreadableError as reason:
        return str(reason)
    data = content.at(0, content.size)
    is_cut = kind == "GIF" and not data.endswith(b";")
    if kind == "JPEG":  # a thumbnail has an end mark as well, before the picture's scan
        is_cut = data.rfind(b"\xff\xd9") < data.rfind(b"\xff\xda")
    if is_cut:
        return str(_cut_off(kind, content))
    return f"the {kind} file is damaged: its pixels cannot be decoded"


_PARSERS = {
    "JPEG": _jpeg_header,
    "PNG": _png_header,
    "GIF": _gif_header,
    "WEBP": _webp_header,
    "BMP": _bmp_header,
}
