"""Turn what goes wrong into lines for a person and an exit status."""

import os
import sys

import typer

# The contract's exit statuses.
DONE, SOME_FAILED, USER_INPUT, PREEMPTED, INTERRUPTED = 0, 1, 2, 75, 130

OUR_PACKAGES = {"keras_vit", "keras_vit_cli"}


def complain(message: object) -> None:
    """Print a message to standard error; each of its lines says whose it is."""
    for line in str(message).splitlines() or [""]:
        print(f"keras-vit: error: {line}", file=sys.stderr)


def say(message: str) -> None:
    """Print a line for the person to standard error, out of the way of results."""
    print(f"keras-vit: {message}", file=sys.stderr)


def status_of(error: Exception) -> int | None:
    """Complain about a person's mistake and return its exit status; None if it is none.

    A ValueError that our own code raised is about what the person gave. One from inside Keras,
    TensorFlow or NumPy is a fault of ours, and keeps its traceback.
    """
    if isinstance(error, BrokenPipeError):
        # Who reads our output has gone (`| head`); Python would complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return SOME_FAILED
    if isinstance(error, typer.TyperException):
        complain(error.format_message())
        return USER_INPUT
    if isinstance(error, OSError) and error.strerror:
        complain(f"{error.filename}: {error.strerror}" if error.filename else error.strerror)
        return USER_INPUT
    if isinstance(error, ValueError) and _raised_by(error) in OUR_PACKAGES:
        complain(error)
        return USER_INPUT
    return None


def _raised_by(error: Exception) -> str:
    """Return the top-level package whose code raised an error."""
    trace = error.__traceback__
    while trace.tb_next:
        trace = trace.tb_next
    return trace.tb_frame.f_globals["__name__"].partition(".")[0]
