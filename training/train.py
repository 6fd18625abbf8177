"""The whole journey in reading order: a recipe in, a run folder out.

Made to be copied (`keras-vit copy train my_train.py`) and changed. What happens:

    recipe -> precision and strategy -> source, splits, batches -> in the scope: model, optimizer,
    compile -> fit -> evaluate the best model -> report

Ways to start, in this order: 1. the run's own last checkpoint; 2. from scratch. The same command
goes on where it stopped; a finished run does nothing.
"""

import hashlib
import json
import platform
import resource
import statistics

import keras

import keras_vit
from keras_vit import charts, checkpoint, confusion, evaluation, report, run, strategy
from keras_vit.callbacks import Progress, RunLog, SaveBest, StopAtNonFiniteLoss
from keras_vit.data import evaluation_batches, open_source, training_batches
from keras_vit.files import write_text
from keras_vit.images import Preprocessing
from keras_vit.model import build_vit
from keras_vit.optim import ClassificationLoss, class_weights, make_optimizer
from keras_vit.resume import ExactResume

NUM_MISTAKES = 12  # pictures that the report shows


def train(recipe, out, fresh=False):
    """Trains what a recipe says, or goes on where the same call stopped.

    Args:
        recipe: A `keras_vit.Recipe`.
        out: The run folder.
        fresh: Start anew; what is in the folder is moved aside.

    Returns:
        The report: the contents of `report.json`.

    Raises:
        ValueError: The recipe and the data, or the folder's run, do not go together.
        keras_vit.callbacks.NonFiniteLoss: The loss became infinite or no number.
        keras_vit.resume.Preempted: SIGTERM; everything is saved.
    """
    source = open_source(recipe.data, recipe.seed)
    recipe = recipe.resolve(len(source.class_names), source.num_channels)
    with run.claim(out, recipe, fresh) as folder:
        if (done := run.finished(folder)) is not None:
            print(f"{folder}: this run is finished; use --fresh or another --out for a new one")
            return done
        for note in source.notes:
            print(note)
        placement = strategy.choose(recipe.strategy)
        print(f"{recipe.name}: {_describe(source)}; {placement.reason}", flush=True)
        model, log = fit(recipe, source, placement, folder)
        return finish(recipe, source, placement, folder, model, log)


def fit(recipe, source, placement, folder):
    """Trains the model; gives it with its last weights, and its log."""
    keras.utils.set_random_seed(recipe.seed)
    preprocessing = preprocessing_of(recipe)
    splits, epochs = source.splits, recipe.train.epochs
    batch_size = min(recipe.train.batch_size, len(splits["train"]))
    steps_per_epoch = len(splits["train"]) // batch_size
    steps_per_execution = strategy.check_steps(recipe.strategy, steps_per_epoch)

    with placement.strategy.scope():
        model = make_model(recipe, source, placement, preprocessing)
        model.compile(
            optimizer=make_optimizer(recipe.optim, model, steps_per_epoch, epochs),
            loss=ClassificationLoss(
                recipe.train.label_smoothing,
                class_weights(
                    recipe.train.class_weights, source.class_names, splits["train"].labels
                ),
                recipe.model.multi_label,
            ),
            metrics=[accuracy(recipe)],
            jit_compile=placement.jit_compile,
            steps_per_execution=steps_per_execution,
        )

    log = RunLog(folder)
    best = SaveBest(folder / checkpoint.BEST_MODEL, recipe.train.early_stopping_patience)
    resume = ExactResume(
        folder / "checkpoints",
        steps_per_epoch,
        parts={"log": log, "best": best},
        every_minutes=recipe.checkpoint.every_minutes,
        every_steps=recipe.checkpoint.every_steps,
        facts={"training pictures": len(splits["train"]), "classes": list(source.class_names)},
    )
    callbacks = [StopAtNonFiniteLoss(), Progress(epochs, steps_per_epoch, batch_size), log, best]
    if recipe.optim.ema_decay is not None:
        callbacks.insert(0, keras.callbacks.SwapEMAWeights())  # validation sees the average
    if resume.step:
        print(f"going on at epoch {resume.initial_epoch + 1}, step {resume.step}", flush=True)

    batches = training_batches(
        splits["train"],
        preprocessing,
        recipe.augment,
        batch_size,
        recipe.seed,
        steps_per_epoch,
        start_step=resume.step,
    )
    validation = splits.get("validation")
    try:
        model.fit(
            batches,
            epochs=resume.initial_epoch if resume.stopped else epochs,
            initial_epoch=resume.initial_epoch,
            steps_per_epoch=steps_per_epoch,
            validation_data=validation
            and evaluation_batches(validation, preprocessing, batch_size),
            callbacks=[*callbacks, resume],
            shuffle=False,  # the pipeline does, by index
            verbose=0,
        )
    finally:
        resume.close()
    return model, log


def finish(recipe, source, placement, folder, model, log):
    """Evaluates the best model and writes what a person and a script want to know."""
    best = checkpoint.load_any(folder)
    split = source.splits.get("test") or source.splits.get("validation")
    document = {
        "split": split.name if split else None,
        "splits": {name: len(split) for name, split in source.splits.items()},
        "num_parameters": model.count_params(),
        "epochs": len(log.rows),
        "train_seconds": round(sum(row["seconds"] for row in log.rows), 1),
        "images_per_second": _images_per_second(recipe, source, log),
        "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024e-6),
        "weights_sha256": weights_sha256(model),
        "placement": placement.reason,
        "recipe": recipe.to_dict(),
        "versions": versions(),
    }
    mistakes = []
    if split:
        batches = evaluation_batches(split, best.preprocessing, recipe.train.batch_size)
        logits, labels = evaluation.collect(best.predict_batch, batches, len(split))
        result = evaluation.evaluate(
            logits, labels, best.class_names, split.names, best.multi_label
        )
        document = {**result.to_json(), **document}
        if not best.multi_label:
            mistakes = show_mistakes(split, batches, logits, labels, best.class_names)
        if result.confusion is not None:
            confusion.draw_confusion(result, folder / "confusion.png")
    charts.draw_curves(report.read_log(folder / "log.csv"), folder / "curves.png")
    report.write_report(folder, document, log.rows, mistakes)
    write_text(folder / run.REPORT, json.dumps(document, indent=2) + "\n")  # last: it says "done"
    return document


def make_model(recipe, source, placement, preprocessing):
    """The model of a recipe in the precision of its placement."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(placement.precision)
    try:
        rules = preprocessing.model_dump(exclude={"image_size", "num_channels"})
        return build_vit(recipe.model, source.class_names, rules)
    finally:
        keras.config.set_dtype_policy(before)


def preprocessing_of(recipe):
    """How a picture gets to the model's size, from the `[model]` and `[data]` tables."""
    return Preprocessing(
        image_size=recipe.model.image_size,
        num_channels=recipe.model.num_channels,
        resize=recipe.data.resize,
        crop_fraction=recipe.data.crop_fraction,
        interpolation=recipe.data.interpolation,
    )


def accuracy(recipe):
    """Share of right answers; for several labels, of right yes and no."""
    if recipe.model.multi_label:
        return keras.metrics.BinaryAccuracy(name="accuracy", threshold=0.0)
    return keras.metrics.SparseCategoricalAccuracy(name="accuracy")


def weights_sha256(model):
    """Of `model.weights` in order, as little-endian float32."""
    digest = hashlib.sha256()
    for weight in model.weights:
        digest.update(weight.numpy().astype("<f4").tobytes())
    return digest.hexdigest()


def versions():
    """What the run was made with."""
    import tensorflow as tf

    return {
        "keras_vit": keras_vit.__version__,
        "keras": keras.__version__,
        "tensorflow": tf.__version__,
        "python": platform.python_version(),
    }


def show_mistakes(split, batches, logits, labels, class_names):
    """The surest wrong answers, each with its picture as the model saw it."""
    mistakes = evaluation.worst_mistakes(logits, labels, class_names, split.names, NUM_MISTAKES)
    pictures = evaluation.pick_pictures(batches, [mistake.index for mistake in mistakes])
    return [(mistake, pictures[mistake.index]) for mistake in mistakes]


def _describe(source):
    counts = ", ".join(f"{len(split)} {name}" for name, split in source.splits.items())
    return f"{len(source.class_names)} classes; {counts}"


def _images_per_second(recipe, source, log):
    """By the median epoch, validation left out; the first, which compiles, only if alone."""
    count = len(source.splits["train"])
    count -= count % min(recipe.train.batch_size, count)
    rows = log.rows[1:] or log.rows
    return round(count / statistics.median(row["train_seconds"] for row in rows), 1)
