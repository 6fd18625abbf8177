"""What watches a run: progress, the log, the best model, and a stop at a loss that is no number."""

import csv
import io
import math
import sys
import time

import keras

from keras_vit import checkpoint
from keras_vit.files import write_text


class NonFiniteLoss(RuntimeError):  # noqa: N818 - it is named for what happened
    """The loss became infinite or no number; the message says where and what helps."""


class StopAtNonFiniteLoss(keras.callbacks.Callback):
    """Ends training at the first loss that is not finite.

    Raises:
        NonFiniteLoss: With epoch and step.
    """

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        loss = (logs or {}).get("loss", 0.0)
        if not math.isfinite(loss):
            raise NonFiniteLoss(
                f"the loss is {loss} at epoch {self.epoch + 1}, step {batch + 1}: lower "
                "optim.learning_rate, lengthen optim.warmup_epochs or set optim.clip_norm "
                "(1.0 is common); the best model so far is kept"
            )


class RunLog(keras.callbacks.Callback):
    """Keeps one row for each epoch and writes `log.csv` and TensorBoard's events from them.

    Both are made anew from the rows when a run goes on, so no epoch is doubled or missing.

    Args:
        folder: The run folder.
    """

    def __init__(self, folder):
        super().__init__()
        self.folder = folder
        self.rows = []

    def state(self):
        return self.rows

    def restore(self, state):
        self.rows = state

    def begin_events(self):
        """Starts the event files anew with the rows there are."""
        import shutil

        import tensorflow as tf

        events = self.folder / "tensorboard"
        shutil.rmtree(events, ignore_errors=True)
        self._writers = {
            name: tf.summary.create_file_writer(str(events / name))
            for name in ("train", "validation")
        }
        for row in self.rows:
            self._write_events(row)

    def on_epoch_begin(self, epoch, logs=None):
        if not hasattr(self, "_writers"):
            self.begin_events()
        self._begun = time.perf_counter()

    def on_test_begin(self, logs=None):
        if hasattr(self, "_begun"):
            self._trained = time.perf_counter() - self._begun

    def on_epoch_end(self, epoch, logs=None):
        seconds = time.perf_counter() - self._begun
        row = {"epoch": epoch + 1, **{name: float(value) for name, value in logs.items()}}
        row["learning_rate"] = float(self.model.optimizer.learning_rate)
        row["train_seconds"] = round(getattr(self, "_trained", seconds), 3)
        row["seconds"] = round(seconds, 3)
        self.rows.append(row)
        self._write_events(row)
        text = io.StringIO()
        writer = csv.DictWriter(text, self.rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        write_text(self.folder / "log.csv", text.getvalue())

    def _write_events(self, row):
        import tensorflow as tf

        for name, value in row.items():
            if name in ("epoch", "seconds", "train_seconds"):
                continue
            side = "validation" if name.startswith("val_") else "train"
            with self._writers[side].as_default():
                tf.summary.scalar(f"epoch_{name.removeprefix('val_')}", value, step=row["epoch"])
        for writer in self._writers.values():
            writer.flush()


class SaveBest(keras.callbacks.Callback):
    """Saves the model when validation says it is the best so far; may stop when none comes.

    Best is the highest `val_accuracy`, then the lowest `val_loss`; without validation the last
    epoch. With averaged weights (EMA) those are saved, which validation has seen too.

    Args:
        path: Of the `.keras` file.
        patience: Stop after so many epochs without a better one; None goes on.
    """

    def __init__(self, path, patience=None):
        super().__init__()
        self.path = path
        self.patience = patience
        self.best = None
        self.best_epoch = 0

    def state(self):
        return {"best": self.best, "best_epoch": self.best_epoch}

    def restore(self, state):
        self.best, self.best_epoch = state["best"], state["best_epoch"]

    def on_epoch_end(self, epoch, logs=None):
        score = [logs.get("val_accuracy", 0.0), -logs.get("val_loss", 0.0)]
        if self.best is None or score > self.best or "val_loss" not in logs:
            self.best, self.best_epoch = [float(number) for number in score], epoch + 1
            self._save()
        elif self.patience and epoch + 1 - self.best_epoch >= self.patience:
            self.model.stop_training = True

    def _save(self):
        weights = self.model.get_weights()
        self.model.optimizer.finalize_variable_values(self.model.trainable_weights)  # the average
        checkpoint.save(self.model, self.path)
        self.model.set_weights(weights)


class Progress(keras.callbacks.Callback):
    """Shows where a run is: one live line on a terminal, a line for each epoch elsewhere.

    Args:
        epochs: Of the whole run.
        steps_per_epoch: Of each.
        batch_size: Pictures in a step.
    """

    def __init__(self, epochs, steps_per_epoch, batch_size):
        super().__init__()
        self.epochs = epochs
        self.steps_per_epoch = steps_per_epoch
        self.batch_size = batch_size

    def on_train_begin(self, logs=None):
        print("compiling the training step ...", flush=True)
        self._shown = time.perf_counter()
        self._step_seconds = None  # the first step of a process compiles and does not count

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch
        self._marked, self._marked_step = time.perf_counter(), 0
        self._trained = None

    def on_train_batch_end(self, batch, logs=None):
        now = time.perf_counter()
        if self._step_seconds is None:
            self._step_seconds, self._marked, self._marked_step = 0.0, now, batch + 1
            return
        if batch + 1 > self._marked_step:
            self._step_seconds = (now - self._marked) / (batch + 1 - self._marked_step)
        if now - self._shown > (0.2 if sys.stdout.isatty() else 30.0):
            self._shown = now
            self._show(batch + 1, logs, live=sys.stdout.isatty())

    def on_test_begin(self, logs=None):
        self._trained = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self._show(self.steps_per_epoch, logs, live=False)

    def _show(self, step, logs, live):
        done = self._epoch * self.steps_per_epoch + step
        left = self._step_seconds * (self.epochs * self.steps_per_epoch - done)
        speed = self.batch_size / self._step_seconds if self._step_seconds else 0.0
        numbers = "  ".join(f"{name} {value:.4f}" for name, value in (logs or {}).items())
        width = len(str(self.epochs))
        line = (
            f"epoch {self._epoch + 1:{width}}/{self.epochs}  step {step}/{self.steps_per_epoch}  "
            f"{numbers}  {speed:.0f} images/s  {_duration(left)} left"
        )
        clear = "\r\x1b[2K" if sys.stdout.isatty() else ""
        print(clear + line, end="" if live else "\n", flush=True)


def _duration(seconds):
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
