"""Keep standard output for the one document that `--json` promises."""

import contextlib
import json
import sys
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def progress_on(stream: Any) -> Iterator[None]:
    """Send what the work prints (progress bars, notes of libraries) to another stream."""
    with contextlib.redirect_stdout(stream):
        yield


def print_json(document: Any) -> None:
    """Print one JSON document; in ASCII, so that every terminal and pipe can take it."""
    json.dump(document, sys.stdout, indent=2, allow_nan=False)
    print()
