"""The parent's side of a contestant's process: start, ask, watch, stop."""

import contextlib
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
ANSWER_SECONDS = 180  # compiling a training step by XLA on a slow machine included


class ChildError(Exception):
    """A contestant could not do its part; the message is one line."""


class Child:
    """One process of `tests.benchmarks.child`, alive until it is closed."""

    def __init__(self, contestant, size, precision):
        self.contestant, self.failure = contestant, None
        self.waiting_cpu_seconds, self.waiting_seconds = 0.0, 0.0
        self.started = time.time()
        self.errors = tempfile.TemporaryFile()
        environment = {"TF_ENABLE_ONEDNN_OPTS": "1", "KERAS_BACKEND": "tensorflow", **os.environ}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.child", contestant, size, precision],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            cwd=ROOT,
            env={**environment, "TF_CPP_MIN_LOG_LEVEL": "3"},
        )
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ)
        self.tasks = self._answer()["tasks"]

    def prepare(self, task):
        return self._ask({"do": "prepare", "task": task})

    def run(self, task, num_steps):
        return self._ask({"do": "run", "task": task, "num_steps": num_steps})

    def _ask(self, request):
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except (BrokenPipeError, ValueError):  # it has ended, or was closed after a failure
            raise ChildError(self.failure or self._last_words()) from None
        return self._answer()

    def _answer(self):
        if not self.selector.select(ANSWER_SECONDS):
            self.failure = f"no answer in {ANSWER_SECONDS} s"
            self.close()
            raise ChildError(self.failure)
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            raise ChildError(self._last_words())
        return json.loads(line)

    def _last_words(self):
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"ended with status {self.process.returncode}"

    def cpu_seconds(self):
        """User and system time so far; 0 where /proc does not say."""
        try:
            text = Path(f"/proc/{self.process.pid}/stat").read_text()
        except OSError:
            return 0.0
        fields = text.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self):
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(BrokenPipeError):  # a request that it never read
            self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()
        self.selector.close()
