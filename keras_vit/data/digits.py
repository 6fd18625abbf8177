"""Opens scikit-learn's 1,797 handwritten digits: real data that needs no file and no network."""

import numpy as np

from keras_vit.data.config import DataConfig
from keras_vit.data.examples import ArrayExamples
from keras_vit.data.source import Source, Split
from keras_vit.data.splits import name_by_number, split_positions

_NUM_TEST, _NUM_VALIDATION = 360, 180


def open_digits(config: DataConfig) -> Source:
    """Open the digits with splits that no seed changes: 1,257 to train on, 180 and 360.

    A digit's name is its class and its place among that class, `3/17`.
    """
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = np.rint(digits.images * (255 / 16)).astype(np.uint8)[..., None]
    labels = digits.target.astype(np.int32)
    names = name_by_number(labels)
    whole = Split("digits", names, ArrayExamples(pixels, labels), cache=config.cache)
    order = np.lexsort([split_positions(names, seed=0), labels])
    test, rest = _draw_evenly(order, _NUM_TEST)
    validation, train = _draw_evenly(rest, _NUM_VALIDATION)
    parts = {"train": train, "validation": validation, "test": test}
    splits = {name: whole.take(name, np.sort(indices)) for name, indices in parts.items()}
    return Source(tuple(str(digit) for digit in range(10)), splits, 1, [])


def _draw_evenly(order: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Take `count` at equal distances, so that each class gives its share; return the rest too."""
    drawn = np.diff(np.arange(len(order) + 1) * count // len(order)).astype(bool)
    return order[drawn], order[~drawn]
