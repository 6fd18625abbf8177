"""The run folder: claimed by one recipe, gone on with, moved aside, finished."""

import contextlib
import json
import os
from pathlib import Path

from keras_vit.files import write_text
from keras_vit.recipe import Recipe

RECIPE, REPORT = "recipe.json", "report.json"


@contextlib.contextmanager
def claim(out, recipe, fresh=False):
    """Makes a folder the run of `recipe` for as long as the block lasts.

    Args:
        out: The folder; made with what is above it.
        recipe: The resolved `Recipe`; kept as `recipe.json`, equal settings go on with the run.
        fresh: Move what is there to `<out>.1`, `.2`, ... and start anew.

    Raises:
        ValueError: The folder holds a run with other settings, or something else; or another
            process trains in it.
    """
    out = Path(out)
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out}: a run needs a folder, and this is a file")
    if fresh and out.exists():
        _move_aside(out)
    kept = out / RECIPE
    if kept.exists():
        _check_same(out, recipe)
    elif out.exists() and any(out.iterdir()):
        raise ValueError(f"{out}: not empty and no run (it has no {RECIPE}); use another --out")
    out.mkdir(parents=True, exist_ok=True)
    with _locked(out):
        if not kept.exists():
            write_text(kept, recipe.to_json())
        yield out


def finished(out):
    """The report of a run that is finished, or None."""
    path = Path(out) / REPORT
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def _check_same(out, recipe):
    differences = recipe.differences(Recipe.load(out / RECIPE))
    if differences:
        raise ValueError(
            f"{out}: holds a run with other settings; use --fresh or another --out. "
            f"Now, not then: {'; '.join(differences)}"
        )


def _move_aside(out):
    number = 1
    while (aside := out.with_name(f"{out.name}.{number}")).exists():
        number += 1
    os.rename(out, aside)
    print(f"{out}: the run that was there is now {aside}", flush=True)


@contextlib.contextmanager
def _locked(out):
    """Keeps a second process out of the folder; the system lets go when this one ends."""
    try:
        import fcntl
    except ImportError:  # Windows has no flock
        yield
        return
    with open(out / ".lock", "w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(f"{out}: another process is training in this folder") from None
        yield
