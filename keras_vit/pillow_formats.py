"""Read with Pillow what TensorFlow cannot decode: TIFF, JPEG 2000, AVIF, PPM and odd BMP files."""

import io
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from keras_vit.unreadable import UnreadableError

ORIENTATION_TAG = 0x0112
MAX_RUN_LENGTH_PIXELS = 4_000_000  # Pillow unpacks these pixels in Python, two million a second
LEVELS_OF_16_BITS = 257  # 65535 / 255


class _PillowSilence:
    """Silence Pillow's warnings, which no user can act on, while any thread reads with it.

    Warning filters belong to the process: the first reader sets them, the last puts them back.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._num_readers = 0
        self._saved_filters = None

    def __enter__(self):
        with self._lock:
            if self._num_readers == 0:
                self._saved_filters = warnings.catch_warnings()
                self._saved_filters.__enter__()
                warnings.filterwarnings("ignore", module=r"PIL\.")
            self._num_readers += 1

    def __exit__(self, *error):
        with self._lock:
            self._num_readers -= 1
            if self._num_readers == 0:
                self._saved_filters.__exit__(*error)


_silence = _PillowSilence()


def read_size(source: str | os.PathLike | bytes, kind: str) -> tuple[int, int, int]:
    """Return the stored width and height, and the EXIF orientation."""
    with _opened(source, kind) as image:
        orientation = image.getexif().get(ORIENTATION_TAG, 1)
        orientation = orientation if orientation in range(1, 9) else 1
        width, height = image.size
        if kind == "TIFF" and orientation > 4:  # Pillow gives the size as displayed
            width, height = height, width
        return width, height, orientation


def read_pixels(source: str | os.PathLike | bytes, kind: str) -> np.ndarray:
    """Return `(H, W, 3)` uint8 as displayed."""
    from PIL import ImageOps

    with _opened(source, kind) as image:
        is_slow = kind == "BMP" and image.tile and image.tile[0][0] == "bmp_rle"
        if is_slow and image.width * image.height > MAX_RUN_LENGTH_PIXELS:
            raise UnreadableError("it is a large run-length BMP, which takes long: save it as PNG")
        image = ImageOps.exif_transpose(image)
        if image.mode.startswith("I"):
            return _scale_16_bits(np.asarray(image))
        if image.mode == "F":
            raise UnreadableError(f"its {kind} pixels are floating-point numbers of unknown range")
        return np.array(image.convert("RGB"))


@contextmanager
def _opened(source: str | os.PathLike | bytes, kind: str) -> Iterator:
    from PIL import Image

    stream = io.BytesIO(source) if isinstance(source, bytes) else source
    try:
        with _silence, Image.open(stream, formats=(kind,)) as image:
            image.info.pop("xmp", None)  # a turn is taken from EXIF alone, as for other formats
            yield image
    except (OSError, UnreadableError) as error:
        if isinstance(error, UnreadableError) or error.errno is not None:
            raise
        raise UnreadableError(_in_words(error, kind)) from error
    except Exception as error:  # Pillow raises whatever a damaged file leads it to
        raise UnreadableError(_in_words(error, kind)) from error


def _in_words(error: Exception, kind: str) -> str:
    from PIL import Image, UnidentifiedImageError

    if isinstance(error, Image.DecompressionBombError):
        return f"the {kind} header claims far too many pixels"
    if isinstance(error, UnidentifiedImageError):
        return f"the {kind} file is damaged in its header"
    if "truncated" in str(error).lower():
        return f"the {kind} file is cut off"
    return f"the {kind} file is damaged: Pillow says {' '.join(str(error).split())!r}"


def _scale_16_bits(levels: np.ndarray) -> np.ndarray:
    if levels.min() < 0 or levels.max() > 65535:
        reach = f"{levels.min()} to {levels.max()}"
        raise UnreadableError(f"its pixels reach from {reach}, which is not 0 to 65535")
    grey = (levels.astype(np.uint32) + LEVELS_OF_16_BITS // 2) // LEVELS_OF_16_BITS
    return np.repeat(grey.astype(np.uint8)[:, :, None], 3, axis=2)
