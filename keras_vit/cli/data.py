"""`keras-vit data`: look at data before training on it."""

from pathlib import Path
from typing import Annotated

import typer

from .environment import prepare
from .failures import DONE, say
from .output import check_drawing


def show(
    recipe: Annotated[
        str, typer.Argument(metavar="RECIPE|FILE.toml", help="What would be trained.")
    ] = "digits",
    out: Annotated[Path, typer.Option("--out", "-o", help="The PNG to write.")] = Path("grid.png"),
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="TABLE.KEY=VALUE", help="Change a setting; repeatable."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="SOURCE", help="data.source, such as folder:PATH."),
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="How many pictures.")] = 64,
) -> int:
    """Draw the first pictures that training will see, augmented as it will see them."""
    check_drawing(out)
    prepare()
    from keras_vit.data import open_source, training_batches
    from keras_vit.recipe import Recipe
    from keras_vit.report import draw_grid
    from keras_vit.training.train import preprocessing_of

    short_form = [] if data is None else [{"data": {"source": data}}]
    resolved = Recipe.load(recipe, [*(settings or []), *short_form])
    source = open_source(resolved.data, resolved.seed)
    for note in source.notes:
        say(note)
    split = source.splits["train"]
    resolved = resolved.resolve(len(source.class_names), source.num_channels)
    batch_size = min(count, len(split))
    batches = training_batches(
        split,
        preprocessing_of(resolved),
        resolved.augment,
        batch_size,
        resolved.seed,
        steps_per_epoch=len(split) // batch_size,
    )
    pixels, labels = next(batches.as_numpy_iterator())
    draw_grid(pixels, [source.class_names[label] for label in labels], out)
    say(f"{out}: {batch_size} of {len(split)} pictures of {resolved.data.source}, as trained on")
    return DONE
