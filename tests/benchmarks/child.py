"""A contestant's own process: prepares steps and runs them when asked, else sleeps.

Requests and answers are lines of JSON on standard input and output; whatever a library prints
goes to standard error.
"""

import importlib
import json
import os
import resource
import sys
import time
from pathlib import Path

from tests.benchmarks.sizes import CONTESTANTS, SIZES

TURN_SECONDS = 0.3  # a turn repeats short steps until it lasts about this long


class Steps:
    """The steps of one contestant by task, made when first asked for."""

    def __init__(self, contestant, size, precision):
        module = importlib.import_module(f"tests.benchmarks.{CONTESTANTS[contestant][1]}")
        self.preparations = module.make_steps(contestant, SIZES[size], precision)
        self.steps = {}

    def tasks(self):
        return {"tasks": list(self.preparations)}

    def prepare(self, task):
        """Warms up; answers when the first result was there and how many steps make a turn."""
        step = self.steps[task] = self.preparations[task]()
        step()
        first_answer = time.time()
        seconds = self.run(task, 1)["seconds"]
        if seconds < 1:
            seconds = self.run(task, 2)["seconds"] / 2
        num_steps = max(1, round(TURN_SECONDS / seconds))
        return {"first_answer": first_answer, "num_steps": num_steps}

    def run(self, task, num_steps):
        step, start = self.steps[task], time.perf_counter()
        for _ in range(num_steps):
            step()
        return {"seconds": time.perf_counter() - start}


def peak_memory():
    """Most resident bytes so far. `ru_maxrss` may include the parent's at the time of the fork."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def main():
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    steps = Steps(*sys.argv[1:4])
    answers.write(json.dumps(steps.tasks()) + "\n")
    for line in sys.stdin:
        request = json.loads(line)
        action = {"prepare": steps.prepare, "run": steps.run}[request.pop("do")]
        answers.write(json.dumps({**action(**request), "peak_memory": peak_memory()}) + "\n")


if __name__ == "__main__":
    main()
