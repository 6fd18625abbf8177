"""Find the model that a MODEL argument means: the one named, or the newest run's."""

from pathlib import Path

from .failures import say

RUNS = Path("runs")


def find_model(argument: Path | None) -> Path:
    """Return the model file or run folder named, else the newest run, saying which it is.

    Raises:
        ValueError: if none is named and nothing was trained in the current folder.
    """
    if argument is not None:
        return argument
    from keras_vit.checkpoint import BEST_MODEL

    models = sorted(RUNS.glob(f"*/{BEST_MODEL}"), key=lambda path: path.stat().st_mtime)
    if not models:
        raise ValueError(f"no MODEL given, and no run in {RUNS}/ here; train one first")
    say(f"MODEL is the newest run, {models[-1].parent}")
    return models[-1].parent


def run_of(model: Path) -> Path:
    """Return the folder of the run that a model file or a run folder belongs to."""
    return model if model.is_dir() else model.parent
