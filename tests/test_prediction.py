"""Each picture gets its own answer, in order, whatever stands beside it."""

import csv
import io
import json
import os
import threading

import keras
import numpy as np
import pytest
from PIL import Image

from keras_vit import prediction
from keras_vit.checkpoint import wrap
from keras_vit.images import Preprocessing, preprocess, read_image
from keras_vit.model import ViTConfig, build_vit
from keras_vit.prediction import Failure, Prediction, predict, predict_stream

NAMES = ("red", "green", "blue")
SIZE = 4


class MeanColor:
    """Answers with a picture's mean red, green and blue, and counts what it is asked."""

    class_names = NAMES
    preprocessing = Preprocessing(image_size=SIZE)

    def __init__(self, multi_label=False, scale=0.01):
        self.multi_label = multi_label
        self.scale = scale
        self.shapes = []

    def predict_batch(self, pixels):
        self.shapes.append(pixels.shape)
        assert pixels.dtype == np.float32
        return pixels.mean(axis=(1, 2)) * self.scale


def solid(*color, size=(5, 7)):
    return np.full((*size, 3), color, np.uint8)


def write_png(path, *color):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(solid(*color)).save(path)
    return str(path)


@pytest.fixture
def files(tmp_path):
    """Eleven files, two of them bad, with the class each should get."""
    expected = {}
    for number in range(11):
        path = tmp_path / f"{number:02}.png"
        color = np.eye(3, dtype=int)[number % 3] * 200
        expected[write_png(path, *color)] = NAMES[number % 3]
    for bad, content in ("03.png", b""), ("08.png", b"no picture at all, only words"):
        (tmp_path / bad).write_bytes(content)
        expected[str(tmp_path / bad)] = None
    return expected


def classes(answers):
    return {answer.path: getattr(answer, "class_name", None) for answer in answers}


@pytest.mark.parametrize("batch_size", [1, 2, 3, 4, 11, 64])
def test_a_bad_file_shifts_nothing_whatever_the_batch(files, batch_size):
    answers = predict(MeanColor(), list(files), batch_size=batch_size)
    assert [answer.path for answer in answers] == list(files)
    assert classes(answers) == files
    assert sum(isinstance(answer, Failure) for answer in answers) == 2


def test_a_failure_gives_the_reason_without_repeating_the_path(files):
    empty, words = [a for a in predict(MeanColor(), list(files)) if isinstance(a, Failure)]
    assert empty.path.endswith("03.png") and "empty" in empty.reason
    assert words.path not in words.reason and "03.png" not in empty.reason


def test_a_missing_file_is_a_failure(tmp_path):
    (answer,) = predict(MeanColor(), tmp_path / "gone.png")
    assert isinstance(answer, Failure) and answer.path == str(tmp_path / "gone.png")


def test_the_model_sees_one_shape_only(files):
    model = MeanColor()
    predict(model, list(files), batch_size=4)
    assert set(model.shapes) == {(4, SIZE, SIZE, 3)}


@pytest.mark.parametrize("num_pictures, shape_size", [(1, 1), (3, 4), (5, 8), (30, 32), (33, 32)])
def test_few_pictures_are_not_filled_up_to_a_whole_batch(num_pictures, shape_size):
    model = MeanColor()
    assert len(predict(model, [solid(9, 9, 9)] * num_pictures, batch_size=32)) == num_pictures
    assert {shape[0] for shape in model.shapes} == {shape_size}


def test_nothing_is_asked_of_the_model_when_no_picture_can_be_read():
    model = MeanColor()
    answers = predict(model, [b"", b"x"])
    assert [answer.path for answer in answers] == ["bytes[0]", "bytes[1]"]
    assert all(isinstance(answer, Failure) for answer in answers) and not model.shapes


def test_path_bytes_and_array_of_one_picture_get_the_same_logits(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (9, 6, 3), np.uint8)
    path = tmp_path / "noise.png"
    Image.fromarray(pixels).save(path)
    answers = predict(MeanColor(), [path, str(path), path.read_bytes(), pixels])
    assert [answer.path for answer in answers] == [str(path)] * 2 + ["bytes[2]", "array[3]"]
    expected = np.asarray(preprocess(pixels, MeanColor.preprocessing)).mean(axis=(0, 1)) * 0.01
    for answer in answers:
        np.testing.assert_allclose(answer.logits, expected, rtol=1e-6)


def test_grey_arrays_and_stacks_of_arrays_are_pictures():
    grey = np.full((3, 5), 77, np.uint8)
    for images in grey, grey[:, :, None], np.stack([solid(77, 77, 77)] * 2):
        for answer in predict(MeanColor(), images):
            np.testing.assert_allclose(answer.logits, [0.77] * 3, rtol=1e-6)
    assert len(predict(MeanColor(), np.zeros((4, 6, 6, 3), np.uint8))) == 4


@pytest.mark.parametrize(
    "images, message",
    [
        (np.zeros((5, 5, 3), np.float32), "image 0: expected a uint8 array .*got float32"),
        ([solid(1, 2, 3), np.zeros((5, 5, 4), np.uint8)], r"image 1: .*got uint8 of shape \(5, 5"),
        (np.zeros((9, 28, 28), np.uint8), r"image 0: .*of shape \(9, 28, 28\)"),
        (np.zeros((0, 5, 3), np.uint8), r"image 0: .*of shape \(0, 5, 3\)"),
        ([None], "image 0: expected a path, bytes or an array, got NoneType"),
        (5, "image 0: .*got int"),
        (Image.new("P", (3, 3)), "image 0: .*got Image"),
    ],
)
def test_what_is_no_picture_is_refused(images, message):
    with pytest.raises(ValueError, match=message):
        predict(MeanColor(), images)


def test_arguments_without_meaning_are_refused_before_anything_is_read():
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        predict_stream(MeanColor(), ["a"], batch_size=0)
    with pytest.raises(ValueError, match="top must be at least 1, got -1"):
        predict_stream(MeanColor(), ["a"], top=-1)


def test_a_folder_is_walked_in_order_without_hidden_files(tmp_path):
    wanted = [write_png(tmp_path / name, 9, 9, 9) for name in ("a/2.png", "a/b/1.png", "c.png")]
    for hidden in (".hidden.png", "Thumbs.db", ".git/x.png", "__MACOSX/y.png"):
        write_png(tmp_path / (hidden + ".png"), 9, 9, 9).removesuffix(".png")
        os.rename(tmp_path / (hidden + ".png"), tmp_path / hidden)
    (tmp_path / "d.txt").write_text("not a picture")
    (tmp_path / "empty").mkdir()
    answers = predict(MeanColor(), tmp_path)
    assert [answer.path for answer in answers] == [*wanted, str(tmp_path / "d.txt")]
    assert isinstance(answers[-1], Failure)


def test_a_folder_with_nothing_in_it_is_a_failure(tmp_path):
    (tmp_path / "deep" / "deeper").mkdir(parents=True)
    assert predict(MeanColor(), [str(tmp_path)]) == [
        Failure(str(tmp_path), "the folder has no files")
    ]


def test_links_are_followed_but_never_in_a_circle(tmp_path):
    real = write_png(tmp_path / "real" / "1.png", 9, 9, 9)
    (tmp_path / "real" / "up").symlink_to(tmp_path)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "real")
    paths = [answer.path for answer in predict(MeanColor(), tmp_path / "real")]
    assert real in paths and len(paths) < 10
    (tmp_path / "real" / "up").unlink()
    assert classes(predict(MeanColor(), tmp_path / "tree")).keys() == {
        str(tmp_path / "tree" / "link" / "1.png")
    }


def test_a_folder_that_cannot_be_listed_is_a_failure(tmp_path, monkeypatch):
    def refuse(folder):
        raise PermissionError(13, "Permission denied", folder)

    monkeypatch.setattr(os, "listdir", refuse)
    assert predict(MeanColor(), tmp_path) == [
        Failure(str(tmp_path), "the folder cannot be read: Permission denied")
    ]


def test_an_endless_stream_is_read_only_a_little_ahead():
    taken = []

    def endless():
        while True:
            taken.append(0)
            yield solid(200, 0, 0)

    answers = predict_stream(MeanColor(), endless(), batch_size=4)
    for _ in range(40):
        assert next(answers).class_name == "red"
    assert len(taken) <= 40 + 2 * (4 + 2 * prediction.NUM_THREADS)
    before = {thread for thread in threading.enumerate() if "ThreadPool" in thread.name}
    answers.close()
    assert before and not any(thread.is_alive() for thread in before)


def test_reading_goes_on_while_the_model_computes(monkeypatch):
    computing, read_meanwhile = threading.Event(), threading.Event()

    def read_later_ones_during_the_first_batch(pixels, rules):
        if pixels[0, 0, 0] >= 4:
            assert computing.wait(timeout=30)
            read_meanwhile.set()
        return pixels[:SIZE, :SIZE]

    class Waiting(MeanColor):
        def predict_batch(self, pixels):
            computing.set()
            assert read_meanwhile.wait(timeout=30)
            return super().predict_batch(pixels)

    monkeypatch.setattr(prediction, "preprocess", read_later_ones_during_the_first_batch)
    pictures = [solid(number, 0, 0) for number in range(8)]
    assert len(predict(Waiting(), pictures, batch_size=4)) == 8


def test_probabilities_are_a_softmax_that_does_not_overflow():
    (answer,) = predict(MeanColor(scale=1e30), [solid(200, 200, 100)])
    assert answer.top == (("red", 0.5), ("green", 0.5), ("blue", 0.0))
    (answer,) = predict(MeanColor(scale=0.01), [solid(100, 200, 0)])
    weights = np.exp([1.0, 2.0, 0.0])
    expected = dict(zip(NAMES, weights / weights.sum(), strict=True))
    assert [name for name, _ in answer.top] == ["green", "red", "blue"]
    assert dict(answer.top) == pytest.approx(expected, rel=1e-6)
    assert (answer.class_name, answer.probability) == answer.top[0]


def test_multi_label_probabilities_are_sigmoids():
    (answer,) = predict(MeanColor(multi_label=True), [solid(100, 200, 0)], top=2)
    expected = [("green", 1 / (1 + np.exp(-2))), ("red", 1 / (1 + np.exp(-1)))]
    assert [pair[0] for pair in answer.top] == ["green", "red"]
    assert dict(answer.top) == pytest.approx(dict(expected), rel=1e-6)


def test_an_answer_that_is_not_finite_is_a_failure():
    model = MeanColor(scale=np.nan)
    assert predict(model, [solid(1, 2, 3)]) == [
        Failure("array[0]", "the model's answer is not finite")
    ]


def test_names_that_do_not_fit_the_answers_are_refused():
    model = MeanColor()
    model.class_names = ("one", "two")
    with pytest.raises(ValueError, match="2 class names but gives 3 logits"):
        predict(model, [solid(1, 2, 3)])


def test_a_model_of_other_than_pictures_is_refused():
    model = MeanColor()
    model.preprocessing = None
    with pytest.raises(ValueError, match="1 or 3 channels"):
        predict(model, [solid(1, 2, 3)])


ODD_NAMES = ["plain", "caf\xe9 \u732b \U0001f431", 'comma, "quote"', "new\nline", "\udcff\udc80"]


@pytest.fixture
def answers():
    good = [
        Prediction(name, name, 0.75, ((name, 0.75), ("b", 0.25)), np.zeros(2)) for name in ODD_NAMES
    ]
    return [good[0], Failure("bad\udcfe", "it is empty"), *good[1:]]


def test_json_is_the_contracts_document_and_names_survive(answers):
    stream = io.BytesIO()
    assert prediction.write_json(answers, stream) == (5, 1)
    document = json.loads(stream.getvalue().decode("ascii"))
    assert document == {
        "predictions": [
            {"path": name, "class": name, "probability": 0.75, "top": [[name, 0.75], ["b", 0.25]]}
            for name in ODD_NAMES
        ],
        "errors": [{"path": "bad\udcfe", "reason": "it is empty"}],
    }
    assert os.fsencode(document["errors"][0]["path"]) == b"bad\xfe"


def test_json_of_nothing_is_a_document_too():
    stream = io.BytesIO()
    assert prediction.write_json([], stream) == (0, 0)
    assert json.loads(stream.getvalue()) == {"predictions": [], "errors": []}


def test_csv_has_a_header_and_a_row_for_each_in_order(answers):
    stream = io.BytesIO()
    assert prediction.write_csv(answers, stream) == (5, 1)
    text = stream.getvalue().decode("utf-8", "surrogateescape")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert list(rows[0]) == ["path", "class", "probability", "error"]
    assert [row["path"] for row in rows] == [answer.path for answer in answers]
    assert rows[0] == {"path": "plain", "class": "plain", "probability": "0.75", "error": ""}
    assert rows[1] == {"path": "bad\udcfe", "class": "", "probability": "", "error": "it is empty"}
    assert b"\xff\x80" in stream.getvalue()


def test_a_file_whose_name_is_no_text_is_read_and_named(tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff.png"
    with open(path, "wb") as file:
        Image.fromarray(solid(0, 200, 0)).save(file, "PNG")
    (answer,) = predict(MeanColor(), tmp_path)
    assert os.fsencode(answer.path) == path and answer.class_name == "green"


@pytest.fixture(scope="module")
def vit():
    keras.utils.set_random_seed(0)
    config = ViTConfig(
        image_size=8,
        patch_size=4,
        hidden_dim=16,
        num_layers=2,
        num_heads=2,
        mlp_dim=32,
        num_classes=3,
    )
    model = build_vit(config, class_names=NAMES, preprocessing={})
    model.get_layer("predictions").kernel.assign(keras.random.normal((16, 3), seed=1))
    return model


def test_a_keras_model_answers_the_same_alone_and_in_a_partial_batch(vit):
    pictures = np.random.default_rng(0).integers(0, 256, (7, 10, 12, 3), np.uint8)
    together = predict(vit, pictures, batch_size=4)
    alone = [predict(vit, picture)[0] for picture in pictures]
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_allclose(one.logits, other.logits, atol=1e-5)
        assert one.class_name in NAMES and len(one.top) == 3
    assert len({answer.logits.tobytes() for answer in together}) == 7


def test_a_keras_model_is_wrapped_once(vit):
    predict(vit, solid(1, 2, 3))
    first = vit._predictor
    predict(vit, solid(3, 2, 1))
    assert vit._predictor is first and type(first) is type(wrap(vit))


def test_the_answers_equal_the_models_own(vit, odd_pictures):
    readable = [odd.path for odd in odd_pictures if odd.expect == "read"]
    answers = predict(vit, readable, batch_size=5)
    rules = wrap(vit).preprocessing
    pixels = np.stack([np.asarray(preprocess(read_image(path), rules)) for path in readable])
    expected = keras.ops.convert_to_numpy(vit(pixels, training=False))
    np.testing.assert_allclose([answer.logits for answer in answers], expected, atol=1e-5)


def test_every_odd_picture_gets_its_own_answer(vit, odd_pictures):
    answers = predict(vit, [odd.path for odd in odd_pictures])
    assert [answer.path for answer in answers] == [str(odd.path) for odd in odd_pictures]
    for odd, answer in zip(odd_pictures, answers, strict=True):
        assert isinstance(answer, Failure) == (odd.expect == "refuse"), odd.name
