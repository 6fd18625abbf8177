"""Interleaved measurement: every contestant in turn, round after round."""

import time
from dataclasses import dataclass, field

from tests.benchmarks.process import Child, ChildError

MIN_ROUNDS = 3


@dataclass
class Entry:
    """One line of a table: a task of a process and the seconds of its steps, one a round."""

    label: str
    child: Child
    task: str
    num_steps: int = 1
    seconds: list = field(default_factory=list)
    peak_memory: int = 0
    failure: str | None = None


def measure(entries, num_rounds, budget):
    """Prepares all entries, then lets each run once a round; at least three rounds.

    Args:
        entries: In the order of their turns.
        num_rounds: At most so many.
        budget: Seconds after which no further round begins.
    """
    children = {id(entry.child): entry.child for entry in entries}.values()
    for entry in entries:
        _guard(entry, lambda entry=entry: _prepare(entry))
    start = time.monotonic()
    for number in range(num_rounds):
        if number >= MIN_ROUNDS and time.monotonic() - start > budget:
            break
        for entry in entries:
            if entry.failure is None:
                _guard(entry, lambda entry=entry: _turn(entry, children))


def _guard(entry, action):
    try:
        action()
    except ChildError as error:
        entry.failure = str(error)


def _prepare(entry):
    entry.num_steps = entry.child.prepare(entry.task)["num_steps"]


def _turn(entry, children):
    """One turn; notes what the others used of the CPU meanwhile: a waiting one must not spin."""
    waiting = [child for child in children if child is not entry.child]
    before, start = [child.cpu_seconds() for child in waiting], time.monotonic()
    answer = entry.child.run(entry.task, entry.num_steps)
    for child, seconds in zip(waiting, before, strict=True):
        child.waiting_cpu_seconds += max(0.0, child.cpu_seconds() - seconds)
        child.waiting_seconds += time.monotonic() - start
    entry.seconds.append(answer["seconds"] / entry.num_steps)
    entry.peak_memory = answer["peak_memory"]
