"""`keras-vit predict`: the class of each picture, as a table, CSV or JSON."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from .environment import prepare
from .failures import DONE, SOME_FAILED, say
from .output import progress_on
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
    from keras_vit import checkpoint, prediction

    model_path = find_model(Path(words[0]) if first_is_model else None)
    with progress_on(sys.stderr):
        model = checkpoint.load_any(model_path)
    answers = prediction.predict_stream(model, paths, batch_size=batch_size, top=top)
    if json:
        _, num_errors = prediction.write_json(answers, sys.stdout.buffer)
    elif as_csv:
        _, num_errors = prediction.write_csv(answers, sys.stdout.buffer)
    else:
        num_errors = _print_table(answers, model.class_names)
    return SOME_FAILED if num_errors else DONE


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


def _print_table(answers: Iterable[Any], class_names: Iterable[str]) -> int:
    """Print a line for each picture as its answer comes; return how many had none."""
    from keras_vit.prediction import Failure

    width, num_errors = max(map(len, class_names)), 0
    for answer in answers:
        if isinstance(answer, Failure):
            num_errors += 1
            say(f"{answer.path}: {answer.reason}")
        else:
            print(f"{answer.probability:7.1%}  {answer.class_name:{width}}  {answer.path}")
    return num_errors
