"""Draw what a data source holds: pictures of each class, their sizes, and what is amiss."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from keras_vit import drawing
from keras_vit.drawing import BLUE, HAIRLINE, LARGE, MARGIN, MUTED, RED, SMALL
from keras_vit.lettering import families

MOST_NAME_WIDTH, BAR_WIDTH, COUNT_WIDTH = 180, 250, 70
ROW, BAR = 22, 12
MOST_CLASSES = 24  # beyond this the largest and the smallest are drawn
SIZE_PANEL = 300
TOP = 86
SPLIT_COLORS = {"train": BLUE, "validation": "#8fb3dd", "test": "#c9ced4"}


def draw_source(report: Any, path: str | os.PathLike) -> None:
    """Draw a `SourceReport`: a bar for each class on the left, picture sizes on the right.

    Args:
        report: What `keras_vit.data.check_source` returns.
        path: Where to write; the ending chooses the format.
    """
    rows = _choose_classes(report)
    words = _describe(report)
    height = max(TOP + ROW * len(rows), TOP + SIZE_PANEL) + 22 * len(words) + 2 * MARGIN
    widths = [drawing.text_width(name, SMALL) for name in rows if name is not None]
    bars = MARGIN + min(max(widths), MOST_NAME_WIDTH) + 8
    left = bars + BAR_WIDTH + COUNT_WIDTH + 40
    figure = drawing.new_figure(left + SIZE_PANEL + MARGIN, height)
    title = f"{report.num_images:,} pictures of {len(report.counts['train'])} classes"
    drawing.write(figure, MARGIN, height - 34, title, LARGE, bold=True)
    source = drawing.cut_to_width(report.source, left - MARGIN - 20, SMALL, keep_end=True)
    drawing.write(figure, MARGIN, height - 53, source, SMALL, MUTED)
    _draw_classes(figure, report, rows, bars, height)
    _draw_sizes(figure, report, left, height)
    for line, (text, color) in enumerate(words):
        y = MARGIN + 22 * (len(words) - 1 - line)
        width = left + SIZE_PANEL - MARGIN
        drawing.write(figure, MARGIN, y, drawing.cut_to_width(text, width, SMALL), SMALL, color)
    drawing.save(figure, path)


def _choose_classes(report: Any) -> list[str | None]:
    """Return the classes to draw, largest first; None stands for those between."""
    totals = {
        name: sum(counts[name] for counts in report.counts.values())
        for name in report.counts["train"]
    }
    order = sorted(totals, key=lambda name: -totals[name])
    if len(order) <= MOST_CLASSES:
        return order
    half = MOST_CLASSES // 2
    return [*order[:half], None, *order[-half:]]


def _describe(report: Any) -> list[tuple[str, str]]:
    """Return the lines under the drawing, each with its colour; red is what needs a look."""
    formats = ", ".join(f"{count:,} {kind}" for kind, count in report.formats.items())
    mean, spread = (
        ", ".join(f"{value:.0f}" for value in values)
        for values in (report.pixel_mean, report.pixel_std)
    )
    amiss = [
        (len(report.unreadable), "file", "files", "that cannot be read"),
        (len(report.duplicates_across_labels), "picture", "pictures", "under more than one label"),
        (len(report.duplicates_across_splits), "picture", "pictures", "in more than one split"),
        (len(report.nearly_empty), "class", "classes", "with very few pictures to train on"),
    ]
    lines = [
        (f"{count:,} {one if count == 1 else many} {what}", RED)
        for count, one, many, what in amiss
        if count
    ]
    return [
        (f"Formats: {formats}", MUTED),
        (f"Red, green, blue: mean {mean}; spread {spread}", MUTED),
        *(lines or [("Nothing amiss was found", MUTED)]),
    ]


def _draw_classes(
    figure: Any, report: Any, rows: list[str | None], bars: float, height: float
) -> None:
    """Draw a row for each class, its bar beginning at `bars`."""
    largest = max(sum(c[name] for c in report.counts.values()) for name in rows if name is not None)
    for row, name in enumerate(rows):
        y = height - TOP - ROW * (row + 1)
        if name is None:
            left_out = f"{len(report.counts['train']) - MOST_CLASSES:,} classes between"
            drawing.write(figure, bars, y + 2, left_out, SMALL, MUTED)
            continue
        shown = drawing.cut_to_width(name, MOST_NAME_WIDTH, SMALL)
        drawing.write(figure, bars - 8, y + 2, shown, SMALL, align="right")
        x, total = bars, 0
        for split, counts in report.counts.items():
            width = BAR_WIDTH * counts[name] / max(largest, 1)
            _fill(figure, x, y, width, BAR, SPLIT_COLORS[split])
            x, total = x + width, total + counts[name]
        drawing.write(figure, x + 6, y + 2, f"{total:,}", SMALL, MUTED)
    x = bars
    for split in report.counts:
        _fill(figure, x, height - TOP + 6, 10, 10, SPLIT_COLORS[split])
        drawing.write(figure, x + 15, height - TOP + 7, split, SMALL, MUTED)
        x += 27 + drawing.text_width(split, SMALL)


def _fill(figure: Any, x: float, y: float, width: float, height: float, color: str) -> None:
    from matplotlib.patches import Rectangle

    across, up = figure.get_size_inches() * drawing.UNITS_PER_INCH
    corner = (x / across, y / up)
    figure.add_artist(Rectangle(corner, width / across, height / up, color=color, linewidth=0))


def _draw_sizes(figure: Any, report: Any, left: float, height: float) -> None:
    """Draw a dot for each size, its area by the number of pictures; both scales are logarithmic."""
    drawing.write(figure, left, height - 34, "Sizes", LARGE, bold=True)
    if not report.sizes:
        return
    median = f"{report.widths[1]} wide, {report.heights[1]} high"
    note = (
        f"all are {median}" if report.num_sizes == 1 else f"{report.num_sizes:,}; median {median}"
    )
    drawing.write(figure, left, height - 53, note, SMALL, MUTED)
    units = [left + 46, height - TOP - SIZE_PANEL + 40, SIZE_PANEL - 60, SIZE_PANEL - 60]
    box = np.array(units) / drawing.UNITS_PER_INCH
    axes = figure.add_axes(box / np.tile(figure.get_size_inches(), 2))
    widths, heights, counts = np.array(report.sizes, float).T
    area = 12 + 150 * (counts - 1) / max(counts.max() - 1, 1)
    axes.scatter(widths, heights, s=area, color=BLUE, alpha=0.5, linewidths=0)
    low, high = min(widths.min(), heights.min()) / 2.5, max(widths.max(), heights.max()) * 2.5
    axes.plot([low, high], [low, high], color=HAIRLINE, linewidth=0.8, zorder=0)
    _style_axes(axes, low, high)
    drawing.write(figure, left + SIZE_PANEL - 14, units[1] - 34, "width", SMALL, MUTED, "right")
    drawing.write(figure, left + 46, units[1] + SIZE_PANEL - 54, "height", SMALL, MUTED)


def _style_axes(axes: Any, low: float, high: float) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5), numticks=5))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.tick_params(
        length=0,
        pad=6,
        labelsize=drawing.to_points(SMALL),
        labelcolor=MUTED,
        labelfontfamily=families("0"),
    )
    axes.grid(color=HAIRLINE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)
