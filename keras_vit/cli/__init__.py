"""The command line `keras-vit`: one short function per verb.

In the wheel this folder is the top-level package `keras_vit_cli`, so that `keras-vit --help` does
not import `keras_vit` and with it TensorFlow. Each verb imports what it needs when it runs.
"""

from .app import main

__all__ = ["main"]
