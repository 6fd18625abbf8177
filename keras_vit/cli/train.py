"""`keras-vit train`: a recipe in, a run folder out."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from .environment import prepare
from .failures import DONE, INTERRUPTED, PREEMPTED, SOME_FAILED, complain, say
from .output import print_json, progress_on
from .runs import RUNS


def train(
    recipe: Annotated[
        str, typer.Argument(metavar="RECIPE|FILE.toml", help="What to train.")
    ] = "digits",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="TABLE.KEY=VALUE", help="Change a setting; repeatable."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="SOURCE", help="data.source, such as folder:PATH."),
    ] = None,
    # As text: the recipe checks these and says what is wrong, as it does for --set.
    epochs: Annotated[str | None, typer.Option(metavar="N", help="train.epochs")] = None,
    batch_size: Annotated[str | None, typer.Option(metavar="N", help="train.batch_size")] = None,
    seed: Annotated[str | None, typer.Option(metavar="N", help="seed")] = None,
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
    from keras_vit.resume import Preempted
    from keras_vit.training.train import train as train_recipe

    overrides = settings or []
    given = {"train.epochs": epochs, "train.batch_size": batch_size, "seed": seed}
    overrides += [f"{key}={value}" for key, value in given.items() if value is not None]
    overrides += [] if data is None else [{"data": {"source": data}}]
    resolved = Recipe.load(recipe, overrides)
    run = out or RUNS / resolved.name
    try:
        with progress_on(sys.stderr if json else sys.stdout):
            report = train_recipe(resolved, run, fresh)
    except NonFiniteLoss as error:
        complain(error)
        return SOME_FAILED
    except (KeyboardInterrupt, Preempted) as stop:
        say(f"stopped; to go on: {_same_command()}")
        return PREEMPTED if isinstance(stop, Preempted) else INTERRUPTED
    if json:
        print_json(report)
    else:
        print(_summary(report, run))
    return DONE


def _same_command() -> str:
    """Return the command that goes on with this run: the same one, but not from the start."""
    words = [word for word in sys.argv[1:] if word != "--fresh"]
    return shlex.join(["keras-vit", *words])


def _summary(report: dict[str, Any], run: Path) -> str:
    """Return what a person wants to read at the end."""
    from keras_vit.summary import duration, list_scores

    plural = "s" * (report["epochs"] != 1)
    lines = [f"{report['epochs']} epoch{plural} in {duration(report['train_seconds'])}"]
    if report["split"]:
        lines += [f"on the {report['split']} split of {report['num_examples']} pictures:"]
        lines += [f"  {label}: {value}, {meaning}" for label, value, meaning in list_scores(report)]
    return "\n".join([*lines, f"model:  {run / 'best.keras'}", f"report: {run / 'report.html'}"])
