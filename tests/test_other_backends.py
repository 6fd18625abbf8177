"""The layers' contract and the NumPy comparison on Keras' JAX and PyTorch backends."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

FILES = ["test_layers.py", "test_attention.py", "test_model.py"]
SAME_TESTS = "contract or numpy"


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_the_layers_and_the_model_do_the_same_on_another_backend(backend):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    command = [sys.executable, "-m", "pytest", "-q", "--noconftest", "-k", SAME_TESTS, *FILES]
    environment = {**os.environ, "KERAS_BACKEND": backend}
    result = subprocess.run(
        command, cwd=Path(__file__).parent, env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout
