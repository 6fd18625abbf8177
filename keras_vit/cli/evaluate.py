"""`keras-vit evaluate`: how good a model is on a split, every picture of it counted once."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from .environment import prepare
from .failures import DONE, say
from .output import check_drawing, print_json, progress_on
from .runs import find_model, run_of


def evaluate(
    model: Annotated[
        Path | None,
        typer.Argument(metavar="MODEL", help="A .keras file or run folder; else the newest run."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="SOURCE", help="Other data, such as folder:PATH."),
    ] = None,
    data_dir: Annotated[str | None, typer.Option(help="Where tfds keeps its data sets.")] = None,
    split: Annotated[
        str | None, typer.Option(help="train, validation or test; else the last there is.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Pictures at once.")] = 64,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Draw the confusion matrix to this PNG.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> int:
    """Evaluate a model on a split."""
    if out:
        check_drawing(out)
    prepare()
    from keras_vit.checkpoint import load_any

    model_path = find_model(model)
    with progress_on(sys.stderr):
        loaded = load_any(model_path)
        source = _open_data(run_of(model_path), data, data_dir)
        chosen = _choose_split(source.splits, split)
        say(f"{model_path} on {chosen.name}, {len(chosen)} pictures")
        report = _evaluate(loaded, source.class_names, chosen, batch_size)
    if out:
        from keras_vit.report import draw_confusion

        draw_confusion(report, out)
    if json:
        print_json(report.to_json())
    else:
        print(_table(report.to_json()))
    return DONE


def _open_data(run: Path, source: str | None, data_dir: str | None) -> Any:
    """Open the data named, or those of the model's own run with the same splits."""
    from keras_vit.data import DataConfig, open_source
    from keras_vit.recipe import Recipe, make_config

    if source is None:
        recipe_path = run / "recipe.json"
        if not recipe_path.exists():
            raise ValueError(f"{recipe_path}: not there; name the data with --data")
        recipe = Recipe.load(recipe_path, [{"data": {"data_dir": data_dir}}] if data_dir else [])
        opened = open_source(recipe.data, recipe.seed)
    else:
        # Nothing is held back of data that the model was not trained on.
        table = {"source": source, "validation_fraction": 0.0, "test_fraction": 0.0}
        config = make_config(DataConfig, {**table, "data_dir": data_dir}, "data")
        opened = open_source(config, seed=0)
    for note in opened.notes:
        say(note)
    return opened


def _evaluate(model: Any, class_names: Sequence[str], split: Any, batch_size: int) -> Any:
    import numpy as np

    from keras_vit import evaluation
    from keras_vit.data import evaluation_batches

    places = np.array(_places_in(model.class_names, class_names))
    batches = evaluation_batches(split, model.preprocessing, batch_size)
    logits, labels = evaluation.collect(model.predict_batch, batches, len(split))
    if model.multi_label:
        of_data, labels = labels, np.zeros(logits.shape, labels.dtype)
        labels[:, places] = of_data
    else:
        labels = places[labels]
    return evaluation.evaluate(logits, labels, model.class_names, split.names, model.multi_label)


def _choose_split(splits: dict[str, Any], name: str | None) -> Any:
    """Return the split named, else test, else validation, else all there is."""
    if name is None:
        name = next(known for known in ("test", "validation", "train") if known in splits)
    if name not in splits:
        raise ValueError(f"no split is called {name!r}; there are: {', '.join(splits)}")
    return splits[name]


def _places_in(model_names: Sequence[str], data_names: Sequence[str]) -> list[int]:
    """Return, for each class of the data, its place among the model's classes.

    Raises:
        ValueError: if the data has classes that the model does not know.
    """
    unknown = sorted(set(data_names) - set(model_names))
    if unknown:
        raise ValueError(
            f"the data has classes the model does not know: {', '.join(unknown)}; "
            f"it knows: {', '.join(model_names)}"
        )
    places = {name: place for place, name in enumerate(model_names)}
    return [places[name] for name in data_names]


def _table(document: dict[str, Any]) -> str:
    """Return the report as lines for a terminal; of many classes only the worst."""
    from keras_vit.summary import list_scores, worst_classes

    lines = [f"{label:26}{value:>9}  {meaning}" for label, value, meaning in list_scores(document)]
    worst = worst_classes(document)
    rows = worst or document["per_class"]
    if worst:
        lines += ["", f"the {len(worst)} worst of {len(document['per_class'])} classes by F1"]
    width = max(5, *(len(row["class"]) for row in rows))
    lines += ["", f"{'class':{width}}  precision  recall      F1  support"]
    lines += [
        f"{row['class']:{width}}  {row['precision']:9.4f}  {row['recall']:6.4f}  "
        f"{row['f1']:6.4f}  {row['support']:7}"
        for row in rows
    ]
    return "\n".join(lines)
