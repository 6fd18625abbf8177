"""The package as it is installed: what is in it, and where its files are found."""

import importlib.metadata
import importlib.resources
import subprocess
import sys
import tomllib
from pathlib import Path

import keras
import pytest

import keras_vit

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_distribution_has_the_librarys_version_and_the_command():
    distribution = importlib.metadata.distribution("keras-vit-classifier")

    assert distribution.version == keras_vit.__version__
    assert {(e.name, e.value) for e in distribution.entry_points} == {
        ("keras-vit", "keras_vit_cli:main")
    }


def test_every_folder_of_code_is_packaged():
    folders = {path.parent for path in (ROOT / "keras_vit").rglob("__init__.py")}
    folders -= {ROOT / "keras_vit" / "cli"}
    modules = {".".join(path.relative_to(ROOT).parts) for path in folders}

    packages = set(PROJECT["tool"]["setuptools"]["packages"])

    assert packages == modules | {"keras_vit.training", "keras_vit_cli"}


def test_every_file_that_is_no_code_is_packaged():
    data = PROJECT["tool"]["setuptools"]["package-data"]
    folders = {"keras_vit": ROOT / "keras_vit", "keras_vit.training": ROOT / "training"}
    for package, folder in folders.items():
        packaged = {path for pattern in data.get(package, []) for path in folder.glob(pattern)}
        files = {path for path in folder.rglob("*") if path.is_file()}
        files = {path for path in files if path.suffix not in (".py", ".pyc")}

        assert files <= packaged, package


def test_the_recipes_are_found_as_resources_of_the_package():
    folder = importlib.resources.files("keras_vit.training") / "recipes"

    assert {"digits.toml", "folder.toml"} <= {file.name for file in folder.iterdir()}


def test_the_recipes_are_found_in_a_checkout_that_is_not_installed(tmp_path):
    site_packages = Path(keras.__file__).parents[1]
    # Without site (-S) no editable install is seen, only what stands in these folders.
    code = (
        f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(site_packages)!r}]; "
        "from keras_vit.recipe import Recipe, shipped_recipes; "
        "print(Recipe.load('digits').name, shipped_recipes()['digits'])"
    )

    result = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, cwd=tmp_path
    )

    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["digits", str(ROOT / "training" / "recipes" / "digits.toml")]


@pytest.mark.parametrize("name", ["tensorflow", "keras", "tensorflow-datasets", "keras-cv"])
def test_the_persons_own_choices_are_required(name):
    required = [text.partition(">")[0] for text in PROJECT["project"]["dependencies"]]

    assert name in required


def test_no_requirement_is_without_a_lower_bound_that_was_run():
    required = PROJECT["project"]["dependencies"]
    for extra in ("serve", "onnx", "test"):
        required = required + PROJECT["project"]["optional-dependencies"][extra]
    required = [text for text in required if not text.startswith("keras-vit-classifier")]

    assert all(">=" in text for text in required)


@pytest.mark.parametrize("name", keras_vit.__all__)
def test_every_public_name_is_there(name):
    assert getattr(keras_vit, name) is not None
    assert name in dir(keras_vit)


def test_an_unknown_name_is_refused_by_name():
    with pytest.raises(AttributeError, match="'keras_vit' has no attribute 'bulid_vit'"):
        keras_vit.bulid_vit  # noqa: B018 - the look-up is what is tested
