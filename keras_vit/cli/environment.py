"""Make the process ready for TensorFlow before a verb imports it."""

import importlib.util
import os
import platform
import tempfile
from pathlib import Path

from .failures import say

# TensorFlow on Linux turns oneDNN on by itself on an x86 CPU that has one of these, and only there.
ONEDNN_BY_DEFAULT = {
    "avx512_vnni", "avx512_bf16", "avx_vnni", "amx_tile", "amx_int8", "amx_bf16",
}  # fmt: skip


def prepare() -> None:
    """Check the backend, quiet TensorFlow's log, and turn oneDNN on where it is left off.

    Only the command line does this: importing keras_vit changes no environment.

    Raises:
        ValueError: if Keras would run on another backend, or TensorFlow is missing.
    """
    backend = os.environ.get("KERAS_BACKEND", "tensorflow")
    if backend != "tensorflow":
        raise ValueError(f"KERAS_BACKEND is {backend!r}, the commands need 'tensorflow'")
    if os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true"):
        raise ValueError("TF_USE_LEGACY_KERAS is set, the commands need Keras 3: unset it")
    if importlib.util.find_spec("tensorflow") is None:
        raise ValueError("TensorFlow is not installed; run: pip install tensorflow")
    # Over the configuration file of Keras, which may name a backend for other projects.
    os.environ["KERAS_BACKEND"] = "tensorflow"
    if "TF_ENABLE_ONEDNN_OPTS" not in os.environ and leaves_onednn_off(_cpu_flags()):
        os.environ["TF_ENABLE_ONEDNN_OPTS"] = "1"
        say("oneDNN turned on, which TensorFlow leaves off on this CPU (TF_ENABLE_ONEDNN_OPTS=1)")
    if "TF_CPP_MIN_LOG_LEVEL" not in os.environ:
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # oneDNN calls its own fall-backs errors
        _load_tensorflow_quietly()


def _load_tensorflow_quietly() -> None:
    """Import TensorFlow and find its devices without what that writes past its own log level."""
    with tempfile.TemporaryFile() as log:
        kept = os.dup(2)
        os.dup2(log.fileno(), 2)
        try:
            import tensorflow as tf

            tf.config.list_physical_devices()
        except BaseException:
            log.seek(0)
            os.write(kept, log.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def leaves_onednn_off(cpu_flags: set[str]) -> bool:
    """Return whether TensorFlow would run without oneDNN on an x86 CPU with these flags."""
    return "avx2" in cpu_flags and not cpu_flags & ONEDNN_BY_DEFAULT


def _cpu_flags() -> set[str]:
    """Return the CPU's flags as Linux lists them, none on other systems."""
    cpu_info = Path("/proc/cpuinfo")
    if platform.system() != "Linux" or not cpu_info.exists():
        return set()
    lines = cpu_info.read_text(errors="replace").splitlines()
    return next((set(line.split()[2:]) for line in lines if line.startswith("flags")), set())
