"""Curves are readable with one epoch and with hundreds, and say what they end at."""

import re

import matplotlib.axes
import numpy as np
import pytest
from PIL import Image

from keras_vit import charts


def history(epochs):
    steps = np.arange(1, epochs + 1)
    loss = 2 / steps
    return {
        "epoch": steps.tolist(),
        "loss": loss.tolist(),
        "accuracy": (1 - 0.9 / steps).tolist(),
        "val_loss": (loss + 0.1).tolist(),
        "val_accuracy": (0.95 - 0.9 / steps).tolist(),
        "learning_rate": (0.01 / steps).tolist(),
        "seconds": (steps * 0 + 1.5).tolist(),
    }


def names(panels):
    return [panel.name for panel in panels]


def texts(svg):
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


@pytest.mark.parametrize("epochs", [1, 2, 300])
def test_curves_of_any_length_are_drawn(tmp_path, epochs):
    charts.draw_curves(history(epochs), tmp_path / "curves.png")
    with Image.open(tmp_path / "curves.png") as image:
        assert image.size == (3 * charts.WIDTH * 2, charts.HEIGHT * 2)


def test_one_panel_for_each_quantity_and_none_for_times():
    assert names(charts.list_panels(history(3))) == ["loss", "accuracy", "learning_rate"]


def test_another_metric_has_a_panel_when_validation_has_it_too():
    columns = {"loss": [1.0], "f1_score": [0.5], "val_f1_score": [0.4], "grad_norm": [3.0]}
    panels = charts.list_panels(columns)
    assert names(panels) == ["loss", "f1_score"]
    assert panels[1].title == "F1 score" and panels[1].note == "best validation 40.0 %, epoch 1"


def test_keras_own_history_has_no_epochs_and_counts_from_one():
    panel = charts.list_panels({"loss": [3.0, 1.0, 2.0]})[0]
    assert panel.train.epochs.tolist() == [1, 2, 3]
    assert panel.note == "lowest 1, epoch 2"


def test_the_note_judges_by_validation():
    loss, accuracy, rate = charts.list_panels(history(4))
    assert loss.note == "lowest validation 0.6, epoch 4"
    assert accuracy.note == "best validation 72.5 %, epoch 4"
    assert rate.note == "highest 0.01, epoch 1"


def test_epochs_without_a_number_are_left_out_and_the_rest_joined():
    columns = history(4) | {"val_loss": [np.nan, 2.0, np.inf, 1.0]}
    panel = charts.list_panels(columns)[0]
    assert panel.validation.epochs.tolist() == [2, 4]
    assert panel.validation.values.tolist() == [2.0, 1.0]


def test_curves_are_drawn_through_the_given_points(monkeypatch):
    drawn, plot = [], matplotlib.axes.Axes.plot
    monkeypatch.setattr(
        matplotlib.axes.Axes,
        "plot",
        lambda axes, x, y, **style: drawn.append((list(x), list(y))) or plot(axes, x, y, **style),
    )
    columns = history(5)
    charts.panel_svg(charts.list_panels(columns)[0])
    epochs = [1, 2, 3, 4, 5]
    assert drawn == [(epochs, columns["loss"]), (epochs, columns["val_loss"])]


def test_a_panel_names_its_curves_and_their_last_values():
    written = texts(charts.panel_svg(charts.list_panels(history(10))[0]))
    assert {"Loss", "train", "validation", "0.2", "0.3", "epoch"} <= set(written)
    alone = texts(charts.panel_svg(charts.list_panels({"loss": [2.0, 1.5]})[0]))
    assert "1.5" in alone and "train" not in alone


def test_last_values_do_not_overlap():
    columns = {"loss": [1.0, 0.5], "val_loss": [1.0, 0.5001]}
    svg = charts.panel_svg(charts.list_panels(columns)[0])
    heights = [float(y) for y in re.findall(r' y="([0-9.]+)"[^>]*>0\.5<', svg)]
    assert len(heights) >= 2
    assert min(np.diff(sorted(heights))) > 7


def test_an_svg_takes_colors_and_letters_from_the_page_and_nothing_from_a_network():
    svg = charts.panel_svg(charts.list_panels(history(3))[1])
    assert svg.startswith("<svg ") and svg.rstrip().endswith("</svg>")
    assert "var(--blue)" in svg and "var(--muted)" in svg and "http" not in svg
    assert not re.search("#[0-9a-f]{6}|font-family", svg)
    assert svg == charts.panel_svg(charts.list_panels(history(3))[1])


def test_a_loss_over_many_magnitudes_is_on_a_logarithmic_scale():
    ticks = texts(charts.panel_svg(charts.list_panels({"loss": [10.0, 0.1, 1e-3]})[0]))
    assert {"10", "0.1", "0.001"} <= set(ticks)


def test_a_constant_or_zero_column_is_drawn():
    for value in 0.0, 1.0, -2.5:
        assert charts.panel_svg(charts.list_panels({"loss": [value] * 3})[0])


@pytest.mark.parametrize("columns", [{}, {"loss": [np.nan]}, {"epoch": [1], "seconds": [2.0]}])
def test_nothing_to_draw_is_refused(columns):
    with pytest.raises(ValueError, match=rf"finite numbers to draw.*{'|'.join(columns)}"):
        charts.list_panels(columns)


def test_columns_of_unlike_length_are_refused():
    with pytest.raises(ValueError, match="expected 2 values of val_loss, got 1"):
        charts.list_panels({"loss": [1.0, 2.0], "val_loss": [1.0]})
