"""Kill a run at random moments and compare it with an undisturbed one: `python -m` this module.

Every process is killed with SIGKILL, some of them at the sight of a checkpoint being written, and
started again by the same command until the run is finished. Weights, log and report must then be
the undisturbed run's, times aside.
"""

import argparse
import csv
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RECIPES = {
    "plain": (),
    "everything": (
        "strategy.precision=mixed_float16",
        "optim.optimizer=adamw",
        "optim.ema_decay=0.99",
        "optim.clip_norm=1.0",
        "optim.warmup_epochs=1.5",
        "optim.weight_decay=0.05",
        "model.dropout_rate=0.1",
        "model.attention_dropout_rate=0.1",
        "model.drop_path_rate=0.1",
        "augment.horizontal_flip=true",
        "augment.cutout=0.3",
        "augment.random_resized_crop=[0.7, 1.0]",
        "train.early_stopping_patience=3",
        "train.class_weights=balanced",
    ),
}
TIMES = {"train_seconds", "images_per_second", "peak_memory_mb", "seconds"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--recipe", choices=RECIPES, default="plain")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument(
        "--in-save", type=int, default=5, help="kills while a checkpoint is written"
    )
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        whole, broken = Path(folder) / "whole", Path(folder) / "broken"
        begun = time.monotonic()
        start(options, whole).wait()
        seconds = time.monotonic() - begun
        print(f"undisturbed: {seconds:.0f} s", flush=True)
        done = kill_again_and_again(options, broken, seconds)
        start(options, broken).wait()
        differences = [name for name in ("log.csv", "report.json") if not same(whole, broken, name)]
    print(f"{done['at random']} kills at random moments, {done['in a save']} in a save")
    print(f"different: {', '.join(differences)}" if differences else "log and report are the same")
    sys.exit(bool(differences))


def start(options, out):
    changes = [f"train.epochs={options.epochs}", "checkpoint.every_steps=5"]
    changes += ["strategy.jit_compile=false", *RECIPES[options.recipe]]
    command = [sys.executable, "-m", "keras_vit_cli", "train", "digits", "--out", str(out)]
    command += [part for change in changes for part in ("--set", change)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def kill_again_and_again(options, out, seconds):
    """Kills run after run; a process gets at least a start's time, so that the run gets on."""
    draw = random.Random(options.seed)
    kinds = ["in a save"] * options.in_save
    kinds += ["at random"] * (options.kills - options.in_save)
    draw.shuffle(kinds)
    done = dict.fromkeys(kinds, 0)
    for kind in kinds:
        before, process = newest(out), start(options, out)
        while process.poll() is None and newest(out) == before:
            if kind == "in a save" and any(out.glob("checkpoints/.*.ckpt")):
                break
            time.sleep(0.0005)
        if kind == "at random":
            time.sleep(draw.random() * min(2.0, seconds / options.kills))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            done[kind] += 1
        process.wait()
    return done


def newest(out):
    return max((path.name for path in out.glob("checkpoints/[0-9]*.ckpt")), default="")


def same(whole, broken, name):
    return read(whole / name) == read(broken / name)


def read(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        rows = [json.loads(text)]
    else:
        rows = list(csv.DictReader(text.splitlines()))
    return [{key: value for key, value in row.items() if key not in TIMES} for row in rows]


if __name__ == "__main__":
    main()
