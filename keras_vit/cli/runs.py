"""Find what a MODEL argument means: a file, a run folder, or the newest run."""

from pathlib import Path

from .failures import say

RUNS = Path("runs")
BEST_MODEL = "best.keras"
MODEL_ENDINGS = (".keras",)


def find_model(argument: Path | None) -> Path:
    """Return the model file of an argument, saying which run was taken if none was named.

    Raises:
        ValueError: if there is no model there.
    """
    if argument is None:
        return newest_model()
    if argument.is_dir():
        if not (argument / BEST_MODEL).exists():
            raise ValueError(f"{argument}: no {BEST_MODEL} in this folder, so it is no finished run")
        return argument / BEST_MODEL
    if not argument.exists():
        raise ValueError(f"{argument}: no such model file or run folder")
    if argument.suffix not in MODEL_ENDINGS:
        raise ValueError(f"{argument}: expected a .keras file or a run folder")
    return argument


def newest_model() -> Path:
    """Return the model of the run that was written last, and say which it is.

    Raises:
        ValueError: if nothing was trained in the current folder.
    """
    models = sorted(RUNS.glob(f"*/{BEST_MODEL}"), key=lambda path: path.stat().st_mtime)
    if not models:
        raise ValueError(f"no MODEL given, and no run in {RUNS}/ of this folder; train one first")
    say(f"MODEL is the newest run, {models[-1].parent}")
    return models[-1]
