"""One command for all measurements: `python -m tests.benchmarks [--only PART] [--quick]`.

Every contestant has a process of its own, kept alive and asked in turn, round after round, so
that slow changes of the machine fall on all alike. Figures are medians, with the quartiles.
"""

import argparse
import json
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks.process import Child, ChildError
from tests.benchmarks.rounds import Entry, measure
from tests.benchmarks.sizes import SIZES, missing_packages
from tests.benchmarks.tables import describe, machine, quartiles, spread, table

PEERS = ("keras_vit", "keras_vit, XLA", "keras-hub", "timm")
MODELS = {  # part: size, precision, contestants
    "ti-float32": ("Ti/16 at 224", "float32", (*PEERS[:3], "keras-hub, XLA", "timm")),
    "ti-bfloat16": ("Ti/16 at 224", "bfloat16", PEERS),
    "lesson": ("the lesson's model", "float32", PEERS),
}
PARTS = ("matmul", "cold", "ti-float32", "lesson", "attention", "ti-bfloat16")
LIMIT_MINUTES = {"quick": 2, "full": 20}  # no further part begins after that


@contextmanager
def started(contestants, size, precision, remarks):
    """The processes of all contestants that can take part, started one after another."""
    children = []
    try:
        for contestant in contestants:
            if missing := missing_packages(contestant):
                remark(remarks, f"{contestant}: skipped, {', '.join(missing)} not installed")
                continue
            try:
                children.append(Child(contestant, size, precision))
            except ChildError as error:
                remark(remarks, f"{contestant}: failed, {error}")
        yield children
    finally:
        for child in children:
            child.close()


def remark(remarks, text):
    if text not in remarks:
        remarks.append(text)


def rows_of(part, title, entries, remarks, work):
    """Plain results of measured entries; `work` is what a step gets done (images, GFLOP)."""
    rows = []
    for entry in entries:
        if entry.failure or not entry.seconds:
            remark(remarks, f"{title}, {entry.label}: failed, {entry.failure}")
            continue
        row = {"part": part, "title": title, "label": entry.label, "task": entry.task}
        row |= {"seconds": entry.seconds, "per_second": [work / s for s in entry.seconds]}
        share = entry.child.waiting_cpu_seconds / max(entry.child.waiting_seconds, 1e-9)
        row |= {"peak_memory_mb": round(entry.peak_memory / 1e6), "waiting_cpu_share": share}
        rows.append(row)
    return rows


def measure_models(part, arguments, remarks):
    size, precision, contestants = MODELS[part]
    size = "a toy" if arguments.quick else size
    if arguments.quick:
        left_out = ("keras-hub, XLA",) if part == "ti-float32" else ("keras_vit, XLA",)
        contestants = [name for name in contestants if name not in left_out]
    rows = []
    with started(contestants, size, precision, remarks) as children:
        for task in ("infer", "train"):
            entries = [Entry(child.contestant, child, task) for child in children]
            measure(entries, arguments.rounds, budget=60)
            title = f"{size}, batch {SIZES[size].batch_size}, {precision}, {task}"
            rows.append(rows_of(part, title, entries, remarks, SIZES[size].batch_size))
    for group in rows:
        print_models(group)
    return sum(rows, [])


def print_models(rows):
    if not rows:
        return
    ours = quartiles(rows[0]["per_second"])[1]
    print(f"\n### {rows[0]['title']}\n")
    cells = [
        [
            row["label"],
            spread(row["per_second"], ".1f"),
            f"{quartiles(row['seconds'])[1] * 1e3:.1f}",
            f"{quartiles(row['per_second'])[1] / ours:.2f}",
            str(row["peak_memory_mb"]),
        ]
        for row in rows
    ]
    header = ["", "images/s (quartiles)", "ms a step", f"x {rows[0]['label']}", "peak memory, MB"]
    print(table(header, cells), flush=True)


def measure_attention(part, arguments, remarks):
    results = []
    names = ["a toy"] if arguments.quick else ["Ti/16 at 224", "the lesson's model"]
    for size in names:
        for precision in ("float32", "bfloat16"):
            with started(["attention"], size, precision, remarks) as children:
                for child in children:
                    results += _attention_tables(child, size, precision, arguments, remarks)
    return results


def _attention_tables(child, size, precision, arguments, remarks):
    results = []
    for kind in ("infer|no XLA", "infer|XLA", "train|no XLA", "train|XLA"):
        if arguments.quick and kind in ("infer|XLA", "train|no XLA"):
            continue
        tasks = [task for task in child.tasks if task.partition("|")[2] == kind]
        entries = [Entry(task.partition("|")[0], child, task) for task in tasks]
        measure(entries, arguments.rounds, budget=30)
        title = f"attention, {size}, {precision}, {kind.replace('|', ', ')}"
        rows = rows_of("attention", title, entries, remarks, SIZES[size].batch_size)
        print_attention(rows)
        results += rows
    return results


def print_attention(rows):
    if not rows:
        return
    ours = quartiles(rows[0]["seconds"])[1]
    print(f"\n### {rows[0]['title']}\n")
    cells = [
        [
            row["label"],
            spread([1e3 * seconds for seconds in row["seconds"]], ".2f"),
            f"{quartiles(row['seconds'])[1] / ours:.2f}",
        ]
        for row in rows
    ]
    print(table(["", "ms (quartiles)", "x ours"], cells), flush=True)


def measure_cold_start(part, arguments, remarks):
    """From the start of the process to the first answer, for one picture; no XLA."""
    size = "a toy" if arguments.quick else "Ti/16 at 224"
    seconds = {}
    for _ in range(1 if arguments.quick else 5):
        for contestant in ("keras_vit", "keras-hub", "timm"):
            with started([contestant], size, "float32", remarks) as children:
                for child in children:
                    answer = child.prepare("infer")["first_answer"] - child.started
                    seconds.setdefault(contestant, []).append(answer)
    title = f"cold start: import, build, first answer ({size})"
    print(f"\n### {title}\n")
    cells = [[name, spread(values, ".1f")] for name, values in seconds.items()]
    print(table(["", "seconds (quartiles)"], cells), flush=True)
    return [
        {"part": part, "title": title, "label": name, "seconds": values}
        for name, values in seconds.items()
    ]


def measure_matmul(part, arguments, remarks):
    names = ("matmul, TensorFlow", "matmul, PyTorch")
    with started(names, "a toy", "float32", remarks) as children:
        entries = [
            Entry(f"{child.contestant}, {task}", child, task)
            for child in children
            for task in child.tasks
        ]
        measure(entries, arguments.rounds, budget=30)
    rows = rows_of(part, "2048 x 2048 matrix product", entries, remarks, 2 * 2048**3 / 1e9)
    print(f"\n### {part}: the machine's peak\n")
    cells = [[row["label"], spread(row["per_second"], ".0f")] for row in rows]
    print(table(["", "GFLOP/s (quartiles)"], cells), flush=True)
    return rows


def parse(arguments):
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--only", action="append", choices=PARTS, help="a part; may be repeated")
    parser.add_argument(
        "--quick", action="store_true", help="toy sizes: shows that it runs, not how fast"
    )
    parser.add_argument("--rounds", type=int, help="turns of each contestant (9; with --quick 3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured")
    options = parser.parse_args(arguments)
    options.rounds = options.rounds or (3 if options.quick else 9)
    return options


def main(arguments=None):
    options, start, remarks, results = parse(arguments), time.monotonic(), [], []
    facts = machine()
    print(describe(facts), flush=True)
    measurements = {"matmul": measure_matmul, "cold": measure_cold_start}
    measurements |= {"attention": measure_attention}
    limit = LIMIT_MINUTES["quick" if options.quick else "full"]
    parts = [part for part in PARTS if not options.quick or part != "lesson"]  # same toy as ti's
    for part in options.only or parts:
        if time.monotonic() - start > 60 * limit:
            remark(remarks, f"{part}: left out, {limit} minutes are over")
            continue
        results += measurements.get(part, measure_models)(part, options, remarks)
    shares = [row["waiting_cpu_share"] for row in results if "waiting_cpu_share" in row]
    print(f"\nwaiting processes used at most {max(shares, default=0):.1%} of a core")
    for text in remarks:
        print(text)
    minutes = (time.monotonic() - start) / 60
    print(f"{minutes:.1f} minutes" + ("; toy sizes: no figures to quote" * options.quick))
    if options.json:
        document = {"machine": facts, "quick": options.quick, "results": results}
        options.json.write_text(json.dumps({**document, "remarks": remarks}, indent=1) + "\n")
    return 1 if any("failed" in text for text in remarks) else 0


if __name__ == "__main__":
    sys.exit(main())
