"""Results as Markdown tables, and the machine that gave them."""

import os
import platform
import re
import statistics
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("keras-vit-classifier", "keras", "tensorflow", "keras-hub", "torch", "timm", "numpy")


def quartiles(values):
    """(first quartile, median, third quartile) of at least one number."""
    if len(values) == 1:
        return (values[0],) * 3
    return tuple(statistics.quantiles(values, n=4, method="inclusive"))


def table(header, rows):
    """A Markdown table with columns wide enough to be read as text."""
    lines = [header, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) + " |"
        for line in lines
    )


def spread(values, form):
    """`median (quartile to quartile)`."""
    low, middle, high = (format(value, form) for value in quartiles(values))
    return f"{middle} ({low} to {high})"


def machine():
    """The kind of CPU and the versions: a figure means nothing without them."""
    flags, model = set(), platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        text = cpuinfo.read_text()
        flags = set(re.findall(r"\b(?:avx|amx|fma)\w*", text))
        names = re.findall(r"model name\s*:\s*(.+)", text)
        model = names[0] if names else model
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "cpu_flags": sorted(flags),
        "one_dnn": os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1, set by the benchmark"),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def _version(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def describe(facts):
    installed = ", ".join(f"{k} {v}" for k, v in facts["versions"].items() if v)
    return (
        f"{facts['cpu']}, {facts['cores']} cores, {' '.join(facts['cpu_flags']) or 'no flags'}; "
        f"load {facts['load_average']:.1f} before the start; "
        f"TF_ENABLE_ONEDNN_OPTS {facts['one_dnn']}\nPython {facts['python']}, {installed}"
    )
