"""Draw a confusion matrix of 2 to 1,000 classes: counts while they fit, names while readable."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_vit import drawing
from keras_vit.drawing import BLUE, INK, LARGE, MARGIN, MUTED, NORMAL, PAPER, RED, SMALL
from keras_vit.evaluation import Report

MOST_COUNTED = 20  # classes up to which cells hold their counts
MOST_NAMED = 50  # classes up to which rows and columns have names
CELLS = ((12, 44), (MOST_COUNTED, 36), (MOST_NAMED, 20))  # up to so many classes, so large
MOST_LARGE = 200  # classes up to which a cell is more than a dot
GROUND = 247  # the grey of empty cells
NARROWEST = 400  # the notes need so much
SIDE = 1_000  # of a matrix of many classes
LONGEST_NAME = 180
SHARES = (0.01, 0.1, 0.5, 1.0)  # of a row, in the key of colours
RIGHT, WRONG = (np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) for color in (BLUE, RED))


class Layout(NamedTuple):
    """Where things are, in units; `left` and `top` are the matrix', counted from the top left.

    Attributes:
        names: What stands at rows and columns: `(position, text)`.
        upright: Whether the column's names are turned by a quarter.
    """

    width: int
    height: int
    left: int
    top: int
    side: int
    cell: int
    letters: int
    names: list[tuple[int, str]]
    upright: bool


def draw_confusion(report: Report, path: str | os.PathLike) -> None:
    """Draw a report's confusion matrix, coloured by the share of each row.

    Args:
        report: Of a single-label model.
        path: Where to write; the ending chooses the format.

    Raises:
        ValueError: If the report has no matrix.
    """
    if report.confusion is None:
        raise ValueError(
            "expected a report with a confusion matrix, got one without: it is multi-label or "
            f"has too many classes ({len(report.class_names)})"
        )
    num_classes = len(report.confusion)
    layout = _lay_out(report.class_names)
    figure = drawing.new_figure(layout.width, layout.height)
    canvas = np.full((layout.height, layout.width, 3), 255.0)
    _draw_cells(canvas, layout, heat(report.confusion))
    _write_heading(figure, layout)
    _write_names(figure, layout)
    if num_classes <= MOST_COUNTED:
        _write_counts(figure, layout, report.confusion)
    else:
        _draw_key(figure, canvas, layout)
    drawing.paste(figure, canvas.round().astype(np.uint8))
    drawing.save(figure, path)


def heat(confusion: np.ndarray) -> np.ndarray:
    """Return `(K, K, 4)` colours in [0, 255]: blue right, red wrong, the fuller the more.

    The opacity grows with the square root of a cell's share of its row and starts well above
    nothing, so that one mistake in a hundred can still be seen, as a single dot too.
    """
    shares = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)
    faintest = 0.1 if len(confusion) <= MOST_LARGE else 0.4
    opacity = np.where(shares > 0, faintest + (1 - faintest) * np.sqrt(shares), 0)
    colors = np.where(np.eye(len(confusion), dtype=bool)[:, :, None], RIGHT, WRONG)
    return np.concatenate([colors, 255 * opacity[:, :, None]], axis=2)


def pool(colors: np.ndarray, most: int) -> np.ndarray:
    """Join cells to blocks until there are at most so many; a block shows its fullest cell."""
    factor = math.ceil(len(colors) / most)
    num_blocks = math.ceil(len(colors) / factor)
    missing = num_blocks * factor - len(colors)
    padded = np.pad(colors, ((0, missing), (0, missing), (0, 0)))
    blocks = padded.reshape(num_blocks, factor, num_blocks, factor, 4).swapaxes(1, 2)
    cells = blocks.reshape(num_blocks, num_blocks, factor**2, 4)
    fullest = cells[:, :, :, 3].argmax(axis=2)[:, :, None, None]
    return np.take_along_axis(cells, fullest, axis=2)[:, :, 0]


def _lay_out(class_names: Sequence[str]) -> Layout:
    num_classes = len(class_names)
    cell = next((size for most, size in CELLS if num_classes <= most), max(1, SIDE // num_classes))
    letters = NORMAL if num_classes <= MOST_COUNTED else SMALL
    names = _choose_names(class_names, letters)
    longest = math.ceil(max(drawing.text_width(text, letters) for _, text in names))
    upright = num_classes <= MOST_NAMED and longest > cell - 6
    left, side = MARGIN + longest + 12, cell * num_classes
    top = MARGIN + 84 + (longest if upright else letters)
    below = MARGIN if num_classes <= MOST_COUNTED else MARGIN + 44
    width = max(left + side + MARGIN, MARGIN + NARROWEST)
    return Layout(width, top + side + below, left, top, side, cell, letters, names, upright)


def _choose_names(class_names: Sequence[str], letters: int) -> list[tuple[int, str]]:
    """Choose the class names, or where they are too many some round class indices."""
    num_classes = len(class_names)
    if num_classes <= MOST_NAMED:
        cut = [drawing.cut_to_width(name, LONGEST_NAME, letters) for name in class_names]
        return list(enumerate(cut))
    step = next(step for step in (10, 20, 50, 100, 200, 500) if num_classes <= 12 * step)
    return [(index, str(index)) for index in range(0, num_classes, step)]


def _write_heading(figure: Any, layout: Layout) -> None:
    y = layout.height - MARGIN - LARGE
    named = "" if len(layout.names) * layout.cell == layout.side else ", numbered"
    drawing.write(figure, MARGIN, y, "Confusion", LARGE, bold=True)
    note = f"rows: true class{named}; columns: predicted class"
    drawing.write(figure, MARGIN, y - 20, note, SMALL, MUTED)
    note = "blue: right, red: wrong; the fuller, the larger the share of the row"
    drawing.write(figure, MARGIN, y - 35, note, SMALL, MUTED)


def _write_names(figure: Any, layout: Layout) -> None:
    top = layout.height - layout.top
    for index, text in layout.names:
        middle = layout.cell * (index + 0.5)
        y = top - middle - layout.letters / 3
        drawing.write(figure, layout.left - 8, y, text, layout.letters, align="right")
        if layout.upright:
            x = layout.left + middle + layout.letters / 3
            drawing.write(figure, x, top + 8, text, layout.letters, rotation=90)
        else:
            x = layout.left + middle
            drawing.write(figure, x, top + 8, text, layout.letters, align="center")


def _write_counts(figure: Any, layout: Layout, confusion: np.ndarray) -> None:
    opacity = heat(confusion)[:, :, 3] / 255
    for row, column in np.argwhere(confusion):
        x = layout.left + layout.cell * (column + 0.5)
        y = layout.height - layout.top - layout.cell * (row + 0.5) - 4
        color = PAPER if opacity[row, column] > 0.6 else INK
        text = _short_count(confusion[row, column], layout.cell - 4)
        drawing.write(figure, x, y, text, layout.letters - 1, color, align="center")


def _short_count(count: int, width: float) -> str:
    forms = (f"{count}", f"{count / 1e3:.0f}k", f"{count / 1e6:.0f}M")
    return next((form for form in forms if drawing.text_width(form, NORMAL) <= width), forms[-1])


def _draw_cells(canvas: np.ndarray, layout: Layout, colors: np.ndarray) -> None:
    cell, place = layout.cell, canvas[layout.top :, layout.left :][: layout.side, : layout.side]
    place[:] = GROUND
    _blend(place, colors.repeat(cell, axis=0).repeat(cell, axis=1), 0, 0)
    if cell >= 10:  # a line of paper between the cells
        place[cell - 1 :: cell] = place[:, cell - 1 :: cell] = 255


def _draw_key(figure: Any, canvas: np.ndarray, layout: Layout) -> None:
    top, num_classes = layout.top + layout.side + 28, layout.side // layout.cell
    for position, share in enumerate(SHARES):
        example = np.zeros((num_classes, num_classes))
        example[0, :2], example[1, :2] = (share, 1 - share), (share, 1 - share)
        swatch = heat(example)[:2, :1].reshape(1, 2, 4)  # right, then wrong
        x = layout.left + 90 * position
        _blend(canvas, swatch.repeat(14, axis=0).repeat(14, axis=1), x, top)
        y = layout.height - top - 11
        drawing.write(figure, x + 34, y, f"{100 * share:.0f} %", SMALL, MUTED)


def _blend(canvas: np.ndarray, colors: np.ndarray, left: int, top: int) -> None:
    place = canvas[top : top + colors.shape[0], left : left + colors.shape[1]]
    place += (colors[:, :, :3] - place) * colors[:, :, 3:] / 255
