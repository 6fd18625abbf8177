"""Name the class of pictures: one answer for each, in the order they came, bad ones included.

`predict_stream` holds a few batches at a time, however many pictures there are. Threads read ahead
while the model computes.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import functools
import io
import itertools
import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO

import numpy as np

from keras_vit import checkpoint, metrics
from keras_vit.images import (
    ImageError,
    Preprocessing,
    display_name,
    is_hidden_name,
    preprocess,
    read_image,
)

NUM_THREADS = min(8, os.cpu_count() or 1)
CSV_HEADER = ("path", "class", "probability", "error")


@dataclasses.dataclass(frozen=True)
class Prediction:
    """What a model says about one picture.

    Attributes:
        path: The picture's path, or `array[i]` or `bytes[i]` for the i-th one given.
        class_name: The class with the highest logit; among equals the one with the lower index.
        probability: Its softmax probability, or its sigmoid probability from a multi-label model.
        top: The highest classes with their probabilities, the first being `class_name`.
        logits: `(K,)` float32.
    """

    path: str
    class_name: str
    probability: float
    top: tuple[tuple[str, float], ...]
    logits: np.ndarray = dataclasses.field(repr=False, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Return the prediction as it stands in the JSON document."""
        return {
            "path": self.path,
            "class": self.class_name,
            "probability": self.probability,
            "top": [list(pair) for pair in self.top],
        }


@dataclasses.dataclass(frozen=True)
class Failure:
    """Why there is no prediction for a path."""

    path: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return the failure as it stands in the JSON document."""
        return dataclasses.asdict(self)


def predict(
    model: Any, images: Any, batch_size: int = 32, top: int = 5
) -> list[Prediction | Failure]:
    """Predict pictures and return all answers; see `predict_stream`."""
    return list(predict_stream(model, images, batch_size, top))


def predict_stream(
    model: Any, images: Any, batch_size: int = 32, top: int = 5
) -> Iterator[Prediction | Failure]:
    """Predict pictures one batch after another.

    Args:
        model: A Keras model of this library, or what `checkpoint.load_any` returned.
        images: A path, a folder, an encoded picture as bytes, a uint8 array of shape `(H, W, 3)`,
            `(H, W, 1)`, `(H, W)` or `(B, H, W, 3)`; or an iterable of these, of any length. A
            folder is walked in the order of its names, hidden files left out; every other file
            in it gets an answer, if only that it is not a picture.
        batch_size: How many pictures the model sees at once.
        top: How many classes to list at most.

    Returns:
        An iterator over a `Prediction` or a `Failure` for each picture, in the order given.

    Raises:
        ValueError: If an argument, or something among the pictures, is not as above.
    """
    for name, value in (("batch_size", batch_size), ("top", top)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    predictor = _to_predictor(model)
    if predictor.preprocessing is None:
        raise ValueError("expected a model of pictures with 1 or 3 channels, got one of others")
    return _predict_chunks(predictor, images, batch_size, top)


def list_images(images: Any) -> Iterator[tuple[str, Any]]:
    """Yield `(path, source)` a picture: source is a path, bytes, a pixel array or a `Failure`.

    Raises:
        ValueError: If something is not of the kinds that `predict_stream` takes.
    """
    if _is_one_image(images):
        images = [images]
    for position, item in enumerate(images):
        if isinstance(item, (str, os.PathLike)):
            path = os.fsdecode(item)
            yield from _list_folder(path) if os.path.isdir(path) else [(path, path)]
        elif isinstance(item, (bytes, bytearray)):
            yield f"bytes[{position}]", bytes(item)
        else:
            yield f"array[{position}]", _to_pixels(item, position)


def write_json(answers: Iterable[Prediction | Failure], stream: BinaryIO) -> tuple[int, int]:
    """Write `{"predictions": [...], "errors": [...]}`, a line each, while the answers come.

    The document is plain ASCII. A file name that is not valid UTF-8 keeps its bytes as lone
    surrogates, which Python's `json.loads` and `os.fsencode` turn back into that very name.

    Returns:
        How many predictions and errors there were.
    """
    failures, num_predictions = [], 0
    stream.write(b'{"predictions": [')
    for answer in answers:
        if isinstance(answer, Failure):
            failures.append(answer)
        else:
            _write_element(answer, num_predictions, stream)
            num_predictions += 1
    stream.write(b'\n], "errors": [')
    for position, failure in enumerate(failures):
        _write_element(failure, position, stream)
    stream.write(b"\n]}\n")
    return num_predictions, len(failures)


def write_csv(answers: Iterable[Prediction | Failure], stream: BinaryIO) -> tuple[int, int]:
    """Write a header and one row an answer, in order, while the answers come.

    The text is UTF-8; a file name that is not keeps its bytes.

    Returns:
        How many predictions and errors there were.
    """
    text = io.TextIOWrapper(stream, "utf-8", errors="surrogateescape", newline="")
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(CSV_HEADER)
    counts = {Prediction: 0, Failure: 0}
    for answer in answers:
        counts[type(answer)] += 1
        if isinstance(answer, Failure):
            rows.writerow([answer.path, "", "", answer.reason])
        else:
            rows.writerow([answer.path, answer.class_name, answer.probability, ""])
    text.detach()  # flushed, and the stream stays open for its owner
    return counts[Prediction], counts[Failure]


def _write_element(answer: Prediction | Failure, position: int, stream: BinaryIO) -> None:
    stream.write(b",\n" if position else b"\n")
    stream.write(json.dumps(answer.to_json()).encode("ascii"))


def _to_predictor(model: Any) -> Any:
    if hasattr(model, "predict_batch"):
        return model
    if not hasattr(model, "_predictor"):
        model._predictor = checkpoint.wrap(model)  # kept, so that the next call does not compile
    return model._predictor


def _predict_chunks(
    model: Any, images: Any, batch_size: int, top: int
) -> Iterator[Prediction | Failure]:
    read = functools.partial(_read, preprocessing=model.preprocessing)
    readings = _map_ahead(read, list_images(images), ahead=batch_size + 2 * NUM_THREADS)
    shape_size = None
    with contextlib.closing(readings):
        while chunk := list(itertools.islice(readings, batch_size)):
            # One shape for all: a last batch is filled up to it, a few pictures need a small one.
            shape_size = shape_size or min(batch_size, 1 << (len(chunk) - 1).bit_length())
            yield from _answer_chunk(model, chunk, shape_size, top)


def _answer_chunk(
    model: Any, chunk: Sequence[tuple[str, Any]], shape_size: int, top: int
) -> Iterator[Prediction | Failure]:
    good = [pixels for _, pixels in chunk if not isinstance(pixels, Failure)]
    logits = iter(_run(model, good, shape_size) if good else ())
    for path, pixels in chunk:
        if isinstance(pixels, Failure):
            yield pixels
        else:
            yield _answer(model, path, next(logits), top)


def _run(model: Any, pixels: Sequence[np.ndarray], shape_size: int) -> np.ndarray:
    batch = np.zeros((shape_size, *pixels[0].shape), np.float32)
    batch[: len(pixels)] = pixels
    return np.asarray(model.predict_batch(batch))[: len(pixels)].astype(np.float32)


def _answer(model: Any, path: str, logits: np.ndarray, top: int) -> Prediction | Failure:
    names = model.class_names
    if len(names) != len(logits):
        raise ValueError(f"the model has {len(names)} class names but gives {len(logits)} logits")
    if not np.isfinite(logits).all():
        return Failure(path, "the model's answer is not finite")
    log = metrics.log_sigmoid if model.multi_label else metrics.log_softmax
    probabilities = np.exp(log(logits)).tolist()
    order = np.argsort(-logits, kind="stable")[:top]
    best = tuple((names[index], probabilities[index]) for index in order)
    return Prediction(path, *best[0], top=best, logits=logits)


def _read(item: tuple[str, Any], preprocessing: Preprocessing) -> tuple[str, Any]:
    """Return the path with the pixels a model takes, or with the `Failure` in their place."""
    path, source = item
    if isinstance(source, Failure):
        return item
    try:
        pixels = source if isinstance(source, np.ndarray) else read_image(source)
    except ImageError as error:
        return path, Failure(path, str(error).removeprefix(f"{display_name(source)}: "))
    return path, np.asarray(preprocess(pixels, preprocessing), np.float32)


def _map_ahead(function: Callable, items: Iterable, ahead: int) -> Iterator:
    """Apply a function in threads, up to `ahead` items early, and yield the results in order."""
    executor, pending = ThreadPoolExecutor(NUM_THREADS), deque()
    try:
        for item in items:
            pending.append(executor.submit(function, item))
            if len(pending) > ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        executor.shutdown(cancel_futures=True)


def _is_one_image(images: Any) -> bool:
    if hasattr(images, "__array__"):
        return np.ndim(images) != 4
    return isinstance(images, (str, os.PathLike, bytes, bytearray)) or not hasattr(
        images, "__iter__"
    )


def _to_pixels(item: Any, position: int) -> np.ndarray:
    if not hasattr(item, "__array__"):
        raise ValueError(
            f"image {position}: expected a path, bytes or an array, got {type(item).__name__}"
        )
    given = np.asarray(item)
    pixels = given[:, :, None] if given.ndim == 2 else given
    if pixels.ndim != 3 or pixels.shape[2] not in (1, 3) or not pixels.size or given.dtype != "u1":
        raise ValueError(
            f"image {position}: expected a uint8 array of shape (H, W, 3), (H, W, 1) or (H, W) "
            f"with values from 0 to 255, got {given.dtype} of shape {given.shape}"
        )
    return np.broadcast_to(pixels, (*pixels.shape[:2], 3))


def _list_folder(folder: str) -> Iterator[tuple[str, Any]]:
    found = _walk(folder, ())
    yield next(found, (folder, Failure(folder, "the folder has no files")))
    yield from found


def _walk(folder: str, above: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Yield the files in a folder and below; a link back to a folder above is not followed."""
    real = os.path.realpath(folder)
    try:
        names = sorted(name for name in os.listdir(folder) if not is_hidden_name(name))
    except OSError as error:
        yield folder, Failure(folder, f"the folder cannot be read: {error.strerror}")
        return
    for name in names if real not in above else ():
        path = os.path.join(folder, name)
        yield from _walk(path, (*above, real)) if os.path.isdir(path) else [(path, path)]
