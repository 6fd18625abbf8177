"""Checks picture files before the first step, many at once, and names each one that is bad."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from keras_vit import images


def check_files(paths: Sequence[str]) -> dict[str, str]:
    """Return path -> reason, in the order of `paths`, for each file that cannot be used."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        reasons = pool.map(_find_fault, paths)
        return {path: reason for path, reason in zip(paths, reasons, strict=True) if reason}


def _find_fault(path: str) -> str:
    try:
        images.inspect_header(path)
    except images.ImageError as error:
        return str(error)
    return ""
