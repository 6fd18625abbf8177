"""Every example counts once, whatever the batches, and the report says what it was told."""

import json

import numpy as np
import pytest
import sklearn.metrics

from keras_vit import evaluation

CLASSES = ("ant", "bee", "cat", "dog", "eel", "fox")
NUM_EXAMPLES = 29


@pytest.fixture
def split():
    generator = np.random.default_rng(1)
    pixels = generator.uniform(0, 255, (NUM_EXAMPLES, 2, 3, 1)).astype(np.float32)
    return pixels, generator.integers(0, len(CLASSES), NUM_EXAMPLES).astype(np.int32)


def model(pixels):
    """Six sums over a picture's six pixels: exact, so the same in every batch."""
    rows = np.round(pixels.reshape(len(pixels), 6))
    return (rows @ np.tri(6, dtype=np.float32)).astype(np.float32) / 256


def in_batches(pixels, labels, batch_size):
    for start in range(0, len(pixels), batch_size):
        yield pixels[start : start + batch_size], labels[start : start + batch_size]


@pytest.mark.parametrize("batch_size", [1, 7, NUM_EXAMPLES, 64])
def test_the_report_does_not_depend_on_the_batch_size(split, batch_size):
    pixels, labels = split
    direct = evaluation.evaluate(model(pixels), labels, CLASSES).to_json()
    batches = in_batches(pixels, labels, batch_size)
    collected = evaluation.collect(model, batches, num_examples=NUM_EXAMPLES)
    assert evaluation.evaluate(*collected, CLASSES).to_json() == direct
    assert direct["num_examples"] == NUM_EXAMPLES == np.sum(direct["confusion"])


def test_every_batch_a_model_sees_has_one_shape(split):
    shapes = set()

    def watching(pixels):
        shapes.add(pixels.shape)
        return model(pixels)

    evaluation.collect(watching, in_batches(*split, 7))
    assert shapes == {(7, 2, 3, 1)}


def test_tensors_and_half_precision_are_collected_as_float32(split):
    import tensorflow as tf

    def half(pixels):
        return tf.cast(model(pixels), tf.bfloat16)

    batches = tf.data.Dataset.from_tensor_slices(split).batch(8)
    logits, labels = evaluation.collect(half, batches)
    assert logits.dtype == np.float32 and logits.shape == (NUM_EXAMPLES, 6)
    np.testing.assert_array_equal(labels, split[1])


def test_a_count_other_than_the_splits_is_refused(split):
    with pytest.raises(ValueError, match="split has 30 examples, evaluation saw 29"):
        evaluation.collect(model, in_batches(*split, 7), num_examples=30)


def test_an_empty_split_is_refused():
    with pytest.raises(ValueError, match="at least one example to evaluate, got none"):
        evaluation.collect(model, [])


def test_scores_equal_scikit_learns(split):
    pixels, labels = split
    logits = model(pixels)
    report = evaluation.evaluate(logits, labels, CLASSES)
    assert report.top1 == sklearn.metrics.accuracy_score(labels, logits.argmax(1))
    assert report.top5 == sklearn.metrics.top_k_accuracy_score(labels, logits, k=5)
    weights = np.exp(logits.astype(np.float64))
    shares = weights / weights.sum(1, keepdims=True)
    assert report.nll == pytest.approx(sklearn.metrics.log_loss(labels, shares), rel=1e-12)


def test_equal_logits_choose_the_lower_class_everywhere():
    report = evaluation.evaluate(np.zeros((3, 6)), np.array([0, 1, 5]), CLASSES)
    assert (report.top1, report.top5) == (1 / 3, 2 / 3)
    assert report.confusion[:, 0].sum() == 3


@pytest.mark.parametrize("num_classes, has_top5", [(1, False), (4, False), (5, True)])
def test_top5_is_null_under_five_classes(num_classes, has_top5):
    names = CLASSES[:num_classes]
    document = evaluation.evaluate(np.zeros((2, num_classes)), np.array([0, 0]), names).to_json()
    assert (document["top5"] is not None) == has_top5


def test_the_json_has_the_contracts_keys_and_reads_back(split):
    pixels, labels = split
    report = evaluation.evaluate(model(pixels), labels, CLASSES)
    document = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert list(document) == [
        "top1",
        "top5",
        "nll",
        "ece",
        "num_examples",
        "per_class",
        "confusion",
        "class_names",
    ]
    again = evaluation.Report.from_json(document | {"recipe": "digits"})
    assert again.to_json() == document and not again.multi_label


def test_a_matrix_too_large_to_keep_is_null(split, monkeypatch):
    monkeypatch.setattr(evaluation, "MAX_CONFUSION_CLASSES", 5)
    pixels, labels = split
    document = evaluation.evaluate(model(pixels), labels, CLASSES).to_json()
    assert document["confusion"] is None
    assert evaluation.Report.from_json(document).confusion is None


def test_multi_label_scores_equal_scikit_learns(split):
    logits = model(split[0]) - 2
    labels = (np.random.default_rng(2).random(logits.shape) < 0.4).astype(np.float32)
    report = evaluation.evaluate(logits, labels, CLASSES, multi_label=True)
    document = json.loads(json.dumps(report.to_json(), allow_nan=False))
    predicted = logits > 0
    assert list(document)[:3] == ["mean_average_precision", "f1_micro", "f1_macro"]
    assert "top1" not in document and document["confusion"] is None
    for key, expected in {
        "mean_average_precision": sklearn.metrics.average_precision_score(labels, logits),
        "f1_micro": sklearn.metrics.f1_score(labels, predicted, average="micro"),
        "f1_macro": sklearn.metrics.f1_score(labels, predicted, average="macro"),
        "num_examples": NUM_EXAMPLES,
    }.items():
        assert document[key] == pytest.approx(expected, rel=1e-12), key
    assert evaluation.Report.from_json(document).multi_label


def test_multi_label_likelihood_and_calibration_equal_plain_loops():
    logits, labels = np.array([[2.0, -1.0], [0.0, 3.0]]), np.array([[1, 0], [1, 0]])
    report = evaluation.evaluate(logits, labels, CLASSES[:2], multi_label=True)
    chance = 1 / (1 + np.exp(-logits))
    taken = np.where(labels == 1, chance, 1 - chance)
    assert report.nll == pytest.approx(-np.log(taken).mean())
    # Each of the four decisions falls in a bin of its own: a sure no at 3.0 is wrong.
    gaps = [1 - chance[0, 0], chance[0, 1], 0.5, chance[1, 1]]
    assert report.ece == pytest.approx(np.mean(gaps))


def test_multi_label_with_one_class_or_no_positive_at_all_has_numbers():
    logits, labels = np.array([[2.0], [-1.0]]), np.array([[1], [0]])
    report = evaluation.evaluate(logits, labels, ["on"], multi_label=True)
    assert (report.f1_macro, report.per_class[0]["support"]) == (1.0, 1)
    empty = evaluation.evaluate(logits, np.zeros((2, 1)), ["on"], multi_label=True)
    assert empty.mean_average_precision is None and empty.f1_micro == 0.0


@pytest.mark.parametrize(
    "logits, labels, multi_label, message",
    [
        (np.zeros((2, 3)), [0, 1], False, r"\(examples, 6\).*got \(2, 3\)"),
        (np.zeros((0, 6)), [], False, r"got \(0, 6\)"),
        (np.zeros((2, 6)), [0, 6], False, "labels from 0 to 5, got 6"),
        (np.zeros((2, 6)), [0, -1], False, "labels from 0 to 5, got -1"),
        (np.zeros((2, 6)), [0], False, r"expected 2 whole-number labels.*got shape \(1,\)"),
        (np.zeros((2, 6)), [0.0, 1.0], False, "whole-number labels.*float64"),
        (np.zeros((2, 6)), np.zeros((2, 5)), True, r"shape \(2, 6\), got \(2, 5\)"),
        (np.zeros((1, 6)), [[0, 1, 2, 0, 0, 0]], True, "of 0 and 1, got 2"),
    ],
)
def test_what_does_not_fit_is_refused_with_both_sides(logits, labels, multi_label, message):
    with pytest.raises(ValueError, match=message):
        evaluation.evaluate(logits, labels, CLASSES, multi_label=multi_label)


def test_logits_that_are_not_finite_are_refused_by_name():
    logits = np.zeros((3, 6))
    logits[1, 3], logits[2] = np.nan, np.inf
    message = r"got nan for class 'dog' of example 1 \(b\.jpg\); 2 of 3 examples"
    with pytest.raises(ValueError, match=message):
        evaluation.evaluate(logits, np.zeros(3, int), CLASSES, ["a.jpg", "b.jpg", "c.jpg"])
    with pytest.raises(ValueError, match="class 'dog' of example 1; 2 of 3"):
        evaluation.evaluate(logits, np.zeros(3, int), CLASSES)


def test_worst_mistakes_come_surest_first():
    logits = np.log([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.05, 0.9, 0.05], [0.4, 0.3, 0.3]])
    labels, names = np.array([1, 1, 0, 2]), ["w", "x", "y", "z"]
    worst = evaluation.worst_mistakes(logits, labels, CLASSES[:3], names, limit=2)
    assert [(m.index, m.name, m.true, m.predicted) for m in worst] == [
        (2, "y", "ant", "bee"),
        (0, "w", "bee", "ant"),
    ]
    assert worst[0].probability == pytest.approx(0.9)
    assert worst[0].true_probability == pytest.approx(0.05)
    assert evaluation.worst_mistakes(logits, labels, CLASSES[:3])[0].name == "2"
    assert evaluation.worst_mistakes(logits[1:2], labels[1:2], CLASSES[:3]) == []


def test_pictures_are_picked_by_position_without_reading_further(split):
    pixels, labels = split

    def batches():
        yield from in_batches(pixels[:14], labels[:14], 7)
        raise AssertionError("read past the last picture wanted")

    found = evaluation.pick_pictures(batches(), [13, 2])
    assert sorted(found) == [2, 13]
    np.testing.assert_array_equal(found[13], pixels[13])
    assert evaluation.pick_pictures(batches(), []) == {}


def test_a_picture_past_the_end_is_refused(split):
    with pytest.raises(ValueError, match="wanted picture 29, the split has 29 examples"):
        evaluation.pick_pictures(in_batches(*split, 7), [3, 29])
