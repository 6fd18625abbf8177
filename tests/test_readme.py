"""Every example of the README, run exactly as printed."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from PIL import Image

from keras_vit_cli.app import app, run

ROOT = Path(__file__).parents[1]
DOCUMENTS = ["README.md", "training/README.md"]


def blocks(language, documents=DOCUMENTS):
    """Return the fenced blocks of a language, in order."""
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in documents]
    pattern = rf"^```{language}\n(.*?)^```$"
    return [b for text in texts for b in re.findall(pattern, text, re.DOTALL | re.MULTILINE)]


def commands():
    """Return the words of every `keras-vit` command in the documents and the recipes' headers."""
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    lines = [part.strip() for line in lines for part in line.split("|")]
    for name in DOCUMENTS:
        text = (ROOT / name).read_text(encoding="utf-8")
        lines += re.findall(r"`(keras-vit [^`]*)`", text)
    for path in (ROOT / "training" / "recipes").glob("*.toml"):
        text = path.read_text(encoding="utf-8")
        lines += re.findall(r"^# Command +(keras-vit .*)$", text, re.MULTILINE)
    return sorted({line for line in lines if line.startswith("keras-vit ")})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder as a reader of the README has it by then: a run and a photo."""
    folder = tmp_path_factory.mktemp("reader")
    tiny = ["model.hidden_dim=8", "model.num_layers=1", "model.num_heads=2", "model.mlp_dim=8"]
    settings = [word for setting in tiny for word in ("--set", setting)]
    run_folder = str(folder / "runs" / "folder")
    assert run(["train", "digits", "--epochs=1", *settings, "-o", run_folder]) == 0
    noise = np.random.default_rng(0).integers(0, 255, (30, 40, 3), np.uint8)
    Image.fromarray(noise).save(folder / "photo.jpg")
    return folder


def test_the_readme_has_python_examples():
    assert len(blocks("python")) >= 3


@pytest.mark.parametrize("code", blocks("python"), ids=lambda code: code.splitlines()[0])
def test_a_python_example_runs_as_printed(code, folder):
    result = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", code],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=120,
    )

    assert result.returncode == 0, result.stderr


def test_the_script_of_ones_own_learns(folder):
    code = next(code for code in blocks("python") if "model.fit(" in code)
    code += "\nprint('accuracy', model.evaluate(data, verbose=0)[1])"

    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, timeout=120
    )

    assert float(result.stdout.rpartition("accuracy ")[2]) > 0.3, result.stderr


@pytest.mark.parametrize("line", commands())
def test_a_command_has_the_verbs_and_options_it_is_shown_with(line):
    command = typer.main.get_command(app)
    words = shlex.split(line)[1:]
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    known = {option for parameter in command.params for option in parameter.opts}

    used = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}

    assert not hasattr(command, "commands") or words in ([], ["--help"], ["--version"]), line
    assert used <= known | {"--help"}, line


def test_the_two_first_commands_are_the_ones_promised():
    assert blocks("sh")[0] == "pip install .\nkeras-vit train\n"
