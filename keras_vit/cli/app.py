"""Assemble the verbs into one command and turn what goes wrong into an exit status."""


def main() -> None:
    """Run the command `keras-vit`."""
    raise SystemExit("keras-vit: error: the verbs are not there yet")
