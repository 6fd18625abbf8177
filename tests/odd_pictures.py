"""Make picture files of every awkward kind, with what a right reader does with each."""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from odd_trees import make_tree
from picture_bytes import (
    FIELDS,
    GREEN,
    GREYS,
    HEIGHT,
    ORIENTATION_TAG,
    RED,
    WIDTH,
    YELLOW,
    encode,
    exif,
    fields,
    frames,
    gif_with_small_frame,
    jpeg_of_size,
    png,
    png_chunk,
    png_rows,
    run_length_bmp,
    turned,
    upright,
    with_exif,
)
from PIL import Image

__all__ = ["OddPicture", "Probe", "make_single", "make_tree"]

CENTRES = ((0.25, 0.25), (0.75, 0.25), (0.25, 0.75), (0.75, 0.75))


class Probe(NamedTuple):
    """The colour that must be seen at a fraction of the width and of the height."""

    across: float
    down: float
    colour: tuple[int, int, int]
    tolerance: int


class OddPicture(NamedTuple):
    """A file, and what a right reader makes of it.

    Attributes:
        name: what is odd, for a test's id.
        path: the file.
        expect: `read` everywhere, `python` (in Python, and refused in words by the graph),
            or `refuse` everywhere, naming the file.
        size: `(width, height)` as displayed; None when refused.
        probes: colours as displayed; empty when refused.
    """

    name: str
    path: Path
    expect: str
    size: tuple[int, int] | None
    probes: tuple[Probe, ...]

    def faults(self, pixels: np.ndarray) -> list[str]:
        """List what is wrong with `pixels`, read from this file; empty when all is right."""
        if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
            return [f"{self.name}: {pixels.dtype} {pixels.shape} is not (H, W, 3) uint8"]
        height, width = pixels.shape[:2]
        if (width, height) != self.size:
            return [f"{self.name}: size {(width, height)}, expected {self.size}"]
        found = []
        for probe in self.probes:
            seen = pixels[int(probe.down * height), int(probe.across * width)].astype(int)
            if np.abs(seen - probe.colour).max() > probe.tolerance:
                found.append(f"{self.name}: {seen} at {probe}")
        return found


class Drawn(NamedTuple):
    """A picture before it is written: as OddPicture, with the file's name and bytes."""

    name: str
    file_name: str
    content: bytes
    expect: str = "read"
    size: tuple[int, int] | None = (WIDTH, HEIGHT)
    colours: tuple[tuple[int, int, int], ...] = FIELDS
    tolerance: int = 12


def jpegs() -> Iterator[Drawn]:
    """Yield JPEGs of every kind that is read."""
    plain = encode(upright(), "JPEG")
    yield Drawn("jpeg plain", "plain.jpg", plain)
    yield Drawn("jpeg progressive", "progressive.jpg", encode(upright(), "JPEG", progressive=True))
    yield Drawn(
        "jpeg 4:2:0", "subsampled.jpg", encode(upright(), "JPEG", subsampling=2), tolerance=20
    )
    cmyk = encode(upright().convert("CMYK"), "JPEG")
    yield Drawn("jpeg cmyk", "cmyk.jpg", cmyk, tolerance=40)
    grey = encode(Image.fromarray(fields(range(32, 256, 64))), "JPEG")
    yield Drawn("jpeg grey", "grey.jpg", grey, colours=GREYS)
    for number in range(1, 9):
        lying = encode(turned(number), "JPEG")
        order = "<>"[number % 2]
        yield Drawn(
            f"jpeg exif {number}", f"exif_{number}.jpg", with_exif(lying, exif(number, order))
        )
    first = encode(turned(6), "JPEG", exif=b"Exif\0\0" + exif(6))
    yield Drawn("jpeg exif without jfif", "exif_first.jpg", first[:2] + first[20:])
    cut = with_exif(plain, exif(6)[:12])
    yield Drawn("jpeg damaged exif", "exif_cut.jpg", cut)
    yield Drawn("jpeg exif 9", "exif_9.jpg", with_exif(plain, exif(9)))


def pngs() -> Iterator[Drawn]:
    """Yield PNGs of every depth and colour type that is read."""
    plain = encode(upright(), "PNG")
    yield Drawn("png plain", "plain.png", plain, tolerance=0)
    deep_grey = fields([level * 257 for level in (32, 96, 160, 224)], dtype=np.uint16)
    content = png(WIDTH, HEIGHT, 16, 0, png_rows(deep_grey))
    yield Drawn("png 16 bit grey", "grey16.png", content, colours=GREYS, tolerance=0)
    deep = png(WIDTH, HEIGHT, 16, 2, png_rows(fields().astype(np.uint16) * 257))
    yield Drawn("png 16 bit", "rgb16.png", deep, tolerance=0)
    palette = upright().quantize(4)
    yield Drawn("png palette", "palette.png", encode(palette, "PNG"), tolerance=4)
    clear = encode(palette, "PNG", transparency=bytes([255, 0, 255, 0]))
    yield Drawn("png palette with alpha", "palette_alpha.png", clear, tolerance=4)
    alpha = fields((255, 255, 255, 0))
    rgba = np.dstack([fields(), alpha])
    yield Drawn("png rgba", "rgba.png", encode(Image.fromarray(rgba), "PNG"), tolerance=0)
    grey_alpha = np.dstack([fields(range(32, 256, 64)), alpha])
    content = encode(Image.fromarray(grey_alpha, "LA"), "PNG")
    yield Drawn("png grey and alpha", "grey_alpha.png", content, colours=GREYS, tolerance=0)
    bits = Image.fromarray(fields((255, 0, 0, 255))).convert("1")
    white, black = (255, 255, 255), (0, 0, 0)
    bit_colours = (white, black, black, white)
    yield Drawn("png 1 bit", "one_bit.png", encode(bits, "PNG"), colours=bit_colours, tolerance=0)
    lying = turned(6)
    rows, size = png_rows(np.asarray(lying)), lying.size
    tag = png_chunk(b"eXIf", exif(6, ">"))
    before, after = png(*size, 8, 2, rows, before=tag), png(*size, 8, 2, rows, after=tag)
    yield Drawn("png exif", "exif.png", before, tolerance=0)
    yield Drawn("png exif behind the pixels", "exif_behind.png", after, tolerance=0)
    yield Drawn("png animated", "animated.png", frames("PNG"), tolerance=0)


def other_formats() -> Iterator[Drawn]:
    """Yield GIF, BMP and WebP of every kind that is read, and what only Python reads."""
    yield Drawn("gif still", "still.gif", encode(upright(), "GIF"), tolerance=4)
    yield Drawn("gif animated", "animated.gif", frames("GIF", loop=0), tolerance=4)
    black = (0, 0, 0)
    yield Drawn(
        "gif small frame",
        "small.gif",
        gif_with_small_frame(),
        colours=(black, GREEN, black, YELLOW),
    )
    yield Drawn("bmp 24 bit", "plain.bmp", encode(upright(), "BMP"), tolerance=0)
    yield Drawn("bmp 32 bit", "alpha.bmp", encode(upright().convert("RGBA"), "BMP"), tolerance=0)
    yield Drawn("bmp 8 bit", "palette.bmp", encode(upright().quantize(4), "BMP"), tolerance=4)
    yield Drawn("bmp behind rows", "trailing.bmp", encode(upright(), "BMP") + b"\0\0", tolerance=0)
    yield Drawn("bmp run length", "run_length.bmp", run_length_bmp(), "python", tolerance=0)
    yield Drawn("webp", "lossy.webp", encode(upright(), "WEBP", quality=95))
    yield Drawn(
        "webp lossless", "lossless.webp", encode(upright(), "WEBP", lossless=True), tolerance=0
    )
    clear = Image.fromarray(np.dstack([fields(), fields((255, 128, 255, 1))]))
    content = encode(clear, "WEBP", lossless=True, exact=True)
    yield Drawn("webp alpha", "alpha.webp", content, tolerance=0)
    yield Drawn("webp animated", "animated.webp", frames("WEBP", lossless=True), tolerance=0)
    content = encode(turned(8), "WEBP", lossless=True, exif=b"Exif\0\0" + exif(8))
    yield Drawn("webp exif", "exif.webp", content, tolerance=0)
    yield Drawn("tiff", "plain.tiff", encode(upright(), "TIFF"), "python", tolerance=0)
    content = encode(turned(6), "TIFF", tiffinfo={ORIENTATION_TAG: 6})
    yield Drawn("tiff turned", "turned.tif", content, "python", tolerance=0)
    deep = Image.fromarray(fields(np.arange(32, 256, 64) * 257, dtype=np.uint16))
    yield Drawn(
        "tiff 16 bit", "grey16.tif", encode(deep, "TIFF"), "python", colours=GREYS, tolerance=0
    )
    yield Drawn("ppm", "plain.ppm", encode(upright(), "PPM"), "python", tolerance=0)


def broken() -> Iterator[Drawn]:
    """Yield files that must be refused."""
    whole = {
        "jpg": encode(upright(), "JPEG"),
        "png": encode(upright(), "PNG"),
        "gif": encode(upright(), "GIF"),
        "bmp": encode(upright(), "BMP"),
        "webp": encode(upright(), "WEBP", lossless=True),
        "tif": encode(upright(), "TIFF"),
    }
    for ending, content in whole.items():
        yield Drawn(
            f"{ending} cut off", f"cut.{ending}", content[: len(content) * 2 // 3], "refuse"
        )
    yield Drawn("jpeg header only", "header_only.jpg", whole["jpg"][:20], "refuse")
    damaged = bytearray(whole["png"])
    damaged[damaged.index(b"IDAT") + 9] ^= 255
    yield Drawn("png wrong checksum", "checksum.png", bytes(damaged), "refuse")
    yield Drawn("empty file", "empty.jpg", b"", "refuse")
    yield Drawn("zero bytes", "zeros.jpg", bytes(512), "refuse")
    yield Drawn("text", "text.jpg", b"some notes, and no picture\n" * 9, "refuse")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "5" * 64 + "\nsize 99\n"
    yield Drawn("git lfs pointer", "pointer.jpg", pointer.encode(), "refuse")
    page = b"\n<!DOCTYPE html>\n<html><body>404: no such picture</body></html>"
    yield Drawn("html page", "page.jpg", page, "refuse")
    two_rows = bytes(2 * (1 + 60_000 * 3))
    bomb = png(60_000, 60_000, 8, 2, two_rows)
    yield Drawn("png bomb", "bomb.png", bomb, "refuse")
    yield Drawn("jpeg bomb", "bomb.jpg", jpeg_of_size(60_000, 60_000), "refuse")
    gif = bytearray(whole["gif"])
    gif[6:10] = struct.pack("<HH", 60_000, 60_000)
    yield Drawn("gif bomb", "bomb.gif", bytes(gif), "refuse")
    bmp = bytearray(whole["bmp"])
    bmp[18:26] = struct.pack("<ii", 60_000, 60_000)
    yield Drawn("bmp bomb", "bomb.bmp", bytes(bmp), "refuse")


def odd_names() -> Iterator[Drawn]:
    """Yield good pictures under odd names."""
    content, lossless = encode(upright(), "JPEG"), encode(upright(), "PNG")
    yield Drawn("png named jpg", "really_png.jpg", lossless, tolerance=0)
    yield Drawn("jpeg named png", "really_jpeg.png", content)
    yield Drawn("webp named jpg", "really_webp.jpg", encode(upright(), "WEBP", lossless=True))
    yield Drawn("name in capitals", "CAPITALS.JPG", content)
    yield Drawn("name without ending", "no_ending", content)
    yield Drawn("name with accents and emoji", "\u00e9t\u00e9 \u732b \U0001f408 2.jpg", content)
    yield Drawn("name with brackets", "copy [3] (new) {x}*.jpg", content)
    yield Drawn("name with a leading dash", "-o.jpg", content)
    yield Drawn("name with a percent sign", "100%s %d.jpg", content)
    yield Drawn("name with a line break", "two\nlines.jpg", content)
    yield Drawn("name of odd bytes", os.fsdecode(b"not utf-8 \xe9\xff.jpg"), content)


def odd_sizes() -> Iterator[Drawn]:
    """Yield good pictures of odd sizes."""
    pixel = encode(Image.fromarray(fields((RED,) * 4, 1, 1)), "PNG")
    yield Drawn("1x1", "pixel.png", pixel, size=(1, 1), colours=(RED,) * 4, tolerance=0)
    wide = encode(Image.fromarray(fields(width=4000, height=10)), "PNG")
    yield Drawn("4000x10", "wide.png", wide, size=(4000, 10), tolerance=0)
    tall = encode(Image.fromarray(fields((RED, GREEN, RED, GREEN), 2, 3000)), "PNG")
    yield Drawn("2x3000", "tall.png", tall, size=(2, 3000), colours=(RED, GREEN) * 2, tolerance=0)
    uneven = encode(Image.fromarray(fields(width=223, height=225)), "JPEG")
    yield Drawn("223x225", "uneven.jpg", uneven, size=(223, 225))


def write(folder: Path, drawn: Drawn) -> OddPicture:
    """Write the file and return it with its probes."""
    path = folder / drawn.file_name
    path.write_bytes(drawn.content)
    if drawn.expect == "refuse":
        return OddPicture(drawn.name, path, drawn.expect, None, ())
    probes = tuple(
        Probe(*centre, colour, drawn.tolerance)
        for centre, colour in zip(CENTRES, drawn.colours, strict=True)
    )
    return OddPicture(drawn.name, path, drawn.expect, drawn.size, probes)


def make_single(folder: str | os.PathLike) -> list[OddPicture]:
    """Write every odd picture into `folder` and return them with what to expect of each.

    A name that the file system cannot hold is left out.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    pictures = []
    for kinds in (jpegs, pngs, other_formats, broken, odd_sizes, odd_names):
        for drawn in kinds():
            try:
                pictures.append(write(folder, drawn))
            except OSError:
                if kinds is not odd_names:
                    raise
    return pictures
