"""Assemble the verbs into one command and end it with an exit status."""

import os
import sys
from typing import Annotated

import typer

from .data import show
from .evaluate import evaluate
from .failures import INTERRUPTED, complain, status_of
from .predict import predict
from .recipes import copy, recipes
from .train import train
from .version import print_version

app = typer.Typer(
    help="From a folder of images to a Vision Transformer in production.",
    rich_markup_mode=None,  # rich's markup alone costs 0.2 s
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in (train, evaluate, predict, recipes, copy):
    app.command()(verb)

data_app = typer.Typer(help="Look at data before training on it.", rich_markup_mode=None)
data_app.command()(show)
app.add_typer(data_app, name="data")


@app.callback()
def _keras_vit(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=print_version,
            is_eager=True,
            help="Show the versions of keras_vit, Keras and TensorFlow and the devices.",
        ),
    ] = False,
) -> None:
    # What belongs to no verb; without a docstring, since typer would show it as the help.
    del version


def main() -> None:
    """Run the command `keras-vit` and leave with its exit status."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by who started us
            setattr(sys, name, open(os.devnull, "w"))
        # A terminal or pipe that cannot take a file's name gets it with escapes, not a crash.
        getattr(sys, name).reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit status."""
    try:
        status = app(arguments or ["--help"], prog_name="keras-vit", standalone_mode=False) or 0
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    except Exception as error:
        status = status_of(error)
        if status is None:
            raise
        return status
