"""`keras-vit recipes` and `keras-vit copy`: what comes with the package, made to be copied."""

import difflib
import importlib.util
from pathlib import Path
from typing import Annotated

import typer


def recipes() -> int:
    """List the recipes, with what each reproduces."""
    for path in _shipped().values():
        if path.suffix == ".toml":
            first_line = path.read_text(encoding="utf-8").partition("\n")[0]
            print(f"{path.stem:22}{first_line.lstrip('# ')}")
    print("\nkeras-vit train NAME runs one; keras-vit copy NAME FILE.toml makes it yours.")
    return 0


def copy(
    name: Annotated[str, typer.Argument(help="A recipe, or train: the training script.")],
    file: Annotated[Path, typer.Argument(help="The file to write; it must not exist.")],
) -> int:
    """Copy a recipe or the training script to change it."""
    shipped = _shipped()
    if name not in shipped:
        close = difflib.get_close_matches(name, shipped, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"nothing is called {name!r}; {hint}there are: {', '.join(shipped)}")
    source = shipped[name]
    if file.suffix != source.suffix:
        raise ValueError(f"{file}: a copy of {name} must end in {source.suffix}")
    content = source.read_bytes()
    with file.open("xb") as target:
        target.write(content)
    print(f"{file} written")
    return 0


def _shipped() -> dict[str, Path]:
    """Return the files that can be copied, by name: the recipes and the training script.

    Looked up beside the package without importing it: a list should not wait for TensorFlow.
    """
    package = Path(importlib.util.find_spec("keras_vit").submodule_search_locations[0])
    inside, beside = package / "training", package.parent / "training"
    folder = inside if inside.is_dir() else beside  # beside: a checkout or an editable install
    files = {path.stem: path for path in sorted((folder / "recipes").glob("*.toml"))}
    return {**files, "train": folder / "train.py"}
