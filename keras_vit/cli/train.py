"""`keras-vit train`: a recipe in, a run folder out."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from .environment import prepare
from .failures import DONE, INTERRUPTED, SOME_FAILED, complain, say
from .output import print_json, progress_on
from .runs import RUNS


def train(
    recipe: Annotated[
        str, typer.Argument(metavar="[RECIPE | FILE.toml]", help="What to train.")
    ] = "digits",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="TABLE.KEY=VALUE", help="Change a setting; repeatable."),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="data.source: digits, folder:PATH or tfds:NAME.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="train.epochs")] = None,
    batch_size: Annotated[int | None, typer.Option(help="train.batch_size")] = None,
    seed: Annotated[int | None, typer.Option(help="seed")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The run folder; else runs/RECIPE.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start anew; the old run is moved aside.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> int:
    """Train a recipe, or go on where the same command stopped."""
    prepare()
    from keras_vit.callbacks import NonFiniteLoss
    from keras_vit.recipe import Recipe
    from keras_vit.training.train import train as train_recipe

    short_forms = _short_forms(data, epochs, batch_size, seed)
    resolved = Recipe.load(recipe, [*(settings or []), short_forms])
    run = out or RUNS / resolved.name
    try:
        with progress_on(sys.stderr if json else sys.stdout):
            report = train_recipe(resolved, run, fresh)
    except NonFiniteLoss as error:
        complain(error)
        return SOME_FAILED
    except KeyboardInterrupt:
        say(f"stopped; to go on: {_same_command()}")
        return INTERRUPTED
    if json:
        print_json(report)
    else:
        print(_summary(report, run))
    return DONE


def _short_forms(
    data: str | None, epochs: int | None, batch_size: int | None, seed: int | None
) -> dict[str, Any]:
    """Return the tables that the short options stand for, without those not given."""
    fields = {
        "data": {"source": data},
        "train": {"epochs": epochs, "batch_size": batch_size},
    }
    tables = {
        table: {key: value for key, value in values.items() if value is not None}
        for table, values in fields.items()
    }
    return tables if seed is None else {**tables, "seed": seed}


def _same_command() -> str:
    """Return the command that goes on with this run: the same one, but not from the start."""
    words = [word for word in sys.argv[1:] if word != "--fresh"]
    return shlex.join(["keras-vit", *words])


def _summary(report: dict[str, Any], run: Path) -> str:
    scores = {
        "top-1": report.get("top1"),
        "top-5": report.get("top5"),
        "mean average precision": report.get("mean_average_precision"),
    }
    shown = ", ".join(f"{name} {100 * x:.2f} %" for name, x in scores.items() if x is not None)
    return (
        f"{shown} on {report['num_examples']} pictures, {report['train_seconds']:.0f} s of training\n"
        f"model:  {run / 'best.keras'}\n"
        f"report: {run / 'report.html'}"
    )
