"""Put the numbers of a `report.json` into the words and tables that a person reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

MOST_LISTED = 40  # classes up to which all are listed at once, in their own order
WORST_LISTED = 20
MOST_PAIRS = 10
MOST_VALUES = 12  # of one setting
SCORES = {  # key in report.json: what a person calls it, and what it means
    "top1": ("Top-1 accuracy", "pictures right"),
    "top5": ("Top-5 accuracy", "with the right class in the first five"),
    "mean_average_precision": ("Mean average precision", "over the classes that occur"),
    "f1_micro": ("F1, micro", "over all decisions"),
    "f1_macro": ("F1, macro", "mean of the classes"),
    "nll": ("Negative log-likelihood", "nats; the lower, the better"),
    "ece": ("Calibration error", "between confidence and accuracy, 15 bins"),
}


def percent(share: float | None, digits: int = 1) -> str:
    """Return a share as a person reads it; 100 % only when it is all."""
    if share is None:
        return "-"
    shown = f"{100 * share:.{digits}f}"
    if share < 1 and float(shown) == 100:
        shown = f"{100 - 10**-digits:.{digits}f}"
    return f"{shown} %"


def count(number: float | None) -> str:
    """Return a number with its thousands apart, whole from ten on."""
    if number is None:
        return "-"
    return f"{number:,.0f}" if number >= 10 or number == int(number) else f"{number:.1f}"


def duration(seconds: float) -> str:
    """Return a time in its two largest units."""
    if round(seconds) < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds:02} s"


def describe(document: Mapping[str, Any]) -> str:
    """Return in one sentence what was trained on what."""
    recipe = document.get("recipe", {})
    sentence = f"A Vision Transformer of {count(document['num_parameters'])} parameters"
    if "data" in recipe:
        pictures = count(document.get("splits", {}).get("train"))
        sentence += f", trained on {pictures} pictures of {recipe['data']['source']}"
    epochs = document["epochs"]
    sentence += f" for {count(epochs)} epoch{'s' * (epochs != 1)}"
    return f"{sentence} in {duration(document['train_seconds'])}."


def list_scores(document: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return `(label, value, meaning)` of each score there is."""
    scores = []
    for key, (label, meaning) in SCORES.items():
        value = document.get(key)
        if value is None:
            continue
        if key in ("top1", "top5"):
            num_examples = document["num_examples"]
            meaning = f"{count(round(value * num_examples))} of {count(num_examples)} {meaning}"
        scores.append((label, f"{value:.3f}" if key == "nll" else percent(value), meaning))
    return scores


def confused_pairs(confusion: np.ndarray, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the commonest mistakes: `{true, given, count, of}`, the most pictures first."""
    wrong = confusion * (1 - np.eye(len(names), dtype=confusion.dtype))
    order = np.argsort(-wrong, axis=None, kind="stable")[:MOST_PAIRS]
    return [
        {
            "true": names[true],
            "given": names[given],
            "count": int(wrong[true, given]),
            "of": int(confusion[true].sum()),
        }
        for true, given in zip(*np.unravel_index(order, wrong.shape), strict=True)
        if wrong[true, given]
    ]


def worst_classes(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the classes of lowest F1, where there are too many to list them all at once."""
    rows = document.get("per_class", [])
    if len(rows) <= MOST_LISTED:
        return []
    return sorted(rows, key=lambda row: row["f1"])[:WORST_LISTED]


def list_facts(document: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return tables of what there is to know of a run: its cost, its versions, what is set."""
    recipe = document.get("recipe", {})
    memory = document.get("peak_memory_mb")
    cost = {
        "training time": duration(document["train_seconds"]),
        "pictures a second": count(document.get("images_per_second")),
        "peak memory": None if memory is None else f"{count(memory)} MB",
        "parameters": count(document["num_parameters"]),
        "placement": document.get("placement"),
        "seed": recipe.get("seed"),
        "weights, SHA-256": document.get("weights_sha256"),
    }
    tables = {"run": cost, "versions": document.get("versions", {})}
    tables |= {name: table for name, table in recipe.items() if isinstance(table, dict)}
    return {
        title: {
            name.replace("_", " "): setting(value)
            for name, value in table.items()
            if value is not None
        }
        for title, table in tables.items()
    }


def setting(value: Any) -> str:
    """Return a setting as a person reads it; a long list by its length."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (list, dict)) and len(value) > MOST_VALUES:
        return f"{count(len(value))} values"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {setting(each)}" for name, each in value.items())
    if isinstance(value, list):
        return ", ".join(map(setting, value))
    return str(value)
