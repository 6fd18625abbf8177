"""Opens TFRecord files of tf.Example, for sets too large for a file each."""

import os
from collections.abc import Sequence

import numpy as np

from keras_vit.data import storage
from keras_vit.data.config import DataConfig, DataError
from keras_vit.data.examples import RecordExamples
from keras_vit.data.file_check import FileCheck, check_records, describe_skipped
from keras_vit.data.records import RecordFiles, index_records
from keras_vit.data.source import SPLIT_NAMES, Source, Split
from keras_vit.data.splits import name_by_number

_IMAGE_KEYS = ("image", "image/encoded")
_LABEL_KEYS = ("label", "image/class/label")


def open_tfrecord(pattern: str, config: DataConfig, check: FileCheck) -> Source:
    """Index the files that match a pattern; `data.validation` and `data.test` are further ones.

    Labels are names, or numbers from 0, whose names are `data.class_names` or the numbers.

    Raises:
        DataError: no file, a damaged one, a missing key, or labels that are no labels.
    """
    records = {name: _index(place) for name, place in _find_patterns(pattern, config).items()}
    image_key, label_key = _choose_keys(pattern, records["train"], config)
    try:
        values = {name: _read_labels(part, label_key) for name, part in records.items()}
    except ValueError as error:
        raise DataError(str(error)) from error
    class_names = _name_classes(pattern, values, config.class_names)
    bad = {name: check_records(part, image_key, check) for name, part in records.items()}
    lines = [line for faults in bad.values() for line in faults.values()]
    if lines and not config.skip_bad:
        raise DataError("\n".join(lines))
    places = {name: place for place, name in enumerate(class_names)}
    splits = {}
    for name, part in records.items():
        labels = [value if isinstance(value, int) else places[value] for value in values[name]]
        examples = RecordExamples(part, np.array(labels, np.int32), image_key)
        names = name_by_number(examples.labels, f"{name}/")
        split = Split(name, names, examples, cache=config.cache)
        splits[name] = split.take(name, np.setdiff1d(np.arange(len(part)), list(bad[name])))
    notes = describe_skipped(lines) if lines else []
    return Source(class_names, splits, 3, notes, unreadable=tuple(lines))


def _find_patterns(pattern: str, config: DataConfig) -> dict[str, str]:
    folder = os.path.dirname(pattern)
    asked = {name: getattr(config, name) for name in SPLIT_NAMES}
    asked["train"] = asked["train"] or os.path.basename(pattern)
    return {name: os.path.join(folder, place) for name, place in asked.items() if place}


def _index(pattern: str) -> RecordFiles:
    paths = storage.find_files(pattern)
    if not paths:
        raise DataError(f"tfrecord:{pattern}: no file matches this pattern")
    try:
        records = index_records((path, 0, -1) for path in paths)
    except (OSError, ValueError) as error:
        raise DataError(str(error)) from error
    if not len(records):
        raise DataError(f"tfrecord:{pattern}: the {len(paths)} files hold no record")
    return records


def _choose_keys(pattern: str, records: RecordFiles, config: DataConfig) -> tuple[str, str]:
    """Return the keys asked for, or those that are customary, as far as the records have them."""
    try:
        kinds = {feature.key: feature.kind for feature in records.find_first_features()}
    except ValueError as error:
        raise DataError(f"{records.paths[0]}: {error}") from error
    found = []
    for field, customary, allowed in (
        ("image_key", _IMAGE_KEYS, ("bytes",)),
        ("label_key", _LABEL_KEYS, ("int64", "bytes")),
    ):
        asked = getattr(config, field)
        fitting = [key for key in ([asked] if asked else customary) if kinds.get(key) in allowed]
        if not fitting:
            listed = ", ".join(f"{key} ({kind})" for key, kind in sorted(kinds.items()))
            raise DataError(
                f"tfrecord:{pattern}: data.{field} = {asked or ' or '.join(customary)} must be a "
                f"feature of type {' or '.join(allowed)}; there are: {listed}"
            )
        found.append(fitting[0])
    return found[0], found[1]


def _read_labels(records: RecordFiles, key: str) -> list[int | str]:
    values = records.read_values(key)
    return [v.decode(errors="replace") if isinstance(v, bytes) else v for v in values]


def _name_classes(
    pattern: str, values: dict[str, list[int | str]], given: Sequence[str] | None
) -> tuple[str, ...]:
    together = {value for part in values.values() for value in part}
    if all(isinstance(value, str) for value in together):
        class_names = tuple(sorted(together))
    else:
        if min(together) < 0:
            raise DataError(f"tfrecord:{pattern}: labels must be 0 or more; got {min(together)}")
        class_names = tuple(given or map(str, range(max(together) + 1)))
        if max(together) >= len(class_names):
            raise DataError(
                f"tfrecord:{pattern}: data.class_names names {len(class_names)} classes, but there "
                f"is the label {max(together)}"
            )
    if len(class_names) < 2:
        raise DataError(
            f"tfrecord:{pattern}: holds one class only, {class_names[0]}; expected at least two"
        )
    return class_names
