"""The matrix is readable for two classes and for a thousand, and tells right from wrong."""

import dataclasses

import matplotlib.figure
import numpy as np
import pytest
from PIL import Image

from keras_vit import confusion
from keras_vit.evaluation import evaluate


def report_of(counts, names=None):
    """Make a report with the given counts."""
    pairs = [(i, j) for (i, j), n in np.ndenumerate(counts) for _ in range(n)]
    labels = np.array([i for i, _ in pairs])
    logits = np.eye(len(counts))[[j for _, j in pairs]]
    return evaluate(logits, labels, names or [f"class {i}" for i in range(len(counts))])


@pytest.fixture
def written(monkeypatch):
    texts, figure_text = [], matplotlib.figure.Figure.text

    def text(figure, x, y, string, **options):
        texts.append(string)
        return figure_text(figure, x, y, string, **options)

    monkeypatch.setattr(matplotlib.figure.Figure, "text", text)
    return texts


def test_counts_and_names_are_written_while_classes_are_few(tmp_path, written):
    counts = np.array([[11, 2], [0, 37]])
    confusion.draw_confusion(report_of(counts, ["\u732b", "$dog$"]), tmp_path / "c.png")
    assert {"11", "2", "37"} <= set(written) and "0" not in written
    assert written.count("$dog$") == 2


def test_many_classes_have_names_but_no_counts(tmp_path, written):
    confusion.draw_confusion(report_of(np.eye(30, dtype=int) * 7), tmp_path / "c.png")
    assert written.count("class 29") == 2 and "7" not in written
    assert "100 %" in written


def test_a_thousand_classes_are_numbered_and_a_single_mistake_is_seen(tmp_path, written):
    counts = np.eye(1000, dtype=int)
    counts[700, 200] = 1
    confusion.draw_confusion(report_of(counts), tmp_path / "c.png")
    assert {"0", "500", "900"} <= set(written) and "class 0" not in written
    with Image.open(tmp_path / "c.png") as image:
        pixels = np.asarray(image.convert("RGB")).astype(int)
    matrix = pixels[: -2 * 60]  # without the key of colours below
    red = (matrix[:, :, 0] - matrix[:, :, 2] > 60).sum()
    assert red == 2 * 2


def test_long_names_are_cut_and_large_counts_shortened(tmp_path, written):
    report = report_of(np.eye(2, dtype=int), ["x" * 300, "y"])
    many = dataclasses.replace(report, confusion=np.array([[1_234_567, 999], [9_876_543_210, 0]]))
    confusion.draw_confusion(many, tmp_path / "c.png")
    assert sum(text.startswith("xxx") and text.endswith("...") for text in written) == 2
    assert {"1235k", "999", "9877M"} <= set(written)


def test_colors_are_blue_on_the_diagonal_red_beside_and_grow_with_the_share():
    colors = confusion.heat(np.array([[8, 2, 0], [0, 5, 5], [0, 0, 0]]))
    assert (colors[0, 0, :3] == confusion.RIGHT).all() and (
        colors[0, 1, :3] == confusion.WRONG
    ).all()
    opacity = colors[:, :, 3]
    assert opacity[0, 0] > opacity[1, 1] == opacity[1, 2] > opacity[0, 1] > 0
    assert opacity[0, 2] == opacity[2, 2] == 0
    assert confusion.heat(np.array([[5, 0], [0, 3]]))[0, 0, 3] == 255


def test_pooled_cells_keep_the_fullest():
    colors = np.zeros((5, 5, 4))
    colors[4, 1], colors[0, 0], colors[1, 1] = [1, 1, 1, 90], [2, 2, 2, 50], [3, 3, 3, 60]
    pooled = confusion.pool(colors, 3)
    assert pooled.shape == (3, 3, 4)
    assert pooled[2, 0].tolist() == [1, 1, 1, 90] and pooled[0, 0].tolist() == [3, 3, 3, 60]
    assert pooled[:, :, 3].sum() == 150
    np.testing.assert_array_equal(confusion.pool(colors, 5), colors)


def test_a_report_without_a_matrix_is_refused(tmp_path):
    report = evaluate(np.zeros((2, 3)), np.eye(3)[:2], ["a", "b", "c"], multi_label=True)
    with pytest.raises(ValueError, match=r"confusion matrix, got one without.*\(3\)"):
        confusion.draw_confusion(report, tmp_path / "c.png")
