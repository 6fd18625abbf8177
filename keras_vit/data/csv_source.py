"""Opens a CSV file with a picture and its label, or several labels, in each row."""

import csv
import io
import os
from collections import defaultdict
from typing import NamedTuple

import numpy as np

from keras_vit.data import storage
from keras_vit.data.config import DataConfig, DataError
from keras_vit.data.examples import FileExamples
from keras_vit.data.file_check import FileCheck, check_files, describe_skipped
from keras_vit.data.source import SPLIT_NAMES, SPLIT_SPELLINGS, Source, Split

_BETWEEN_LABELS = "|"


class _Row(NamedTuple):
    line: int
    path: str
    labels: tuple[str, ...]
    split: str
    group: str


def open_csv(file: str, config: DataConfig, check: FileCheck) -> Source:
    """Read `path,label[,split]` rows, paths being relative to the CSV file.

    Labels joined by `|` make every picture multi-label; then an empty label means none at all.

    Raises:
        DataError: everything that is wrong with the file or its pictures, one line for each thing.
    """
    rows, problems = _read_rows(file, config.group)
    multi_label = any(len(row.labels) > 1 for row in rows)
    class_names = _class_names(rows)
    if not problems:
        problems += _find_problems(file, rows, class_names, multi_label)
    folder = os.path.dirname(file)
    bad = check_files([os.path.join(folder, row.path) for row in rows], check)
    readable = [row for i, row in enumerate(rows) if i not in bad]
    lost = sorted(set(class_names) - set(_class_names(readable)))
    notes = describe_skipped(bad.values()) if bad and config.skip_bad else []
    if lost or not config.skip_bad:
        problems += [f"{file}, line {rows[i].line}: {reason}" for i, reason in bad.items()]
        problems += [f"class {name}: none of its pictures can be read" for name in lost]
    if problems:
        raise DataError("\n".join(problems))
    splits = _make_splits(folder, readable, class_names, multi_label, config)
    return Source(class_names, splits, 3, notes, multi_label, tuple(bad.values()))


def _read_rows(file: str, group: str | int | None) -> tuple[list[_Row], list[str]]:
    if not storage.exists(file) or storage.is_folder(file):
        raise DataError(f"{file}: no such file; expected a CSV file with the columns path,label")
    needed = ["path", "label", *([str(group)] if group is not None else [])]
    try:
        text = storage.read_bytes(file).decode("utf-8-sig")
        reader = csv.DictReader(io.StringIO(text, newline=""))
        columns = reader.fieldnames or []
        missing = [name for name in needed if name not in columns]
        if missing:
            raise DataError(
                f"{file}: has no column {', '.join(missing)}; its first line must name "
                f"{', '.join(needed)} and may name split, but is {','.join(columns) or 'empty'}"
            )
        parsed = [_parse_row(file, reader.line_num, row, group) for row in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{file}: is not a CSV file in UTF-8: {error}") from error
    rows = [row for row in parsed if isinstance(row, _Row)]
    return rows, [problem for problem in parsed if isinstance(problem, str)]


def _parse_row(file: str, line: int, row: dict, group: str | int | None) -> _Row | str:
    """Return the row, or what is wrong with it."""
    where = f"{file}, line {line}"
    if None in row or None in row.values():
        return f"{where}: has another number of fields than the first line"
    if not row["path"].strip():
        return f"{where}: the path is empty"
    asked = (row.get("split") or "train").strip().lower()
    splits = [name for name, spellings in SPLIT_SPELLINGS.items() if asked in spellings]
    if not splits:
        return f"{where}: split must be one of {', '.join(SPLIT_NAMES)}; got {row['split']!r}"
    labels = tuple(label.strip() for label in row["label"].split(_BETWEEN_LABELS) if label.strip())
    return _Row(line, row["path"].strip(), labels, splits[0], "" if group is None else row[group])


def _find_problems(
    file: str, rows: list[_Row], class_names: tuple[str, ...], multi_label: bool
) -> list[str]:
    if not rows:
        return [f"{file}: has no rows; expected a picture and its label in each"]
    problems = []
    if not multi_label:
        problems += [
            f"{file}, line {row.line}: the label is empty" for row in rows if not row.labels
        ]
    if len(class_names) < 2:
        problems.append(
            f"{file}: holds {len(class_names)} class only, {', '.join(class_names)}; expected at "
            "least two"
        )
    if not any(row.split == "train" for row in rows):
        problems.append(f"{file}: no row has the split train")
    return problems + _find_contradictions(file, rows)


def _find_contradictions(file: str, rows: list[_Row]) -> list[str]:
    """Return one line for each picture with two labels or in two splits."""
    by_path = defaultdict(list)
    for row in rows:
        by_path[os.path.normpath(row.path)].append(row)
    problems = []
    for path, same in by_path.items():
        lines = " and ".join(str(row.line) for row in same)
        if len({row.labels for row in same}) > 1:
            labels = ", ".join(sorted({_BETWEEN_LABELS.join(row.labels) for row in same}))
            problems.append(f"{file}, lines {lines}: {path} has unlike labels: {labels}")
        if len({row.split for row in same}) > 1:
            splits = ", ".join(sorted({row.split for row in same}))
            problems.append(f"{file}, lines {lines}: {path} is in more than one split: {splits}")
    return problems


def _class_names(rows: list[_Row]) -> tuple[str, ...]:
    return tuple(sorted({label for row in rows for label in row.labels}))


def _make_splits(
    folder: str,
    rows: list[_Row],
    class_names: tuple[str, ...],
    multi_label: bool,
    config: DataConfig,
) -> dict[str, Split]:
    places = {name: place for place, name in enumerate(class_names)}
    splits = {}
    for split in SPLIT_NAMES:
        chosen = [row for row in rows if row.split == split]
        if not chosen:
            continue
        labels = [[places[label] for label in row.labels] for row in chosen]
        paths = [os.fsencode(os.path.join(folder, row.path)) for row in chosen]
        examples = FileExamples(paths, _encode_labels(labels, len(class_names), multi_label))
        names = [row.path for row in chosen]
        groups = None if config.group is None else [row.group for row in chosen]
        splits[split] = Split(split, names, examples, groups, config.cache)
    return splits


def _encode_labels(labels: list[list[int]], num_classes: int, multi_label: bool) -> np.ndarray:
    """Return `(n,)` int32, or `(n, K)` float32 of zeros and ones."""
    if not multi_label:
        return np.array([label for (label,) in labels], np.int32)
    encoded = np.zeros((len(labels), num_classes), np.float32)
    for row, places in zip(encoded, labels, strict=True):
        row[places] = 1
    return encoded
