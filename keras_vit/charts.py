"""Draw how a training went: loss, metrics and learning rate over the epochs, one panel each."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_vit import drawing
from keras_vit.drawing import BLUE, HAIRLINE, INK, LARGE, MARGIN, MUTED, PAPER, SMALL
from keras_vit.lettering import families

WIDTH, HEIGHT = 330, 264  # of a panel
LEFT, RIGHT, BOTTOM, TOP = 66, 66, 42, 72  # what a panel keeps free around its curves
STEPS = (1, 2, 2.5, 5, 10)  # between the marks of a scale
LINE = 14  # between two lines of small letters
MOST_DOTTED = 30  # epochs up to which each has a dot
LOGARITHMIC_FROM = 100  # a loss that falls by this factor is drawn on a logarithmic scale
TITLES = {"loss": "Loss", "accuracy": "Accuracy", "learning_rate": "Learning rate"}
NO_METADATA = dict.fromkeys(["Creator", "Date", "Format", "Type"])
PAGE_COLORS = {INK: "ink", MUTED: "muted", HAIRLINE: "line", BLUE: "blue", PAPER: "paper"}


class Curve(NamedTuple):
    """One column of the log, without the epochs in which it has no finite number."""

    epochs: np.ndarray
    values: np.ndarray


class Panel(NamedTuple):
    """The curves of one quantity; `validation` is empty where it was not measured."""

    name: str
    train: Curve
    validation: Curve

    @property
    def title(self) -> str:
        """The name as a person reads it."""
        return TITLES.get(self.name, self.name.replace("_", " ").capitalize())

    @property
    def judged(self) -> Curve:
        """The curve that counts: validation where there is one."""
        return self.validation if len(self.validation.values) else self.train

    @property
    def best(self) -> int:
        """The position in the judged curve of the lowest loss or the highest other value."""
        values = self.judged.values
        return int(values.argmin() if self.name == "loss" else values.argmax())

    @property
    def note(self) -> str:
        """What to notice: the best value and its epoch."""
        word = {"loss": "lowest", "learning_rate": "highest"}.get(self.name, "best")
        kind = " validation" if len(self.validation.values) else ""
        epoch, value = self.judged.epochs[self.best], self.judged.values[self.best]
        return f"{word}{kind} {self.number(value)}, epoch {epoch:g}"

    def number(self, value: float) -> str:
        """Return a value as a person reads it: a share in percent, else three digits."""
        return f"{100 * value:.1f} %" if self.as_percent else f"{value:.3g}"

    def tick(self, value: float) -> str:
        """Return a round value of the scale."""
        return f"{100 * value:.4g} %" if self.as_percent else f"{value:.3g}"

    @property
    def limits(self) -> tuple[float, float]:
        """The lowest and the highest value of both curves; a learning rate starts from 0."""
        values = np.concatenate([self.train.values, self.validation.values])
        return 0.0 if self.name == "learning_rate" else values.min(), values.max()

    @property
    def as_percent(self) -> bool:
        """Whether the quantity is a share of something."""
        low, high = self.limits
        return self.name not in ("loss", "learning_rate") and 0 <= low <= high <= 1


def draw_curves(history: Mapping[str, Sequence[float]], path: str | os.PathLike) -> None:
    """Draw loss, metrics and learning rate side by side.

    Args:
        history: Columns of `log.csv`, or Keras' `History.history`.
        path: Where to write; the ending chooses the format.

    Raises:
        ValueError: If there is nothing to draw.
    """
    panels = list_panels(history)
    figure = drawing.new_figure(WIDTH * len(panels), HEIGHT)
    for position, panel in enumerate(panels):
        _draw_panel(figure, panel, WIDTH * position)
    drawing.save(figure, path)


def panel_svg(panel: Panel) -> str:
    """Draw one panel as an SVG element that takes its colours and letters from a page."""
    import matplotlib

    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": panel.name}):
        figure, stream = drawing.new_figure(WIDTH, HEIGHT), io.StringIO()
        _draw_panel(figure, panel, 0)
        figure.savefig(stream, format="svg", transparent=True, metadata=NO_METADATA)
    svg = stream.getvalue()
    svg = re.sub(r' id="[a-z0-9_.]+_[0-9]+"', "", svg[svg.index("<g") :])
    svg = re.sub(r" font-family: [^;]+;", "", svg)
    for color, name in PAGE_COLORS.items():
        svg = svg.replace(color, f"var(--{name})")
    # Only what is drawn, so that the page's own margins hold; lengths in the file are points.
    view = [drawing.to_points(unit) for unit in (MARGIN, 16, WIDTH - MARGIN - 12, HEIGHT - 32)]
    return f'<svg viewBox="{" ".join(f"{point:.1f}" for point in view)}">{svg}'


def list_panels(history: Mapping[str, Sequence[float]]) -> list[Panel]:
    """Choose what to draw: the loss, each metric with its validation twin, the learning rate.

    Raises:
        ValueError: If no column has a finite number, or a column has another length than others.
    """
    epochs = history.get("epoch")
    if epochs is None:
        epochs = range(1, 1 + max(map(len, history.values()), default=0))
    metrics = [name for name in history if name == "accuracy" or f"val_{name}" in history]
    panels = [
        Panel(name, _curve(history, epochs, name), _curve(history, epochs, f"val_{name}"))
        for name in dict.fromkeys(["loss", *metrics, "learning_rate"])
    ]
    panels = [panel for panel in panels if len(panel.judged.values)]
    if not panels:
        raise ValueError(f"expected finite numbers to draw, the columns are {list(history)}")
    return panels


def _curve(history: Mapping[str, Sequence[float]], epochs: Sequence[float], name: str) -> Curve:
    values = np.asarray(history.get(name, ()), np.float64)
    if name in history and len(values) != len(epochs):
        raise ValueError(f"expected {len(epochs)} values of {name}, got {len(values)}")
    measured = np.flatnonzero(np.isfinite(values))
    return Curve(np.asarray(epochs, np.float64)[measured], values[measured])


def _draw_panel(figure: Any, panel: Panel, x: float) -> None:
    left, right = x + LEFT, x + WIDTH - RIGHT
    drawing.write(figure, x + MARGIN, HEIGHT - 34, panel.title, LARGE, bold=True)
    drawing.write(figure, x + MARGIN, HEIGHT - 53, panel.note, SMALL, MUTED)
    drawing.write(figure, left - 8, BOTTOM - 16.5, "epoch", SMALL, MUTED, align="right")
    box = np.array([left, BOTTOM, right - left, HEIGHT - BOTTOM - TOP]) / drawing.UNITS_PER_INCH
    axes = figure.add_axes(box / np.tile(figure.get_size_inches(), 2))
    curves = _colored_curves(panel)
    for _, curve, color in curves:
        dot = "o" if len(curve.values) <= MOST_DOTTED else ""
        axes.plot(*curve, color=color, linewidth=1.4, marker=dot, markersize=3.5, clip_on=False)
    _style_axes(axes, panel)
    _name_curves(figure, axes, panel, curves, right)


def _colored_curves(panel: Panel) -> list[tuple[str, Curve, str]]:
    if not len(panel.validation.values):
        return [("", panel.train, BLUE)]
    both = [("train", panel.train, MUTED), ("validation", panel.validation, BLUE)]
    return [entry for entry in both if len(entry[1].values)]


def _style_axes(axes: Any, panel: Panel) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    epochs = np.concatenate([panel.train.epochs, panel.validation.epochs])
    one_epoch = 0.5 * (epochs.min() == epochs.max())
    axes.set_xlim(epochs.min() - one_epoch, epochs.max() + one_epoch)
    low, high = panel.limits
    logarithmic = panel.name == "loss" and 0 < low * LOGARITHMIC_FROM < high
    room = 0.0 if logarithmic else 0.06 * (high - low) or 0.1 * abs(high) or 1.0
    axes.set_yscale("log" if logarithmic else "linear")
    axes.set_ylim(low - room, min(high + room, 1.0) if panel.as_percent else high + room)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1, steps=STEPS))
    axes.yaxis.set_major_locator(LogLocator() if logarithmic else MaxNLocator(4, steps=STEPS))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(lambda value, _: panel.tick(value))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.tick_params(
        length=0,
        pad=6,
        labelsize=drawing.to_points(SMALL),
        labelcolor=MUTED,
        labelfontfamily=families("0"),
    )
    axes.patch.set_visible(False)
    axes.grid(axis="y", color=HAIRLINE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)


def _name_curves(
    figure: Any, axes: Any, panel: Panel, curves: list[tuple[str, Curve, str]], right: float
) -> None:
    """Write each curve's last value at its end, and its name in its colour above the panel."""
    heights = [axes.transData.transform((0, curve.values[-1]))[1] for _, curve, _ in curves]
    ends = [height / drawing.PIXELS_PER_UNIT for height in heights]
    if len(ends) == 2 and abs(ends[0] - ends[1]) < LINE:
        middle, sign = sum(ends) / 2, 1 if ends[0] >= ends[1] else -1
        ends = [middle + sign * LINE / 2, middle - sign * LINE / 2]
    edge = right + RIGHT - MARGIN
    for (_, curve, color), end in zip(curves, ends, strict=True):
        drawing.write(figure, right + 10, end - 4, panel.number(curve.values[-1]), SMALL, color)
    for name, _, color in reversed(curves):
        drawing.write(figure, edge, HEIGHT - 34, name, SMALL, color, align="right")
        edge -= drawing.text_width(name, SMALL) + 12
