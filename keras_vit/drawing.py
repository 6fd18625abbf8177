"""Draw a grid of pictures with their names; and the paper, ink and text that every drawing uses.

Lengths are in units, `UNITS_PER_INCH` of them to the inch, from the lower left corner; a file has
`PIXELS_PER_UNIT` pixels for each, for sharp letters. Figures are made without pyplot, so that
drawing needs no display and leaves nothing behind.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit.files import replacing
from keras_vit.lettering import families, readable, shorten

INK, MUTED, HAIRLINE, PAPER = "#1c2024", "#6f7780", "#dfe3e7", "#ffffff"
BLUE, RED = "#2563b0", "#cf4a25"
UNITS_PER_INCH = 100
PIXELS_PER_UNIT = 2
SMALL, NORMAL, LARGE = 11, 13, 15  # font sizes
MARGIN = 24

TILE = 144  # small pictures are enlarged to about this
LARGEST_TILE = 224  # large pictures are shrunk to this
GAP = 16
MOST_COLUMNS = 12


def draw_grid(
    images: Sequence[Any],
    titles: Sequence[str],
    path: str | os.PathLike,
    file_names: Sequence[str] | None = None,
    heading: str = "",
) -> None:
    """Draw pictures in rows, each with its class name under it.

    Small pictures are enlarged by a whole factor, pixel by pixel, so that they stay crisp.

    Args:
        images: `(H, W, 3)` or `(H, W, 1)` arrays of any size, values in [0, 255].
        titles: The class name of each.
        path: Where to write; the ending chooses the format.
        file_names: A second line for each.
        heading: A line above all.

    Raises:
        ValueError: If there are no pictures, or a picture or the number of titles is not as above.
    """
    pictures = [_to_rgb(image, position) for position, image in enumerate(images)]
    lines = [(titles, NORMAL, INK, False)]
    if file_names is not None:
        lines.append((file_names, SMALL, MUTED, True))
    _check_counts(len(pictures), [texts for texts, *_ in lines])
    tile_height, tile_width = _tile_size(pictures)
    columns = _choose_columns(len(pictures))
    step_x, step_y = tile_width + GAP, tile_height + GAP + 20 * len(lines)
    top = MARGIN + (32 if heading else 0)
    height = top + step_y * math.ceil(len(pictures) / columns) + MARGIN - GAP
    width = 2 * MARGIN + step_x * columns - GAP
    figure = new_figure(width, height)
    canvas = np.full((height, width, 3), 255, np.uint8)
    if heading:
        write(figure, MARGIN, height - MARGIN - LARGE, heading, size=LARGE, bold=True)
    for position, picture in enumerate(pictures):
        x = MARGIN + step_x * (position % columns)
        y = top + step_y * (position // columns)
        _place(canvas, _fit(picture, tile_height, tile_width), x, y + tile_height)
        for line, (texts, size, color, keep_end) in enumerate(lines):
            text = cut_to_width(texts[position], step_x - 8, size, keep_end)
            write(figure, x, height - y - tile_height - 18 - 18 * line, text, size, color)
    paste(figure, canvas)
    save(figure, path)


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure of so many units."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # A whole number of units may come out a hair too small in inches, and is then cut down.
    inches = (width + 0.001) / UNITS_PER_INCH, (height + 0.001) / UNITS_PER_INCH
    figure = Figure(inches, dpi=UNITS_PER_INCH * PIXELS_PER_UNIT, facecolor=PAPER)
    FigureCanvasAgg(figure)
    return figure


def write(
    figure: Any,
    x: float,
    y: float,
    text: str,
    size: float = NORMAL,
    color: str = INK,
    align: str = "left",
    bold: bool = False,
    rotation: float = 0,
) -> None:
    """Write one line on a figure, its baseline at y; dollar signs are dollar signs."""
    text = readable(text)
    width, height = figure.get_size_inches() * UNITS_PER_INCH
    figure.text(
        x / width,
        y / height,
        text,
        fontsize=to_points(size),
        fontfamily=families(text),
        fontweight="bold" if bold else "normal",
        color=color,
        va="baseline",
        ha=align,
        rotation=rotation,
        rotation_mode="anchor",
        parse_math=False,
    )


def paste(figure: Any, pixels: np.ndarray) -> None:
    """Lay `(height, width, 3)` pixels, one for each unit, under everything on a figure."""
    figure.figimage(pixels.repeat(PIXELS_PER_UNIT, axis=0).repeat(PIXELS_PER_UNIT, axis=1))


def to_points(size: float) -> float:
    """Return a font size in points."""
    return size * 72 / UNITS_PER_INCH


def text_width(text: str, size: float) -> float:
    """Return how many units wide a text is when written."""
    from matplotlib.font_manager import FontProperties

    text = readable(text)
    font = FontProperties(family=families(text), size=to_points(size))
    width, _, _ = _ruler().get_text_width_height_descent(text, font, ismath=False)
    return width / PIXELS_PER_UNIT


def cut_to_width(text: str, width: float, size: float, keep_end: bool = False) -> str:
    """Cut a text so that it is at most so many units wide."""
    return shorten(readable(text), lambda part: text_width(part, size) <= width, keep_end)


def save(figure: Any, path: str | os.PathLike) -> None:
    """Write a figure under its name, whole or not at all.

    Raises:
        ValueError: If the ending of the path names no format that can be written.
    """
    path = Path(path)
    kinds = sorted(figure.canvas.get_supported_filetypes())
    kind = path.suffix.lstrip(".").lower()
    if kind not in kinds:
        raise ValueError(f"{path}: expected a name that ends in one of {', '.join(kinds)}")
    with replacing(path) as temporary:
        figure.savefig(temporary, format=kind, facecolor=PAPER)


@functools.cache
def _ruler() -> Any:
    return new_figure(1, 1).canvas.get_renderer()


def _to_rgb(image: Any, position: int) -> np.ndarray:
    pixels = np.asarray(image)
    if pixels.ndim != 3 or pixels.shape[2] not in (1, 3) or not pixels.size:
        raise ValueError(
            f"image {position}: expected shape (H, W, 3) or (H, W, 1), got {pixels.shape}"
        )
    if not np.isfinite(pixels).all():
        raise ValueError(f"image {position}: expected values in [0, 255], got nan or infinity")
    whole = np.clip(np.rint(pixels), 0, 255).astype(np.uint8)
    return np.broadcast_to(whole, (*whole.shape[:2], 3))


def _check_counts(num_images: int, lines: Sequence[Sequence[str]]) -> None:
    if not num_images:
        raise ValueError("expected at least one image to draw, got none")
    for texts in lines:
        if len(texts) != num_images:
            raise ValueError(f"expected a text for each of {num_images} images, got {len(texts)}")


def _tile_size(pictures: Sequence[np.ndarray]) -> tuple[int, int]:
    sizes = np.array([picture.shape[:2] for picture in pictures])
    factor = max(1, TILE // sizes.max())
    height, width = np.minimum(sizes.max(axis=0) * factor, LARGEST_TILE)
    return int(height), int(max(width, 2 * TILE // 3))  # a name needs some room


def _choose_columns(num_images: int) -> int:
    """Return a number of columns, at least as many as rows, that leaves the last row full."""
    few = math.ceil(math.sqrt(num_images))
    many = max(few, min(math.isqrt(2 * num_images) + 1, MOST_COLUMNS))
    return min(range(many, few - 1, -1), key=lambda columns: -num_images % columns)


def _fit(picture: np.ndarray, height: int, width: int) -> np.ndarray:
    from PIL import Image

    scale = min(height / picture.shape[0], width / picture.shape[1])
    if scale >= 1:
        return picture.repeat(int(scale), axis=0).repeat(int(scale), axis=1)
    size = [max(1, round(scale * side)) for side in picture.shape[1::-1]]
    return np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.LANCZOS))


def _place(canvas: np.ndarray, picture: np.ndarray, x: int, bottom: int) -> None:
    height, width = picture.shape[:2]
    edge = np.array([int(HAIRLINE[i : i + 2], 16) for i in (1, 3, 5)])
    canvas[bottom - height - 1 : bottom + 1, x - 1 : x + width + 1] = edge
    canvas[bottom - height : bottom, x : x + width] = picture
