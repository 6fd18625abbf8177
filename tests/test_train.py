import csv
import hashlib
import json
import math

import keras
import numpy as np
import pytest

from keras_vit import checkpoint, evaluation
from keras_vit.callbacks import NonFiniteLoss, SaveBest
from keras_vit.data import evaluation_batches, open_source
from keras_vit.recipe import Recipe
from keras_vit.training.train import train, weights_sha256

MODEL = {
    "image_size": 8,
    "patch_size": 4,
    "hidden_dim": 16,
    "num_layers": 1,
    "num_heads": 2,
    "mlp_dim": 16,
}


def small_recipe(**tables):
    """Digits by the smallest model for two epochs, on the path that compiles fastest."""
    changes = {"train": {"epochs": 2, "batch_size": 256}, "strategy": {"jit_compile": False}}
    table = {"name": "small", "model": MODEL, "optim": {"learning_rate": 1e-2}}
    for name, change in {**changes, **tables}.items():
        fields = isinstance(change, dict)
        table[name] = (
            {**table.get(name, {}), **changes.get(name, {}), **change} if fields else change
        )
    return Recipe.from_dict(table)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run.1" / "sortie été"
    return folder, train(small_recipe(), folder)


def log_rows(folder):
    with open(folder / "log.csv", encoding="utf-8") as file:
        return [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)]


def test_a_run_folder_holds_what_the_contract_names(finished):
    folder, _ = finished
    names = {path.name for path in folder.iterdir()}
    files = {"recipe.json", "log.csv", "best.keras", "report.html", "report.json"}
    assert names >= files | {"tensorboard", "checkpoints", "curves.png", "confusion.png"}


def test_the_report_has_the_contracts_keys_and_is_what_train_returns(finished):
    folder, report = finished
    assert json.loads((folder / "report.json").read_text()) == json.loads(json.dumps(report))
    keys = (
        "top1 top5 nll ece num_examples num_parameters epochs train_seconds images_per_second "
        "peak_memory_mb weights_sha256 recipe versions"
    )
    assert set(keys.split()) <= set(report)
    assert (report["split"], report["num_examples"], report["epochs"]) == ("test", 360, 2)


def test_the_first_loss_is_that_of_guessing(tmp_path):
    recipe = small_recipe(train={"epochs": 1}, optim={"learning_rate": 1e-9})
    train(recipe, tmp_path / "run")
    assert log_rows(tmp_path / "run")[0]["loss"] == pytest.approx(math.log(10), abs=1e-4)


def test_the_best_model_is_the_one_whose_validation_was_logged_best(finished):
    folder, _ = finished
    best = max(log_rows(folder), key=lambda row: (row["val_accuracy"], -row["val_loss"]))
    model = checkpoint.load_any(folder)
    split = open_source(small_recipe().data, seed=0).splits["validation"]
    batches = evaluation_batches(split, model.preprocessing, 50)
    logits, labels = evaluation.collect(model.predict_batch, batches, len(split))
    assert np.mean(logits.argmax(1) == labels) == pytest.approx(best["val_accuracy"], abs=1e-6)


def test_a_finished_run_does_nothing_and_says_so(finished, capsys):
    folder, report = finished
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert train(small_recipe(), folder)["weights_sha256"] == report["weights_sha256"]
    assert "this run is finished" in capsys.readouterr().out
    del before[folder / ".lock"]
    assert all(path.stat().st_mtime_ns == time for path, time in before.items())


def test_other_settings_in_the_same_folder_are_refused_by_name(finished):
    folder, _ = finished
    other = small_recipe(optim={"learning_rate": 0.5})
    with pytest.raises(ValueError, match=r"optim.learning_rate: 0.5, not 0.01"):
        train(other, folder)


def test_fresh_moves_the_old_run_aside_and_repeats_it_bit_for_bit(finished, capsys):
    folder, report = finished
    again = train(small_recipe(), folder, fresh=True)
    assert again["weights_sha256"] == report["weights_sha256"]
    assert (folder.with_name(folder.name + ".1") / "best.keras").exists()


def test_another_seed_gives_other_weights(tmp_path, finished):
    report = train(small_recipe(seed=1), tmp_path / "run")
    assert report["weights_sha256"] != finished[1]["weights_sha256"]


def test_a_diverging_run_stops_with_epoch_step_and_advice_and_keeps_finite_weights(tmp_path):
    recipe = small_recipe(
        optim={"optimizer": "sgd", "learning_rate": 1e6, "warmup_epochs": 1.0},
        train={"batch_size": 64, "epochs": 3},
    )
    with pytest.raises(NonFiniteLoss, match=r"epoch \d, step \d+: lower optim.learning_rate"):
        train(recipe, tmp_path / "run")
    best = tmp_path / "run" / "best.keras"
    if best.exists():
        assert all(np.isfinite(w).all() for w in checkpoint.load(best).get_weights())
    assert not (tmp_path / "run" / "report.json").exists()


def test_half_precision_classes_weights_smoothing_and_averages_train_together(tmp_path):
    recipe = small_recipe(
        strategy={"precision": "mixed_bfloat16", "steps_per_execution": 2},
        train={"label_smoothing": 0.1, "class_weights": "balanced", "epochs": 3},
        optim={"ema_decay": 0.5, "clip_norm": 1.0, "weight_decay": 0.05},
        model={"dropout_rate": 0.1, "drop_path_rate": 0.1},
    )
    report = train(recipe, tmp_path / "run")
    assert report["top1"] > 0.3
    model = checkpoint.load(tmp_path / "run")
    assert model.get_layer("transformer_block_00").compute_dtype == "bfloat16"
    assert model(np.zeros((1, 8, 8, 1))).dtype == "float32"


def test_steps_in_one_execution_that_do_not_divide_the_epoch_are_refused(tmp_path):
    recipe = small_recipe(strategy={"steps_per_execution": 3})
    with pytest.raises(ValueError, match="steps_per_execution 3 does not divide the 4 steps"):
        train(recipe, tmp_path / "run")


def fit_with_rigged_validation(tmp_path, accuracies, patience):
    """Drives `SaveBest` through epochs whose validation is given; gives the epochs seen."""
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, name="predictions")])
    model.compile("sgd", "mse")
    best = SaveBest(tmp_path / "best.keras", patience)
    best.set_model(model)
    model.stop_training = False
    for epoch, accuracy in enumerate(accuracies):
        model.set_weights([np.full((1, 1), epoch), np.zeros(1)])
        best.on_epoch_end(epoch, {"val_accuracy": accuracy, "val_loss": 1.0})
        if model.stop_training:
            return epoch + 1
    return len(accuracies)


def test_the_saved_model_is_the_best_epochs_and_not_the_last(tmp_path):
    assert fit_with_rigged_validation(tmp_path, [0.5, 0.9, 0.8, 0.7, 0.6], patience=10) == 5
    saved = keras.saving.load_model(tmp_path / "best.keras", compile=False)
    assert saved.get_weights()[0].item() == 1


def test_training_stops_when_no_better_epoch_comes_within_the_patience(tmp_path):
    assert fit_with_rigged_validation(tmp_path, [0.5, 0.9, 0.8, 0.7, 0.6], patience=2) == 4


def test_weights_digest_is_that_of_little_endian_float32():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.set_weights([np.array([[1.5]]), np.array([-2.0])])
    raw = np.array([1.5, -2.0], "<f4").tobytes()
    assert weights_sha256(model) == hashlib.sha256(raw).hexdigest()
