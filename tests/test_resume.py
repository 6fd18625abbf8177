import signal

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_vit.callbacks import RunLog, SaveBest
from keras_vit.model import ViTConfig, build_vit
from keras_vit.optim import ClassificationLoss, OptimConfig, make_optimizer
from keras_vit.resume import (
    ExactResume,
    Preempted,
    checkpoints,
    newest_checkpoint,
    read_checkpoint,
    write_checkpoint,
)

TINY = ViTConfig(
    image_size=8,
    patch_size=4,
    num_channels=1,
    hidden_dim=8,
    num_layers=1,
    num_heads=2,
    mlp_dim=8,
    num_classes=3,
    dropout_rate=0.2,
    attention_dropout_rate=0.1,
    drop_path_rate=0.2,
)
STEPS, EPOCHS = 4, 3


class KillAt(keras.callbacks.Callback):
    """Ends the process, as far as a test can, right after a global step."""

    def __init__(self, step):
        super().__init__()
        self.kill_step = step

    def on_epoch_begin(self, epoch, logs=None):
        self.first = epoch * STEPS

    def on_train_batch_end(self, batch, logs=None):
        if self.first + batch + 1 == self.kill_step:
            raise RuntimeError("killed")


def batches(start):
    def batch(step):
        key = tf.stack([tf.cast(step, tf.int32), 7])
        pixels = tf.random.stateless_uniform((4, 8, 8, 1), key, 0, 255)
        return pixels, tf.random.stateless_uniform((4,), key, 0, 3, tf.int32)

    return tf.data.Dataset.range(start, 2**62).map(batch)


def run(folder, kill_step=None, precision="float32", optim=None, steps_per_execution=1):
    """Trains, or goes on; gives the final weights and the log's rows."""
    optim = OptimConfig(**(optim or {"learning_rate": 0.01}))
    keras.utils.set_random_seed(3)
    with tf.distribute.OneDeviceStrategy("/cpu:0").scope():
        keras.config.set_dtype_policy(precision)
        try:
            model = build_vit(TINY)
        finally:
            keras.config.set_dtype_policy("float32")
        model.compile(
            optimizer=make_optimizer(optim, model, STEPS, EPOCHS),
            loss=ClassificationLoss(0.1),
            metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
            steps_per_execution=steps_per_execution,
        )
    log, best = RunLog(folder), SaveBest(folder / "best.keras")
    resume = ExactResume(
        folder / "checkpoints", STEPS, {"log": log, "best": best}, every_steps=1, facts={"n": 12}
    )
    callbacks = [log, best, resume]
    if optim.ema_decay:
        callbacks.insert(0, keras.callbacks.SwapEMAWeights())
    if kill_step:
        callbacks.append(KillAt(kill_step))
    try:
        model.fit(
            batches(resume.step),
            epochs=EPOCHS,
            initial_epoch=resume.initial_epoch,
            steps_per_epoch=STEPS,
            validation_data=batches(10**6).take(2),
            callbacks=callbacks,
            shuffle=False,
            verbose=0,
        )
    finally:
        resume.close()
    untimed = [{k: v for k, v in row.items() if "seconds" not in k} for row in log.rows]
    return [variable.numpy() for variable in model.variables], untimed, best.state()


def assert_killed_equals_unbroken(tmp_path, kill_steps, **settings):
    expected, expected_rows, expected_best = run(tmp_path / "whole", **settings)
    for kill_step in kill_steps:
        with pytest.raises(RuntimeError, match="killed"):
            run(tmp_path / "broken", kill_step, **settings)
    weights, rows, best = run(tmp_path / "broken", **settings)
    assert rows == expected_rows
    assert best == expected_best
    for value, other in zip(weights, expected, strict=True):
        np.testing.assert_array_equal(value, other)


def test_a_run_killed_inside_and_at_the_end_of_epochs_ends_with_the_same_bits(tmp_path):
    assert_killed_equals_unbroken(tmp_path, kill_steps=(1, 4, 11))


def test_loss_scale_averages_clipping_and_decay_go_on_exactly(tmp_path):
    optim = {"learning_rate": 0.01, "weight_decay": 0.1, "warmup_epochs": 0.5}
    optim |= {"ema_decay": 0.9, "clip_norm": 1.0}
    assert_killed_equals_unbroken(tmp_path, (7,), precision="mixed_float16", optim=optim)


def test_several_steps_in_one_execution_go_on_exactly(tmp_path):
    optim = {"optimizer": "muon", "learning_rate": 0.01, "schedule": "linear"}
    assert_killed_equals_unbroken(tmp_path, (6,), steps_per_execution=2, optim=optim)


def test_log_and_events_have_each_epoch_once_after_a_kill(tmp_path):
    with pytest.raises(RuntimeError, match="killed"):
        run(tmp_path, kill_step=6)
    run(tmp_path)
    lines = (tmp_path / "log.csv").read_text().splitlines()
    assert lines[0].startswith("epoch,accuracy,loss")
    assert [line.split(",")[0] for line in lines[1:]] == ["1", "2", "3"]
    for side, tag in (("train", "epoch_learning_rate"), ("validation", "epoch_loss")):
        assert event_steps(tmp_path / "tensorboard" / side, tag) == [1, 2, 3]


def event_steps(folder, tag):
    events = [
        event
        for path in sorted(folder.iterdir())
        for event in tf.compat.v1.train.summary_iterator(str(path))
    ]
    return [event.step for event in events for value in event.summary.value if value.tag == tag]


def test_a_checkpoint_comes_back_as_it_was_written(tmp_path):
    arrays = [np.arange(3, dtype="int64"), np.float32(2.5), np.ones((2, 2), "float16")]
    write_checkpoint(tmp_path, 5, arrays, {"step": 5, "name": "été"})
    found, state = read_checkpoint(checkpoints(tmp_path)[0])
    assert state == {"step": 5, "name": "été"}
    for value, expected in zip(found, arrays, strict=True):
        assert value.dtype == expected.dtype
        np.testing.assert_array_equal(value, expected)


def test_two_checkpoints_are_kept(tmp_path):
    for step in range(4):
        write_checkpoint(tmp_path, step, [], {})
    assert [path.name for path in checkpoints(tmp_path)] == [
        "000000000002.ckpt",
        "000000000003.ckpt",
    ]


def test_a_half_written_newest_checkpoint_is_passed_over_with_a_word(tmp_path, capsys):
    write_checkpoint(tmp_path, 1, [np.ones(3)], {"step": 1})
    write_checkpoint(tmp_path, 2, [np.ones(3)], {"step": 2})
    newest = checkpoints(tmp_path)[-1]
    newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])
    assert newest_checkpoint(tmp_path)[1] == {"step": 1}
    assert "000000000002.ckpt: damaged checkpoint" in capsys.readouterr().out


def test_a_run_whose_checkpoints_are_all_damaged_does_not_start_over(tmp_path):
    write_checkpoint(tmp_path, 1, [np.ones(3)], {"step": 1})
    checkpoints(tmp_path)[0].write_bytes(b"x" * 100)
    with pytest.raises(ValueError, match="000000000001.ckpt: damaged.*use --fresh"):
        newest_checkpoint(tmp_path)


def test_no_checkpoint_means_a_start_from_scratch(tmp_path):
    assert newest_checkpoint(tmp_path) is None


def test_data_that_changed_since_the_start_are_refused_by_name(tmp_path):
    ExactResume(tmp_path / "checkpoints", 4, {}, facts={"n": 12})
    write_checkpoint(
        tmp_path / "checkpoints",
        1,
        [],
        {"step": 1, "stopped": False, "parts": {}, "facts": {"n": 12}},
    )
    with pytest.raises(ValueError, match="n: 13 now, 12 then"):
        ExactResume(tmp_path / "checkpoints", 4, {}, facts={"n": 13})


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    with pytest.raises(RuntimeError, match="killed"):
        run(tmp_path, kill_step=6)
    with pytest.raises(ValueError, match="another model or optimizer"):
        run(tmp_path, optim={"optimizer": "muon"})


class SignalAt(KillAt):
    def on_train_batch_end(self, batch, logs=None):
        if self.first + batch + 1 == self.kill_step:
            signal.raise_signal(signal.SIGTERM)


def test_sigterm_saves_then_says_preempted(tmp_path, monkeypatch):
    monkeypatch.setattr("test_resume.KillAt", SignalAt)
    handler = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Preempted, match="step 7"):
        run(tmp_path, kill_step=6)
    assert newest_checkpoint(tmp_path / "checkpoints")[1]["step"] == 7
    assert signal.getsignal(signal.SIGTERM) is handler


def test_a_disk_that_is_full_leaves_the_checkpoint_before_and_says_so(tmp_path, monkeypatch):
    def no_space(*_):
        raise OSError(28, "No space left on device")

    with pytest.raises(RuntimeError, match="killed"):
        run(tmp_path, kill_step=5)
    before = [path.name for path in checkpoints(tmp_path / "checkpoints")]
    monkeypatch.setattr("keras_vit.resume.write_checkpoint", no_space)
    with pytest.raises(OSError, match="No space left on device: the checkpoint was not written"):
        run(tmp_path)
    assert [path.name for path in checkpoints(tmp_path / "checkpoints")] == before
