"""The rules of the house that no single room can hold: who imports whom, and what stands once."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# The rooms from the ground up, and the files of those that have several. A room may import those
# above it in this list, files of its own room included; a new file takes its place here first.
ROOMS = {
    "files": {"files"},
    "layers": {"layers", "attention"},
    "images": {"images", "chunks", "decoding", "headers", "pillow_formats", "unreadable"},
    "optim": {"optim"},
    "strategy": {"strategy"},
    "augment": {"augment"},
    "model": {"model"},
    "data": {"data"},
    "checkpoint": {"checkpoint"},
    "evaluation": {"evaluation", "metrics"},
    "prediction": {"prediction"},
    "resume": {"resume", "callbacks"},
    "recipe": {"recipe", "recipe_errors"},
    "report": {
        "report",
        "charts",
        "confusion",
        "drawing",
        "lettering",
        "source_chart",
        "summary",
    },
    "run": {"run"},
    "training": {"training"},
    "cli": {"cli"},
}
# Rooms that know no other room, so that each can be read alone.
ALONE = {"layers", "images", "optim", "strategy", "augment", "evaluation"}

# The only rooms that may import a third-party package that is slow, odd or about to go.
OWNERS = {
    "keras_cv": {"augment"},
    "tensorflow_datasets": {"data"},
    "matplotlib": {"report"},
    "jinja2": {"report"},
    "sklearn": {"data", "evaluation"},
    "PIL": {"images", "report"},
    "typer": {"cli"},
    "rich": {"cli"},
    "fastapi": set(),
    "safetensors": set(),
    "torch": set(),
}
# Rooms that must run on every backend of Keras, and so know no TensorFlow when imported.
ANY_BACKEND = {"files", "layers", "model", "optim", "checkpoint"}


def sources():
    """Return every source file of the package, with the name of its room."""
    files = {path: path.relative_to(ROOT / "keras_vit").parts[0] for path in _package_files()}
    files = {
        path: name.removesuffix(".py") for path, name in files.items() if name != "__init__.py"
    }
    return files | dict.fromkeys((ROOT / "training").glob("*.py"), "training")


def _package_files():
    return (ROOT / "keras_vit").rglob("*.py")


def room_of(name):
    """Return the room that a file or folder of the package belongs to."""
    rooms = [room for room, parts in ROOMS.items() if name in parts]
    assert rooms, f"{name} has no place in ROOMS: which rooms may it import?"
    return rooms[0]


def imports(path, top_level_only=False):
    """Return the full names of the modules that a file imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = set()
    for node in tree.body if top_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            # `from keras_vit import model` names a module, `from keras_vit.model import x` a part.
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def rooms_imported(path):
    """Return the rooms of ours that a file imports."""
    ours = [name.split(".") for name in imports(path)]
    ours = [parts[1] for parts in ours if parts[0] == "keras_vit" and len(parts) > 1]
    known = set().union(*ROOMS.values())
    return {room_of(name) for name in ours if name in known}


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_room_imports_only_rooms_above_it(path):
    order = list(ROOMS)
    room = room_of(sources()[path])

    too_low = {other for other in rooms_imported(path) if order.index(other) > order.index(room)}

    assert not too_low, f"{room} must not know {too_low}"
    if room in ALONE:
        assert rooms_imported(path) <= {room, "files"}


@pytest.mark.parametrize("package", OWNERS)
def test_a_third_party_package_has_one_owner(package):
    users = {
        room_of(name)
        for path, name in sources().items()
        if any(module.split(".")[0] == package for module in imports(path))
    }

    assert users <= OWNERS[package]


def test_only_strategy_knows_distribution():
    users = {
        room_of(name)
        for path, name in sources().items()
        if "distribute." in path.read_text(encoding="utf-8").replace("tf.distribute strategy", "")
    }

    assert users <= {"strategy"}


@pytest.mark.parametrize("package", ["tensorflow", "jax", "torch"])
def test_layers_and_model_are_written_for_every_backend(package):
    for path, name in sources().items():
        if room_of(name) in ANY_BACKEND:
            modules = {module.split(".")[0] for module in imports(path, top_level_only=True)}
            assert package not in modules, path


def test_fit_is_called_once_and_in_plain_sight():
    calls = [
        path.relative_to(ROOT).as_posix()
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "fit"
    ]

    assert calls == ["training/train.py"]


def test_the_command_line_imports_the_library_only_inside_its_verbs():
    for path in (ROOT / "keras_vit" / "cli").glob("*.py"):
        modules = {module.split(".")[0] for module in imports(path, top_level_only=True)}
        assert modules <= set(sys.stdlib_module_names) | {"typer"}, path


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_short_and_says_its_responsibility_first(path):
    text = path.read_text(encoding="utf-8")

    assert len(text.splitlines()) <= 360  # about 300; beyond it look for a second responsibility
    first_line = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
    assert first_line.endswith((".", ":")), first_line


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_name_says_nothing(path):
    assert path.stem not in {"utils", "common", "helpers", "misc", "base"}


@pytest.mark.parametrize("statement", ["import keras, keras_vit", "import keras_vit, keras"])
def test_importing_the_library_registers_its_layers_in_either_order(statement):
    code = f"{statement}; print(keras.saving.get_registered_object('keras_vit>Patches').__name__)"

    result = new_process(code)

    assert (result.returncode, result.stdout) == (0, "Patches\n"), result.stderr


def test_importing_the_library_brings_nothing_heavy():
    heavy = {"tensorflow_datasets", "keras_cv", "keras_hub", "tf_keras", "torch", "jax"}
    # Keras brings some of these itself where they are installed; nothing may come on top.
    heavy |= {"matplotlib", "sklearn", "fastapi", "jinja2", "keras_vit_cli", "PIL", "rich"}
    code = (
        "import sys, keras; of_keras = set(sys.modules); import keras_vit; "
        f"found = {heavy!r} & (set(sys.modules) - of_keras); "
        "sys.exit(f'imported {found}' if found else 0)"
    )

    result = new_process(code)

    assert (result.returncode, result.stdout) == (0, ""), result.stderr


def new_process(code):
    """Run Python code in a new process in which a warning is an error."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=300
    )


def test_importing_the_library_changes_no_environment():
    code = (
        "import os; before = dict(os.environ); import keras, tensorflow; "
        "stock = dict(os.environ); import keras_vit; "
        "assert dict(os.environ) == stock, set(os.environ.items()) ^ set(stock.items())"
    )

    result = new_process(code)

    assert result.returncode == 0, result.stderr
