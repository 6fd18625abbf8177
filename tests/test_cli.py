"""The command line's contract: exit statuses, what stands on which stream, and its own rules.

The verbs are run inside this process where a new one would show nothing more; `new_process` is for
what only a new one shows.
"""

import csv
import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from keras_vit_cli import environment, failures
from keras_vit_cli.app import run
from keras_vit_cli.failures import DONE, INTERRUPTED, PREEMPTED, SOME_FAILED, USER_INPUT

TINY = [
    "--epochs=1",
    "--set=model.hidden_dim=8",
    "--set=model.num_layers=1",
    "--set=model.num_heads=2",
    "--set=model.mlp_dim=8",
    "--set=strategy.jit_compile=false",
]


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    """Run each test in an empty folder, and put back what the commands set in the environment."""
    kept = dict(os.environ)
    monkeypatch.chdir(tmp_path)
    for name in ("KERAS_BACKEND", "TF_USE_LEGACY_KERAS"):
        os.environ.pop(name, None)
    yield
    os.environ.clear()
    os.environ.update(kept)


@pytest.fixture
def keras_vit(capsys):
    """Return a function that runs a command line: its status, standard output and error."""

    def call(*words):
        status = run([str(word) for word in words])
        return status, *capsys.readouterr()

    return call


@pytest.fixture(scope="module")
def digits_run(tmp_path_factory):
    """Return the folder of a real run of a tiny model, `runs/digits` somewhere."""
    folder = tmp_path_factory.mktemp("trained") / "runs" / "digits"
    assert run(["train", "digits", *TINY, "--out", str(folder)]) == DONE
    return folder


@pytest.fixture
def pictures(tmp_path):
    """Return a folder of two pictures and a file that is none."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    noise = np.random.default_rng(0).integers(0, 255, (9, 8, 3), np.uint8)
    Image.fromarray(noise).save(folder / "a.png")
    (folder / "b.jpg").write_bytes(b"no picture at all")
    Image.fromarray(255 - noise).save(folder / "c.png")
    return folder


def new_process(*words, **environment):
    """Run `python -c ...` or the command line in a new process."""
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        env={**os.environ, **environment},
        timeout=120,
    )


def one_line(text):
    """Return the only line of a complaint, without the words that every complaint begins with."""
    lines = text.splitlines()
    assert len(lines) == 1, text
    assert lines[0].startswith("keras-vit: error: "), text
    return lines[0].removeprefix("keras-vit: error: ")


# Help, and what needs no TensorFlow


@pytest.mark.parametrize(
    "words",
    [[], ["--help"], ["train", "-h"], ["evaluate", "--help"], ["predict", "--help"]]
    + [["recipes", "--help"], ["copy", "--help"], ["data", "--help"], ["data", "show", "--help"]],
)
def test_help_is_printed_to_standard_output(keras_vit, words):
    status, out, err = keras_vit(*words)

    assert (status, err) == (DONE, "")
    assert out.startswith(f"Usage: keras-vit {' '.join(words[:-1])}".rstrip())


@pytest.mark.parametrize("words", [["train", "--help"], ["recipes"], ["copy", "digits", "a.toml"]])
def test_help_and_recipes_import_neither_tensorflow_nor_keras_vit(words):
    code = (
        "import sys; from keras_vit_cli.app import run; "
        f"status = run({words}); "
        "heavy = {'tensorflow', 'keras', 'keras_vit', 'numpy', 'rich'}; "
        "sys.exit(f'imported {heavy & set(sys.modules)}' if heavy & set(sys.modules) else status)"
    )
    result = new_process("-c", code)

    assert result.returncode == DONE, result.stderr.decode()


def test_version_shows_keras_tensorflow_and_the_device(keras_vit):
    import keras
    import tensorflow as tf

    status, out, _ = keras_vit("--version")

    assert status == DONE
    assert out.splitlines()[0].startswith("keras-vit 0.")
    assert f"keras {keras.__version__}, backend tensorflow" in out
    assert f"tensorflow {tf.__version__}" in out
    assert "CPU" in out


def test_recipes_are_listed_with_what_they_are(keras_vit):
    status, out, _ = keras_vit("recipes")

    assert status == DONE
    names = [line.split()[0] for line in out.partition("\n\n")[0].splitlines()]
    assert {"digits", "fashion_mnist_lesson", "folder", "mnist_lesson"} <= set(names)
    assert "Handwritten digits" in out


def test_recipes_are_found_where_the_library_finds_them():
    from keras_vit.recipe import shipped_recipes
    from keras_vit_cli.recipes import _shipped

    files = {name: path.resolve() for name, path in _shipped().items()}
    script = files.pop("train")

    assert files == {name: path.resolve() for name, path in shipped_recipes().items()}
    assert "def train(" in script.read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "file"), [("digits", "my.toml"), ("train", "my_train.py")])
def test_copy_writes_a_file_once_and_never_over_another(keras_vit, tmp_path, name, file):
    from keras_vit_cli.recipes import _shipped

    assert keras_vit("copy", name, file) == (DONE, f"{file} written\n", "")
    assert (tmp_path / file).read_bytes() == _shipped()[name].read_bytes()

    (tmp_path / file).write_text("mine")
    status, _, err = keras_vit("copy", name, file)
    assert (status, one_line(err)) == (USER_INPUT, f"{file}: File exists")
    assert (tmp_path / file).read_text() == "mine"


def test_a_copied_recipe_is_the_same_recipe(keras_vit):
    from keras_vit.recipe import Recipe

    keras_vit("copy", "digits", "mine.toml")

    assert Recipe.load("mine.toml").differences(Recipe.load("digits")) == []


# A person's mistakes: one line, exit status 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tran"], "No such command 'tran'"),
        (["train", "--epoch", "5"], "No such option: --epoch"),
        (["train", "a", "b"], "unexpected extra argument"),
        (["train", "digts"], "no recipe is called 'digts'; did you mean 'digits'?"),
        (["train", "nowhere.toml"], "nowhere.toml: No such file or directory"),
        (["train", "--epochs", "five"], 'train.epochs: expected a whole number, received "five"'),
        (["train", "--batch-size", "0"], "train.batch_size: expected at least 1, received 0"),
        (["train", "--seed", "x"], 'seed: expected a whole number, received "x"'),
        (["train", "--data", "pictures"], "data.source: "),
        (["train", "--data", ""], "data.source: "),
        (["train", "--set", "epochs"], "'epochs': expected table.key=value"),
        (
            ["train", "--set", "optim.lerning_rate=1"],
            "optim.lerning_rate: unknown; did you mean optim.learning_rate?",
        ),
        (["train", "--set", "optim.learning_rate=0"], "expected more than 0, received 0"),
        (["train", "--set", "model.image_size=222"], "image_size 222 (height) is not divisible by"),
        (["copy", "digts", "a.toml"], "nothing is called 'digts'; did you mean 'digits'?"),
        (["copy", "digits", "a.json"], "a.json: a copy of digits must end in .toml"),
        (["copy", "digits", "no/a.toml"], "no/a.toml: No such file or directory"),
        (["evaluate"], "no MODEL given, and no run in runs/ here; train one first"),
        (["evaluate", "nowhere"], "nowhere: no such model file or run folder"),
        (["predict"], "Missing argument 'MODEL PATH...'"),
        (["predict", "nowhere"], "no picture given: expected paths after MODEL"),
        (["predict", "nowhere", "a.png"], "nowhere: no such model file or run folder"),
        (["predict", "a", "b", "--json", "--csv"], "--json and --csv: only one of them"),
        (["data", "show", "-o", "grid.txt"], "grid.txt: expected a file that ends in .png"),
        (["data", "show", "-o", "no/grid.png"], "no/grid.png: no such folder"),
        (["evaluate", "-o", "confusion.jpg"], "confusion.jpg: expected a file that ends in .png"),
        (["data", "show", "digts"], "no recipe is called 'digts'"),
    ],
)
def test_a_mistake_is_one_line_and_exit_status_2(keras_vit, tmp_path, words, message):
    status, out, err = keras_vit(*words)

    assert (status, out) == (USER_INPUT, "")
    assert message in one_line(err)
    assert list(tmp_path.iterdir()) == []  # nothing half-written


def test_every_mistake_in_a_recipe_has_its_line(keras_vit):
    status, _, err = keras_vit("train", "--epochs=0", "--set=seed=x")

    assert status == USER_INPUT
    assert err.splitlines() == [
        'keras-vit: error: seed: expected a whole number, received "x"',
        "keras-vit: error: train.epochs: expected at least 1, received 0",
    ]


def test_a_broken_toml_is_one_line_with_file_line_and_column(keras_vit, tmp_path):
    (tmp_path / "broken.toml").write_text("seed = 1\n[model\n")

    status, _, err = keras_vit("train", "broken.toml")

    assert status == USER_INPUT
    assert one_line(err).startswith("broken.toml: not TOML: ")
    assert "(at line 2, column 7)" in err


def test_a_value_error_from_our_own_code_is_a_mistake_of_the_person(capsys):
    from keras_vit.recipe import Recipe

    assert _status_of(lambda: Recipe.load("zzz")) == USER_INPUT
    assert "no recipe is called 'zzz'" in one_line(capsys.readouterr().err)


def test_a_value_error_from_elsewhere_keeps_its_traceback(capsys):
    assert _status_of(lambda: np.zeros(3).reshape(2, 2)) is None
    assert capsys.readouterr().err == ""


def test_an_unwritable_place_is_a_mistake_of_the_person(capsys):
    assert _status_of(lambda: Path("/proc/nothing").mkdir()) == USER_INPUT
    assert "/proc/nothing: No such file or directory" in one_line(capsys.readouterr().err)


def _status_of(action):
    try:
        action()
    except Exception as error:
        return failures.status_of(error)


# The environment


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_another_backend_is_refused_in_one_line(keras_vit, monkeypatch, backend):
    monkeypatch.setenv("KERAS_BACKEND", backend)

    status, _, err = keras_vit("train")

    assert status == USER_INPUT
    assert one_line(err) == f"KERAS_BACKEND is {backend!r}, the commands need 'tensorflow'"


def test_legacy_keras_is_refused_in_one_line(keras_vit, monkeypatch):
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "1")

    status, _, err = keras_vit("evaluate")

    assert status == USER_INPUT
    assert one_line(err) == "TF_USE_LEGACY_KERAS is set, the commands need Keras 3: unset it"


def test_missing_tensorflow_is_said_in_one_line(keras_vit, monkeypatch):
    monkeypatch.setattr(environment.importlib.util, "find_spec", lambda name: None)

    status, _, err = keras_vit("train")

    assert status == USER_INPUT
    assert one_line(err) == "TensorFlow is not installed; run: pip install tensorflow"


def test_what_tensorflow_logs_is_shown_only_when_it_fails_to_start(monkeypatch, capfd):
    def fail():
        os.write(2, b"a line of native code\n")
        raise ImportError("no such library")

    config = SimpleNamespace(list_physical_devices=fail)
    tensorflow = SimpleNamespace(config=config, __spec__=object())
    monkeypatch.setitem(sys.modules, "tensorflow", tensorflow)
    monkeypatch.setattr(environment, "leaves_onednn_off", lambda flags: False)
    os.environ.pop("TF_CPP_MIN_LOG_LEVEL", None)

    with pytest.raises(ImportError, match="no such library"):
        environment.prepare()

    assert "a line of native code" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("flags", "off"),
    [
        ({"avx2", "fma"}, True),  # AMD Zen 3, Intel Haswell
        ({"avx2", "avx512f"}, True),  # Intel Skylake-X: AVX-512 without its neural instructions
        ({"avx2", "avx512f", "avx512_vnni"}, False),
        ({"avx2", "avx_vnni"}, False),  # Intel Alder Lake
        ({"sse4_2"}, False),  # too old for oneDNN to help
        (set(), False),  # no x86, or not Linux
    ],
)
def test_onednn_is_known_to_be_off_by_the_cpu(flags, off):
    assert environment.leaves_onednn_off(flags) is off


def test_onednn_is_turned_on_where_it_is_off_and_that_is_said(monkeypatch, capsys):
    monkeypatch.setattr(environment, "_cpu_flags", lambda: {"avx2"})
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)

    environment.prepare()

    assert os.environ["TF_ENABLE_ONEDNN_OPTS"] == "1"
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("keras-vit: oneDNN turned on")


@pytest.mark.parametrize(("flags", "value"), [({"avx2"}, "0"), ({"avx2", "avx512_vnni"}, None)])
def test_onednn_is_left_alone_where_it_is_on_or_the_person_chose(monkeypatch, capsys, flags, value):
    monkeypatch.setattr(environment, "_cpu_flags", lambda: flags)
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    if value is not None:
        monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", value)

    environment.prepare()

    assert os.environ.get("TF_ENABLE_ONEDNN_OPTS") == value
    assert capsys.readouterr().err == ""


# train, with a training function that only says what it was asked


@pytest.fixture
def fake_training(monkeypatch):
    """Replace training; return the list of its calls and a box for what it does."""
    import keras_vit.training.train as script

    calls, behaviour = [], {}

    def train(recipe, out, fresh=False):
        calls.append((recipe, out, fresh))
        print("epoch 1/1")
        if "raises" in behaviour:
            raise behaviour["raises"]
        scores = {"top1": 0.5, "top5": None, "num_examples": 4, "split": "test"}
        return {**scores, "epochs": 1, "train_seconds": 2.5}

    monkeypatch.setattr(script, "train", train)
    return calls, behaviour


def test_train_without_a_recipe_trains_digits_into_its_folder(keras_vit, fake_training):
    status, out, _ = keras_vit("train")

    ((recipe, folder, fresh),) = fake_training[0]
    assert (status, recipe.name, folder, fresh) == (DONE, "digits", Path("runs/digits"), False)
    assert "on the test split of 4 pictures" in out
    assert "Top-1 accuracy: 50.0 %" in out
    assert "runs/digits/report.html" in out


def test_train_takes_a_file_settings_and_short_forms(keras_vit, fake_training, tmp_path):
    (tmp_path / "mine.toml").write_text("[model]\nvariant = 'mu/4'\nimage_size = 8\n")

    keras_vit(
        "train", "mine.toml", "--set", "optim.learning_rate=1e-2", "--set=train.epochs=9",
        "--epochs", 3, "--batch-size", 7, "--seed", 5, "--data", "folder:a b", "--fresh",
        "-o", "run.1/best",
    )  # fmt: skip

    ((recipe, folder, fresh),) = fake_training[0]
    assert (recipe.name, folder, fresh) == ("mine", Path("run.1/best"), True)
    assert (recipe.train.epochs, recipe.train.batch_size, recipe.seed) == (3, 7, 5)
    assert (recipe.optim.learning_rate, recipe.data.source) == (0.01, "folder:a b")


def test_json_of_train_is_the_only_thing_on_standard_output(keras_vit, fake_training):
    status, out, err = keras_vit("train", "--json")

    assert status == DONE
    assert json.loads(out)["top1"] == 0.5
    assert "epoch 1/1" in err


def test_a_loss_that_is_not_finite_ends_with_status_1(keras_vit, fake_training):
    from keras_vit.callbacks import NonFiniteLoss

    fake_training[1]["raises"] = NonFiniteLoss("the loss is nan at epoch 2, step 3")

    status, _, err = keras_vit("train")

    assert (status, one_line(err)) == (SOME_FAILED, "the loss is nan at epoch 2, step 3")


@pytest.mark.parametrize(("stop", "expected"), [("interrupt", INTERRUPTED), ("term", PREEMPTED)])
def test_a_stop_says_the_command_that_goes_on(
    keras_vit, fake_training, monkeypatch, stop, expected
):
    from keras_vit.resume import Preempted

    fake_training[1]["raises"] = (
        KeyboardInterrupt() if stop == "interrupt" else Preempted("SIGTERM")
    )
    words = ["train", "digits", "--fresh", "-o", "a b"]
    monkeypatch.setattr(sys, "argv", ["keras-vit", *words])

    status, _, err = keras_vit(*words)

    assert status == expected
    assert err == "keras-vit: stopped; to go on: keras-vit train digits -o 'a b'\n"


def test_a_value_error_of_training_is_one_line_for_each_problem(keras_vit, tmp_path):
    (tmp_path / "a").mkdir()

    status, _, err = keras_vit("train", "folder", "--data=folder:a")

    assert status == USER_INPUT
    assert all(line.startswith("keras-vit: error: ") for line in err.splitlines())
    assert not (tmp_path / "runs").exists()


# The whole way, with a real tiny model


def test_a_run_says_where_its_report_is(keras_vit, digits_run):
    status, out, _ = keras_vit("train", "digits", *TINY, "--out", digits_run)

    assert status == DONE  # finished already: nothing is trained, the same is said
    assert f"report: {digits_run / 'report.html'}" in out
    assert "on the test split of 360 pictures" in out
    for name in ("recipe.json", "log.csv", "best.keras", "report.html", "report.json"):
        assert (digits_run / name).is_file(), name


def test_other_settings_in_the_same_folder_are_refused_by_name(keras_vit, digits_run):
    status, _, err = keras_vit("train", "digits", *TINY, "--seed=3", "--out", digits_run)

    assert status == USER_INPUT
    assert "seed: 3, not 0" in one_line(err)


def test_a_run_is_a_recipe_of_its_own_name(digits_run):
    from keras_vit.recipe import Recipe

    recipe = Recipe.load(digits_run / "recipe.json")

    assert (recipe.name, recipe.model.num_classes, recipe.model.num_channels) == ("digits", 10, 1)


@pytest.mark.parametrize("model", ["folder", "file"])
def test_evaluate_gives_what_training_reported(keras_vit, digits_run, model):
    argument = digits_run if model == "folder" else digits_run / "best.keras"

    status, out, err = keras_vit("evaluate", argument, "--json", "--batch-size=77")

    report = json.loads((digits_run / "report.json").read_text())
    evaluated = json.loads(out)
    assert status == DONE
    assert evaluated["top1"] == report["top1"]
    assert evaluated["confusion"] == report["confusion"]
    assert evaluated["num_examples"] == 360
    assert "on test, 360 pictures" in err


def test_evaluate_takes_the_newest_run_and_says_which(keras_vit, digits_run, monkeypatch):
    monkeypatch.chdir(digits_run.parents[1])

    status, out, err = keras_vit("evaluate", "--split=validation")

    assert status == DONE
    assert "keras-vit: MODEL is the newest run, runs/digits" in err
    assert "on validation, 180 pictures" in err
    assert re.match(r"Top-1 accuracy +\d+\.\d %  \d+ of 180 pictures right", out)
    assert sum(line.split()[0].isdecimal() for line in out.splitlines() if line) == 10


def test_evaluate_draws_the_confusion_matrix(keras_vit, digits_run, tmp_path):
    keras_vit("evaluate", digits_run, "-o", tmp_path / "confusion.png")

    with Image.open(tmp_path / "confusion.png") as drawn:
        assert min(drawn.size) > 100


def test_evaluate_matches_classes_by_name_not_by_place(keras_vit, digits_run, tmp_path):
    _digit_folders(tmp_path / "some", ["3", "8"])

    status, out, _ = keras_vit("evaluate", digits_run, "--data=folder:some", "--json")

    support = {row["class"]: row["support"] for row in json.loads(out)["per_class"]}
    assert status == DONE
    assert {name: count for name, count in support.items() if count} == {"3": 2, "8": 2}


def test_evaluate_refuses_classes_that_the_model_does_not_know(keras_vit, digits_run, tmp_path):
    _digit_folders(tmp_path / "some", ["3", "cat"])

    status, _, err = keras_vit("evaluate", digits_run, "--data=folder:some")

    assert status == USER_INPUT
    assert "classes the model does not know: cat; it knows: 0, 1, 2" in err


def test_evaluate_refuses_a_split_that_is_not_there(keras_vit, digits_run):
    status, _, err = keras_vit("evaluate", digits_run, "--split=tset")

    assert status == USER_INPUT
    assert "no split is called 'tset'; there are: train, validation, test" in err


def test_evaluate_needs_data_for_a_model_without_its_run(keras_vit, digits_run, tmp_path):
    (tmp_path / "alone.keras").write_bytes((digits_run / "best.keras").read_bytes())

    status, _, err = keras_vit("evaluate", tmp_path / "alone.keras")

    assert status == USER_INPUT
    assert one_line(err).endswith("recipe.json: not there; name the data with --data")


def _digit_folders(folder, names):
    for name in names:
        (folder / name).mkdir(parents=True)
        for i in range(2):
            Image.new("L", (8, 8), 40 * i).save(folder / name / f"{i}.png")


def test_predict_keeps_every_answer_in_its_place(keras_vit, digits_run, pictures):
    status, out, _ = keras_vit("predict", digits_run, pictures, "--json", "--top=2")

    document = json.loads(out)
    assert status == SOME_FAILED
    assert [p["path"] for p in document["predictions"]] == [
        str(pictures / "a.png"),
        str(pictures / "c.png"),
    ]
    ((path, reason),) = [(e["path"], e["reason"]) for e in document["errors"]]
    assert path == str(pictures / "b.jpg") and reason
    for prediction in document["predictions"]:
        assert prediction["top"][0] == [prediction["class"], prediction["probability"]]
        assert len(prediction["top"]) == 2


def test_predict_prints_a_table_and_says_what_failed(keras_vit, digits_run, pictures):
    status, out, err = keras_vit("predict", digits_run, pictures)

    assert status == SOME_FAILED
    assert [line.split()[-1] for line in out.splitlines()] == [
        str(pictures / "a.png"),
        str(pictures / "c.png"),
    ]
    assert str(pictures / "b.jpg") in err


def test_predict_prints_csv(keras_vit, digits_run, pictures):
    _, document, _ = keras_vit("predict", digits_run, pictures / "a.png", "--json")
    status, out, _ = keras_vit("predict", digits_run, pictures / "a.png", "--csv")

    header, row = csv.reader(io.StringIO(out))
    (prediction,) = json.loads(document)["predictions"]
    assert status == DONE
    assert header == ["path", "class", "probability", "error"]
    assert row[:2] == [str(pictures / "a.png"), prediction["class"]]
    assert float(row[2]) == pytest.approx(prediction["probability"], abs=1e-6)


def test_predict_reads_a_list_from_standard_input(keras_vit, digits_run, pictures, monkeypatch):
    names = f"{pictures / 'c.png'}\n\n{pictures / 'a.png'}\n".encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(names)))
    monkeypatch.chdir(digits_run.parents[1])

    status, out, err = keras_vit("predict", "-", "--json")

    assert status == DONE
    assert "MODEL is the newest run, runs/digits" in err
    assert [p["path"] for p in json.loads(out)["predictions"]] == [
        str(pictures / "c.png"),
        str(pictures / "a.png"),
    ]


def test_predict_takes_a_name_that_begins_with_a_dash(keras_vit, digits_run, pictures, tmp_path):
    (pictures / "a.png").rename(tmp_path / "-rf.jpg")

    status, out, _ = keras_vit("predict", "--json", "--", digits_run, "-rf.jpg")

    assert status == DONE
    assert json.loads(out)["predictions"][0]["path"] == "-rf.jpg"


def test_names_that_a_terminal_cannot_show_never_crash(digits_run, pictures, tmp_path):
    (pictures / "a.png").rename(tmp_path / "été.png")
    os.rename(pictures / "c.png", os.fsencode(tmp_path) + b"/\xff.png")

    result = new_process(
        "-m", "keras_vit_cli", "predict", str(digits_run), "été.png", b"\xff.png",
        LC_ALL="C", PYTHONIOENCODING="ascii", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0",
    )  # fmt: skip

    assert result.returncode == DONE, result.stderr.decode()
    assert len(result.stdout.splitlines()) == 2
    assert result.stdout.isascii()


def test_a_new_process_says_nothing_but_what_is_ours(digits_run):
    kept = ("TF_CPP_MIN_LOG_LEVEL", "TF_ENABLE_ONEDNN_OPTS")
    result = subprocess.run(
        [sys.executable, "-m", "keras_vit_cli", "predict", digits_run, "nowhere.png"],
        capture_output=True,
        text=True,
        env={name: value for name, value in os.environ.items() if name not in kept},
    )

    lines = [line for line in result.stderr.splitlines() if "oneDNN turned on" not in line]
    assert (result.returncode, result.stdout) == (SOME_FAILED, "")
    assert lines == ["keras-vit: nowhere.png: there is no such file"]


@pytest.mark.skipif(os.name != "posix", reason="closes streams as a shell does")
def test_closed_streams_are_no_crash(tmp_path):
    command = f"{shlex.quote(sys.executable)} -m keras_vit_cli train digts"

    status = subprocess.run(["sh", "-c", f"{command} >&- 2>&-"]).returncode

    assert status == USER_INPUT
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_goes_away_is_no_crash(digits_run, pictures):
    words = ["-m", "keras_vit_cli", "predict", digits_run, pictures / "a.png"]
    with subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        error = process.stderr.read().decode()

    assert process.returncode == SOME_FAILED
    assert "Traceback" not in error and "BrokenPipe" not in error


def test_any_name_of_a_run_folder_works_to_train_and_to_predict(keras_vit, pictures):
    name = "run.1/sortie été.keras"

    status, _, err = keras_vit("train", "digits", *TINY, "--out", name)
    assert status == DONE, err

    status, out, _ = keras_vit("predict", name, pictures / "a.png", "--json")

    assert status == DONE
    assert len(json.loads(out)["predictions"]) == 1


@pytest.mark.parametrize("name", ["file", "/proc/run"])
def test_a_run_folder_that_cannot_be_made_is_refused_before_training(keras_vit, tmp_path, name):
    (tmp_path / "file").write_text("mine")

    status, out, err = keras_vit("train", "digits", *TINY, "--out", name)

    assert (status, out) == (USER_INPUT, "")
    assert name in one_line(err)
    assert (tmp_path / "file").read_text() == "mine"


def test_data_show_draws_what_training_will_see(keras_vit, tmp_path):
    status, _, err = keras_vit("data", "show", "digits", "-o", "grid.png", "--count=6")

    assert status == DONE
    with Image.open(tmp_path / "grid.png") as drawn:
        assert min(drawn.size) > 50
    assert "grid.png: 6 of 1257 pictures of digits" in err
