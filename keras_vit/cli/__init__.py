"""The command line `keras-vit`: one short function per verb."""

from .app import main

__all__ = ["main"]
