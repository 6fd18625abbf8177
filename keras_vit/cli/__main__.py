"""Run the command line by `python -m keras_vit_cli`."""

from .app import main

main()
