"""`keras-vit predict`: the class of each picture, as a table, CSV or JSON."""

import csv
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from .environment import prepare
from .failures import DONE, SOME_FAILED, say
from .output import print_json, progress_on
from .runs import find_model


def predict(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL PATH...",
            help="A .keras file or a run folder; then pictures and folders of them, or - for a "
            "list of paths on standard input. Without MODEL the newest run.",
        ),
    ],
    top: Annotated[int, typer.Option(min=1, help="How many classes --json lists.")] = 5,
    batch_size: Annotated[int, typer.Option(min=1, help="Pictures at once.")] = 32,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")] = False,
) -> int:
    """Name the class of pictures."""
    if json and as_csv:
        raise ValueError("--json and --csv: only one of them")
    first_is_model = not _is_picture(words[0])
    paths = _named_paths(words[1:] if first_is_model else words)
    prepare()
    model_path = find_model(Path(words[0]) if first_is_model else None)
    from keras_vit import checkpoint
    from keras_vit.prediction import predict_stream

    with progress_on(sys.stderr):
        model = checkpoint.load_any(model_path)
    answers = predict_stream(model, paths, batch_size=batch_size, top=top)
    if json:
        return _print_document(answers)
    return _print_csv(answers) if as_csv else _print_table(answers, model.class_names)


def _is_picture(word: str) -> bool:
    """Return whether the first word cannot be a model, so that the newest run is meant."""
    return word == "-" or (os.path.isfile(word) and not word.endswith(".keras"))


def _named_paths(words: list[str]) -> list[str]:
    """Return the paths given, with those on standard input in place of "-"."""
    paths = []
    for word in words:
        # As bytes: a name that is no text in this locale is still the name of a file.
        named = os.fsdecode(sys.stdin.buffer.read()).splitlines() if word == "-" else [word]
        paths += [path for path in named if path]
    if not paths:
        raise ValueError("no picture given: expected paths after MODEL, or - and a list of them")
    return paths


def _print_document(answers: Iterable[Any]) -> int:
    document = {"predictions": [], "errors": []}
    for answer in answers:
        document["errors" if _failed(answer) else "predictions"].append(answer.to_json())
    print_json(document)
    return SOME_FAILED if document["errors"] else DONE


def _print_csv(answers: Iterable[Any]) -> int:
    rows = csv.writer(sys.stdout, lineterminator="\n")
    rows.writerow(["path", "class", "probability"])
    failures = []
    for answer in _tell_failures(answers, failures):
        rows.writerow([answer.path, answer.class_name, f"{answer.probability:.6f}"])
    return SOME_FAILED if failures else DONE


def _print_table(answers: Iterable[Any], class_names: Iterable[str]) -> int:
    width = max(map(len, class_names))
    failures = []
    for answer in _tell_failures(answers, failures):
        print(f"{answer.probability:7.1%}  {answer.class_name:{width}}  {answer.path}")
    return SOME_FAILED if failures else DONE


def _tell_failures(answers: Iterable[Any], failures: list[Any]) -> Iterator[Any]:
    """Yield the predictions; say and keep the failures."""
    for answer in answers:
        if _failed(answer):
            say(f"{answer.path}: {answer.reason}")
            failures.append(answer)
        else:
            yield answer


def _failed(answer: Any) -> bool:
    return hasattr(answer, "reason")
