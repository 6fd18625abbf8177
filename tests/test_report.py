"""The page holds everything, loads nothing, and shows any name as it is."""

import base64
import csv
import html.parser
import io
import json
import re

import numpy as np
import pytest
from PIL import Image

from keras_vit import report
from keras_vit.evaluation import evaluate, worst_mistakes

ODD_NAMES = ("\u732b \U0001f431", "<b>a & b</b>", '"quoted"', "caf\udcff")
EMPTY_ELEMENTS = {"meta", "img", "br", "path", "use"}


class Page(html.parser.HTMLParser):
    """Reads a page: its text, its elements with their attributes, and whether all were closed."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.words, self.open = [], [], []
        self.feed(text)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in EMPTY_ELEMENTS:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in EMPTY_ELEMENTS:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def scored(num_classes, num_examples, names=None, multi_label=False):
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(num_examples, num_classes))
    labels = generator.integers(0, num_classes, num_examples)
    logits[np.arange(num_examples), labels] += 2
    names = names or [f"class {k}" for k in range(num_classes)]
    if multi_label:
        labels = np.eye(num_classes, dtype=int)[labels]
    return logits, labels, evaluate(logits, labels, names, multi_label=multi_label)


def document_of(result, **changes):
    recipe = {
        "name": "tiny",
        "seed": 0,
        "model": {"hidden_dim": 16},
        "data": {"source": "digits"},
    }
    facts = {
        "split": "test",
        "num_parameters": 1234,
        "splits": {"train": 1257},
        "epochs": 2,
        "train_seconds": 61.0,
        "images_per_second": 50.0,
        "peak_memory_mb": 900,
        "weights_sha256": "ab" * 32,
        "recipe": recipe,
        "versions": {"keras": "3.15.1"},
    }
    return result.to_json() | facts | changes


@pytest.fixture
def run(tmp_path):
    """A run folder with a report and a log."""
    _, _, result = scored(4, 40, ODD_NAMES)
    (tmp_path / "report.json").write_text(json.dumps(document_of(result)))
    with open(tmp_path / "log.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["epoch", "loss", "accuracy", "val_loss", "val_accuracy", "learning_rate"])
        rows.writerows([[1, 2.0, 0.5, 2.1, 0.4, 0.01], [2, 1.0, 0.7, "", 0.6, 0.001]])
    return tmp_path


def page_of(folder):
    return Page((folder / "report.html").read_text(encoding="utf-8"))


def page_for(folder, document, mistakes=()):
    rows = [{"epoch": 1, "loss": 1.0, "val_loss": 2.0}]
    report.write_report(folder, document, rows, mistakes)
    return page_of(folder)


def test_the_page_is_written_from_the_folder_alone(run):
    assert report.write_report(run) == run / "report.html"
    page = page_of(run)
    assert not page.open
    for words in (
        "tiny",
        "1,234 parameters, trained on 1,257 pictures of digits for 2 epochs in 1 min 01 s",
        "Top-1 accuracy",
        "of 40 pictures right",
        f"keras-vit train {run}/recipe.json --out",
        "3.15.1",
        "ab" * 32,
        "hidden dim 16",
    ):
        assert words in page.text, words
    assert [file.name for file in run.iterdir() if file.name.startswith(".")] == []


def test_the_page_needs_no_network_and_no_script(run):
    report.write_report(run)
    text, page = (run / "report.html").read_text(encoding="utf-8"), page_of(run)
    assert not page.all("script") and not page.all("link") and "http:" not in text
    assert "https:" not in text and "@import" not in text
    sources = [value for _, attributes in page.elements for value in [attributes.get("src")]]
    assert all(source.startswith("data:") for source in sources if source)
    (policy,) = [meta["content"] for meta in page.all("meta") if "http-equiv" in meta]
    assert policy.startswith("default-src 'none'")
    links = [attributes.get("xlink:href", "#") for attributes in page.all("use")]
    ids = {attributes.get("id") for _, attributes in page.elements}
    assert all(link == "#" or link.removeprefix("#") in ids for link in links)


def test_names_are_shown_as_they_are_and_never_as_markup(run):
    report.write_report(run)
    page = page_of(run)
    for name in "\u732b \U0001f431", "<b>a & b</b>", '"quoted"', "caf\\xff":
        assert page.text.count(name) >= 2, name


def test_light_dark_and_phone_are_provided_for(run):
    report.write_report(run)
    text = (run / "report.html").read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in text
    assert 'name="viewport" content="width=device-width' in text
    svgs = page_of(run).all("svg")
    assert len(svgs) == 3 and all("width" not in svg for svg in svgs)


def test_a_log_is_read_by_column_with_nan_for_what_was_not_measured(run):
    log = report.read_log(run / "log.csv")
    assert list(log)[:2] == ["epoch", "loss"] and log["loss"] == [2.0, 1.0]
    np.testing.assert_array_equal(log["val_loss"], [2.1, np.nan])


@pytest.mark.parametrize("name", ["report.json", "log.csv"])
def test_a_missing_file_is_named(run, name):
    (run / name).unlink()
    with pytest.raises(ValueError, match=f"{name}: no such file"):
        report.write_report(run)
    assert not (run / "report.html").exists()


def test_a_small_matrix_is_a_table_with_every_count(run):
    _, _, result = scored(4, 40)
    page = page_for(run, document_of(result))
    cells = [attributes for attributes in page.all("td") if "--o" in attributes.get("style", "")]
    assert len(cells) == np.count_nonzero(result.confusion)
    right = [cell for cell in cells if cell["class"].startswith("right")]
    assert len(right) == np.count_nonzero(result.confusion.diagonal())


def test_a_thousand_classes_are_a_picture_and_a_short_list(run):
    names = [f"n{k:04}" for k in range(1000)]
    _, _, result = scored(1000, 2000, names)
    page = page_for(run, document_of(result))
    (picture,) = page.all("img")
    data = base64.b64decode(picture["src"].removeprefix("data:image/png;base64,"))
    with Image.open(io.BytesIO(data)) as image:
        assert image.mode == "RGBA" and image.size == (250, 250)
    assert "The 20 of 1,000 classes with the lowest F1." in page.text
    assert len(page.all("details")) == 1 and page.text.count("taken for") == 10
    assert all(name in page.text for name in names)


def test_mistakes_are_shown_with_their_pictures(run):
    logits, labels, result = scored(4, 40, ODD_NAMES)
    worst = worst_mistakes(logits, labels, ODD_NAMES, [f"{k}.jpg" for k in range(40)], limit=3)
    generator = np.random.default_rng(0)
    small, large = generator.integers(0, 256, (8, 8, 1)), generator.uniform(0, 255, (200, 150, 3))
    mistakes = list(zip(worst, [small, large, small], strict=True))
    page = page_for(run, document_of(result), mistakes)
    pictures = []
    for attributes in page.all("img"):
        data = base64.b64decode(attributes["src"].partition("base64,")[2])
        with Image.open(io.BytesIO(data)) as image:
            pictures.append(np.asarray(image))
    assert [picture.shape for picture in pictures] == [(8, 8), (200, 150, 3), (8, 8)]
    np.testing.assert_array_equal(pictures[0], small[:, :, 0])
    assert f"said {worst[0].predicted} {100 * worst[0].probability:.0f} %" in page.text
    assert f"is {worst[0].true}" in page.text and worst[0].name in page.text


def test_a_multi_label_report_has_its_own_scores_and_no_matrix(run):
    _, _, result = scored(3, 30, multi_label=True)
    page = page_for(run, document_of(result))
    assert "Mean average precision" in page.text and "Average precision" in page.text
    assert "Top-1" not in page.text and "Confusion" not in page.text


def test_a_run_without_a_split_to_evaluate_has_a_page_too(run):
    _, _, result = scored(3, 30)
    document = document_of(result, split=None)
    for key in ("top1", "top5", "nll", "ece", "per_class", "confusion", "class_names"):
        del document[key]
    page = page_for(run, document)
    assert "1,234 parameters" in page.text and "Top-1" not in page.text


def test_the_page_shows_each_number_of_each_class(run):
    _, _, result = scored(4, 40)
    page = page_for(run, document_of(result))
    for row in result.per_class:
        shares = " ".join(f"{100 * row[key]:.1f} %" for key in ("precision", "recall", "f1"))
        assert re.search(f"{row['class']} {shares} {row['support']}", page.text)
