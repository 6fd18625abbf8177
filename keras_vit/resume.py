"""Exact resume: a run that was killed anywhere goes on to the very same weights.

A checkpoint holds the values of every variable (weights, seed generators, optimizer with its
averages and loss scale, running metrics), the global step, and what the other callbacks remember.
The data need no state: every batch is a function of the step.
"""

import hashlib
import io
import json
import signal
import threading
import time

import keras
import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from keras_vit.files import replacing

KEPT = 2  # the newest may be broken by the machine, the one before is then whole


class CheckpointConfig(BaseModel):
    """How often a run saves its state inside an epoch; the end of each epoch always does.

    It changes nothing that is computed, so a run may go on with other values.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    every_minutes: float = Field(default=5.0, gt=0)
    every_steps: int | None = Field(default=None, ge=1)


class Preempted(RuntimeError):  # noqa: N818 - it is named for what happened
    """The system asked the run to stop; it was saved and goes on by the same command."""


def write_checkpoint(folder, step, arrays, state):
    """Writes `<step>.ckpt`: a SHA-256 digest, then an `.npz`; keeps the newest two.

    Args:
        folder: Where the checkpoints are.
        step: Global step.
        arrays: Values of variables, in their order.
        state: Anything JSON takes.
    """
    body = io.BytesIO()
    text = np.frombuffer(json.dumps(state).encode(), np.uint8)
    np.savez(body, state=text, **{f"array_{i:05d}": value for i, value in enumerate(arrays)})
    body = body.getbuffer()
    with replacing(folder / f"{step:012d}.ckpt") as temporary, open(temporary, "wb") as file:
        file.write(hashlib.sha256(body).digest())
        file.write(body)
    for old in checkpoints(folder)[:-KEPT]:
        old.unlink(missing_ok=True)


def checkpoints(folder):
    """The checkpoint files of a folder, oldest first."""
    return sorted(folder.glob("[0-9]*.ckpt"))


def read_checkpoint(path):
    """Reads a checkpoint back: `(arrays, state)`.

    Raises:
        ValueError: The digest does not hold: the file is cut off or damaged.
    """
    data = path.read_bytes()
    if hashlib.sha256(memoryview(data)[32:]).digest() != data[:32]:
        raise ValueError(f"{path}: damaged checkpoint (its digest does not hold)")
    with np.load(io.BytesIO(data[32:]), allow_pickle=False) as file:
        state = json.loads(file["state"].tobytes().decode())
        arrays = [file[name] for name in sorted(file.files) if name != "state"]
    return arrays, state


def newest_checkpoint(folder):
    """The newest whole checkpoint, `(arrays, state)`, or None where a run has none yet.

    A damaged newest one is passed over with a printed line.

    Raises:
        ValueError: There are checkpoints and none is whole; names the newest.
    """
    paths = checkpoints(folder)
    problems = []
    for path in reversed(paths):
        try:
            return read_checkpoint(path)
        except ValueError as error:
            problems.append(str(error))
            print(f"{error}; taking the one before", flush=True)
    if problems:
        raise ValueError(f"{problems[0]}, and there is no whole one before it; use --fresh")
    return None


class ExactResume(keras.callbacks.Callback):
    """Saves a run's whole state as it goes, and puts it back when the run goes on.

    It must be the last callback in the list: what it saves is what the others have become.

    Args:
        folder: Of the checkpoints.
        steps_per_epoch: Of the run.
        parts: Callbacks with `state()` and `restore(state)`, by name.
        every_minutes: Time between two checkpoints inside an epoch; each epoch's end is one.
        every_steps: Steps between two checkpoints inside an epoch, or None.
        facts: What the run must find again to go on exactly, as JSON; a difference is refused.

    Raises:
        Preempted: After SIGTERM, when everything is saved.
        ValueError: The checkpoints are damaged, or the run's facts have changed.
    """

    def __init__(
        self, folder, steps_per_epoch, parts, every_minutes=5.0, every_steps=None, facts=None
    ):
        super().__init__()
        self.folder = folder
        self.steps_per_epoch = steps_per_epoch
        self.parts = parts
        self.every_minutes = every_minutes
        self.every_steps = every_steps
        self.facts = facts or {}
        self.step, self.stopped = 0, False
        self._arrays = None
        self._stop_signal = None
        self._writing = None
        self._failure = None
        if (found := newest_checkpoint(folder)) is not None:
            self._restore_position(*found)

    def _restore_position(self, arrays, state):
        changes = [
            f"{name}: {self.facts[name]!r} now, {state['facts'].get(name)!r} then"
            for name in self.facts
            if self.facts[name] != state["facts"].get(name)
        ]
        if changes:
            raise ValueError(
                f"{self.folder.parent}: this run was started with other facts; "
                f"{'; '.join(changes)}; use --fresh or another --out"
            )
        self.step, self.stopped = state["step"], state["stopped"]
        for name, part in self.parts.items():
            part.restore(state["parts"][name])
        self._arrays = arrays

    @property
    def initial_epoch(self):
        return self.step // self.steps_per_epoch

    def on_train_begin(self, logs=None):
        self.model.optimizer.build(self.model.trainable_variables)
        if self._arrays is not None:
            self._restore_variables()
        self._saved_at = time.monotonic()
        self._handlers = {
            number: signal.signal(number, self._ask_to_stop)
            for number in (signal.SIGTERM, signal.SIGINT)
            if threading.current_thread() is threading.main_thread()
        }

    def _variables(self):
        model = self.model
        return [*model.variables, *model.optimizer.variables, *model.metrics_variables]

    def _restore_variables(self):
        variables = self._variables()
        shapes = [tuple(variable.shape) for variable in variables]
        if shapes != [array.shape for array in self._arrays]:
            raise ValueError(f"{self.folder}: the checkpoint is of another model or optimizer")
        for variable, array in zip(variables, self._arrays, strict=True):
            variable.assign(array)
        skipped = self.step % self.steps_per_epoch
        if skipped:
            self._skip(skipped // self.model.steps_per_execution)
        self._arrays = None

    def _skip(self, calls):
        """Lets `fit` count the steps that this epoch has behind it, without doing them."""
        metrics = [(v, v.numpy().copy()) for v in self.model.metrics_variables]
        train_function = self.model.train_function

        def already_done(iterator):
            nonlocal calls
            calls -= 1
            if calls == 0:
                for variable, value in metrics:  # `fit` has reset them at the epoch's begin
                    variable.assign(value)
                self.model.train_function = train_function
            return {}

        self.model.train_function = already_done

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        step = self._epoch * self.steps_per_epoch + batch + 1
        if step <= self.step or batch + 1 >= self.steps_per_epoch:
            return  # done before; or the epoch's end, whose checkpoint comes after validation
        self.step = step
        due = time.monotonic() - self._saved_at > 60 * self.every_minutes
        due = due or (self.every_steps and step % self.every_steps == 0)
        if due or self._stop_signal:
            self._save()
        self._stop_if_asked()

    def on_epoch_end(self, epoch, logs=None):
        self.step = (epoch + 1) * self.steps_per_epoch
        self._save()
        self._stop_if_asked()

    def on_train_end(self, logs=None):
        self.close()

    def close(self):
        """Waits for the last checkpoint to be written and gives the signals back."""
        self._wait()
        for number, handler in self.__dict__.pop("_handlers", {}).items():
            signal.signal(number, handler)

    def _save(self):
        """Copies the state now and writes it in the background."""
        self._wait()
        arrays = [variable.numpy().copy() for variable in self._variables()]
        state = {
            "step": self.step,
            "stopped": bool(self.model.stop_training),
            "facts": self.facts,
            "parts": {name: part.state() for name, part in self.parts.items()},
        }
        state = json.loads(json.dumps(state))  # the rows may grow while it is written
        self._writing = threading.Thread(target=self._write, args=(self.step, arrays, state))
        self._writing.start()
        self._saved_at = time.monotonic()

    def _write(self, step, arrays, state):
        try:
            write_checkpoint(self.folder, step, arrays, state)
        except OSError as error:
            self._failure = error

    def _wait(self):
        if self._writing is not None:
            self._writing.join()
            self._writing = None
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise OSError(
                failure.errno,
                f"{failure.strerror}: the checkpoint was not written, the one before it stays",
                str(self.folder),
            )

    def _ask_to_stop(self, number, frame):
        if self._stop_signal == signal.SIGINT:
            raise KeyboardInterrupt  # the second Ctrl-C does not wait
        self._stop_signal = number

    def _stop_if_asked(self):
        if self._stop_signal is None:
            return
        self.close()
        if self._stop_signal == signal.SIGINT:
            raise KeyboardInterrupt
        raise Preempted(f"stopped by SIGTERM at step {self.step}; everything is saved")
