"""Write what a run came to as one HTML file that needs nothing else, not even a network."""

from __future__ import annotations

import base64
import csv
import io
import json
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit import summary
from keras_vit.charts import draw_curves, list_panels, panel_svg
from keras_vit.confusion import MOST_COUNTED, draw_confusion, heat, pool
from keras_vit.drawing import draw_grid
from keras_vit.evaluation import Mistake, Report
from keras_vit.files import write_text

__all__ = ["draw_confusion", "draw_curves", "draw_grid", "read_log", "write_report"]

TEMPLATE = "report.html.jinja"
MOST_BLOCKS = 320  # a side of the page's matrix, so that one mistake is more than a speck
MOST_EXACT = 128  # side of a picture up to which it is kept bit for bit


def write_report(
    folder: str | os.PathLike,
    document: Mapping[str, Any] | None = None,
    rows: Sequence[Mapping[str, float]] | None = None,
    mistakes: Sequence[tuple[Mistake, np.ndarray]] = (),
) -> Path:
    """Write a run's `report.html`.

    Args:
        folder: The run folder.
        document: The contents of `report.json`; read from the folder when not given.
        rows: One mapping an epoch, as in `log.csv`; read from the folder when not given.
        mistakes: The worst mistakes, each with its picture: `(H, W, 3)` or `(H, W, 1)` in
            [0, 255], as the model saw it.

    Returns:
        The path of the page.

    Raises:
        ValueError: If a file that is needed is not in the folder.
    """
    folder = Path(folder)
    if document is None:
        document = json.loads(_read(folder / "report.json"))
    history = read_log(folder / "log.csv") if rows is None else _columns(rows)
    path = folder / "report.html"
    write_text(path, render(folder, document, history, mistakes))
    return path


def read_log(path: str | os.PathLike) -> dict[str, list[float]]:
    """Read the columns of a `log.csv`; an empty field is nan.

    Raises:
        ValueError: If there is no such file.
    """
    rows = csv.DictReader(io.StringIO(_read(Path(path))))
    return _columns([{key: float(value or "nan") for key, value in row.items()} for row in rows])


def render(
    folder: Path,
    document: Mapping[str, Any],
    history: Mapping[str, Sequence[float]],
    mistakes: Sequence[tuple[Mistake, np.ndarray]] = (),
) -> str:
    """Return the page as text that UTF-8 can hold."""
    page = _template().render(
        name=document.get("recipe", {}).get("name", folder.name),
        lead=summary.describe(document),
        split=document.get("split"),
        num_examples=document.get("num_examples"),
        scores=summary.list_scores(document),
        panels=[(panel, panel_svg(panel)) for panel in list_panels(history)],
        matrix=_show_matrix(document),
        classes=document.get("per_class", []),
        worst_classes=summary.worst_classes(document),
        mistakes=[(mistake, _show_picture(pixels)) for mistake, pixels in mistakes],
        command=shlex.join(["keras-vit", "train", str(folder / "recipe.json"), "--out", "again"]),
        facts=summary.list_facts(document),
    )
    # A name that was no UTF-8 on disk comes with lone surrogates: show its bytes as \xff.
    return page.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _template() -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"percent": summary.percent, "count": summary.count}
    return environment.get_template(TEMPLATE)


def _read(path: Path) -> str:
    if not path.is_file():
        raise ValueError(f"{path}: no such file, so there is nothing to report")
    return path.read_text(encoding="utf-8")


def _columns(rows: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}


def _show_matrix(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what a page shows: rows of `(count, opacity)` while there are few, else a picture."""
    if document.get("confusion") is None:
        return None
    report = Report.from_json(document)
    names, colors = report.class_names, heat(report.confusion)
    matrix = {
        "names": names,
        "pairs": summary.confused_pairs(report.confusion, names),
        "rows": None,
        "picture": None,
        "joined": False,
    }
    if len(names) > MOST_COUNTED:
        blocks = pool(colors, MOST_BLOCKS).round().astype(np.uint8)
        return matrix | {"picture": _data_uri(blocks, "PNG"), "joined": len(blocks) < len(names)}
    opacities = (colors[:, :, 3] / 255).round(3).tolist()
    both = zip(report.confusion.tolist(), opacities, strict=True)
    return matrix | {"rows": [list(zip(*row, strict=True)) for row in both]}


def _show_picture(pixels: np.ndarray) -> str:
    whole = np.clip(np.rint(pixels), 0, 255).astype(np.uint8)
    return _data_uri(whole, "PNG" if max(whole.shape) <= MOST_EXACT else "JPEG")


def _data_uri(pixels: np.ndarray, kind: str) -> str:
    from PIL import Image

    stream = io.BytesIO()
    squeezed = pixels[:, :, 0] if pixels.shape[2] == 1 else pixels
    options = {"quality": 90} if kind == "JPEG" else {"optimize": True}
    Image.fromarray(squeezed).save(stream, kind, **options)
    encoded = base64.b64encode(stream.getvalue()).decode("ascii")
    return f"data:image/{kind.lower()};base64,{encoded}"
