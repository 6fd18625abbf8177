"""The picture of a data source."""

from dataclasses import replace

import pytest
from PIL import Image

from keras_vit.data import SourceReport
from keras_vit.source_chart import draw_source


def make_report(num_classes=3, **changes):
    names = [f"class {i}" for i in range(num_classes)]
    report = SourceReport(
        source="folder:/pictures",
        num_images=6 * num_classes,
        counts={"train": dict.fromkeys(names, 5), "validation": dict.fromkeys(names, 1)},
        imbalance=1.0,
        nearly_empty=[],
        formats={"JPEG": 6 * num_classes},
        widths=(10, 20, 400),
        heights=(10, 30, 500),
        num_sizes=2,
        sizes=[(20, 30, 10), (400, 500, 1)],
        pixel_mean=(1.0, 2.0, 3.0),
        pixel_std=(4.0, 5.0, 6.0),
        duplicates_across_labels=[],
        duplicates_across_splits=[],
        num_duplicates=0,
        unreadable=[],
        notes=[],
    )
    return replace(report, **changes)


@pytest.fixture
def draw(tmp_path):
    def draw_and_read(report):
        draw_source(report, tmp_path / "source.png")
        with Image.open(tmp_path / "source.png") as image:
            return image.convert("RGB")

    return draw_and_read


def count_red(image):
    return sum(r > 180 and g < 110 and b < 80 for r, g, b in image.get_flattened_data())


def test_what_is_amiss_is_written_in_red(draw):
    assert count_red(draw(make_report())) == 0
    one = count_red(draw(make_report(unreadable=["x.jpg: empty"])))
    two = count_red(draw(make_report(unreadable=["x.jpg"], duplicates_across_labels=[["a", "b"]])))
    assert 0 < one < two


def test_many_classes_take_no_more_room_than_those_that_are_drawn(draw):
    assert draw(make_report(25)).height == draw(make_report(1000)).height


@pytest.mark.parametrize(
    "changes",
    [
        {"sizes": [], "formats": {}, "num_images": 0, "widths": (0, 0, 0), "heights": (0, 0, 0)},
        {"num_sizes": 1, "sizes": [(8, 8, 18)]},
        {"counts": {"train": {"\u732b $x$ " * 20: 0, "b\udcff": 0}}},
    ],
    ids=["nothing", "one size", "odd names"],
)
def test_odd_reports_are_drawn_too(draw, changes):
    assert min(draw(make_report(**changes)).size) > 100
