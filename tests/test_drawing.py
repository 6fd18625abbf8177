"""The grid shows every picture, pixel for pixel where it is small, with its names."""

import matplotlib.figure
import numpy as np
import pytest
from PIL import Image

from keras_vit import drawing

ODD = "\u732b \U0001f431 $x^{ \\frac a <b> & \udcff \u0645"


def drawn(path):
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def noise(height, width, channels=3, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), np.uint8)


@pytest.fixture
def written(monkeypatch):
    """Collect every text written on a figure."""
    texts, figure_text = [], matplotlib.figure.Figure.text

    def text(figure, x, y, string, **options):
        texts.append(string)
        return figure_text(figure, x, y, string, **options)

    monkeypatch.setattr(matplotlib.figure.Figure, "text", text)
    return texts


def test_a_small_picture_is_enlarged_pixel_for_pixel(tmp_path):
    picture = noise(8, 6)
    drawing.draw_grid([picture], ["name"], tmp_path / "grid.png")
    times = drawing.TILE // 8 * drawing.PIXELS_PER_UNIT
    start = drawing.MARGIN * drawing.PIXELS_PER_UNIT
    page = drawn(tmp_path / "grid.png")
    part = page[start : start + 8 * times, start : start + 6 * times]
    np.testing.assert_array_equal(part, picture.repeat(times, axis=0).repeat(times, axis=1))


def test_one_channel_is_shown_grey_and_values_are_rounded_and_clipped(tmp_path):
    picture = np.array([[-3.0, 99.6], [200.2, 300.0]])[:, :, None]
    drawing.draw_grid([picture], ["name"], tmp_path / "grid.png")
    start, side = drawing.MARGIN * drawing.PIXELS_PER_UNIT, 72 * drawing.PIXELS_PER_UNIT
    page = drawn(tmp_path / "grid.png")[start + 9 :, start + 9 :]
    corners = page[[0, 0, side, side], [0, side, 0, side]]
    assert corners.tolist() == [[0] * 3, [100] * 3, [200] * 3, [255] * 3]


def test_pictures_of_any_size_fit_and_stay_in_order(tmp_path):
    colors = [(250, 0, 0), (0, 250, 0), (0, 0, 250)]
    sizes = [(700, 500), (4, 400), (400, 4)]
    pictures = [np.full((*s, 3), c, np.uint8) for s, c in zip(sizes, colors, strict=True)]
    drawing.draw_grid(pictures, ["a", "b", "c"], tmp_path / "grid.png")
    page = drawn(tmp_path / "grid.png").astype(int)
    lefts = []
    for color in colors:
        rows, columns = np.nonzero(np.abs(page - color).sum(axis=2) < 9)
        longest = drawing.LARGEST_TILE * drawing.PIXELS_PER_UNIT
        assert max(np.ptp(rows), np.ptp(columns)) + 1 == longest
        lefts.append(columns.min())
    assert lefts == sorted(lefts)


def test_all_names_and_the_heading_are_written(tmp_path, written):
    pictures = [noise(8, 8, 1)] * 3
    drawing.draw_grid(
        pictures,
        ["ant", "bee", "cat"],
        tmp_path / "grid.png",
        file_names=["1.jpg", "2.jpg", "a/very/long/path/to/a/picture/number/3.jpg"],
        heading="training",
    )
    assert {"ant", "bee", "cat", "1.jpg", "2.jpg", "training"} <= set(written)
    assert written[-1].startswith("...") and written[-1].endswith("3.jpg")


def test_names_in_any_script_are_drawn_without_a_warning(tmp_path, written):
    drawing.draw_grid([noise(224, 224)], [ODD], tmp_path / "grid.png", [ODD], heading=ODD)
    assert "$x^{ \\frac a <b> &" in written[0]


@pytest.mark.parametrize("count, columns", [(1, 1), (2, 2), (3, 3), (7, 4), (10, 5)])
def test_the_last_row_is_full_where_it_can_be(tmp_path, count, columns):
    drawing.draw_grid([noise(8, 8)] * count, [""] * count, tmp_path / "grid.png")
    width = drawn(tmp_path / "grid.png").shape[1] // drawing.PIXELS_PER_UNIT
    step = drawing.TILE + drawing.GAP
    assert width == 2 * drawing.MARGIN - drawing.GAP + columns * step


@pytest.mark.parametrize(
    "images, titles, message",
    [
        ([], [], "at least one image to draw, got none"),
        ([noise(8, 8)], ["a", "b"], "a text for each of 1 images, got 2"),
        ([noise(8, 8), noise(8, 8)[:, :, 0]], ["a", "b"], r"image 1: .*got \(8, 8\)"),
        ([noise(8, 8, 4)], ["a"], r"image 0: .*got \(8, 8, 4\)"),
        ([np.full((8, 8, 3), np.nan)], ["a"], "image 0: expected values in .* got nan"),
    ],
)
def test_what_cannot_be_drawn_is_refused(tmp_path, images, titles, message):
    with pytest.raises(ValueError, match=message):
        drawing.draw_grid(images, titles, tmp_path / "grid.png")
    assert not list(tmp_path.iterdir())


def test_a_name_that_is_no_kind_of_picture_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"grid\.xyz: expected a name that ends in one of .*png"):
        drawing.draw_grid([noise(8, 8)], ["a"], tmp_path / "grid.xyz")
    assert not list(tmp_path.iterdir())


def test_a_new_folder_is_made_and_nothing_stays_beside_the_picture(tmp_path):
    drawing.draw_grid([noise(8, 8)], ["a"], tmp_path / "new" / "grid.png")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["grid.png"]
