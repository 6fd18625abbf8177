"""Damaged files: each is read alike on every path or refused by name, and nothing else happens."""

import numpy as np
import pytest
import tensorflow as tf
from picture_bytes import encode, exif, run_length_bmp, with_exif
from PIL import Image

from keras_vit.images import ImageError, decode_image, inspect_header, read_encoded, read_image

NUM_MUTATIONS = 27  # of each format; tried once with 600


def make_files():
    """Return a small file of each format, all with noise, so that a wrong byte shows."""
    noise = np.random.default_rng(0).integers(0, 256, (2, 16, 24, 3)).astype(np.uint8)
    image, other = (Image.fromarray(pixels) for pixels in noise)
    animation = {"save_all": True, "append_images": [other], "duration": 90}
    tags = b"Exif\0\0" + exif(6)
    return {
        "jpeg": with_exif(encode(image, "JPEG"), exif(6, ">")),
        "progressive": encode(image, "JPEG", progressive=True, exif=tags),
        "png": encode(image, "PNG", exif=tags),
        "palette": encode(image.quantize(64), "PNG", transparency=3),
        "gif": encode(image, "GIF", **animation),
        "bmp": encode(image.quantize(16), "BMP"),
        "run length": run_length_bmp(),
        "webp": encode(image, "WEBP", exif=tags),
        "animation": encode(image, "WEBP", lossless=True, **animation),
        "tiff": encode(image, "TIFF", compression="tiff_lzw"),
        "jpeg2000": encode(image, "JPEG2000"),
    }


FILES = make_files()


def mutate(content, random):
    """Cut a file, or change a few of its bytes, mostly of its header."""
    if random.random() < 0.2:
        return content[: random.integers(0, len(content))]
    changed = bytearray(content)
    reach = min(len(content), random.choice([32, 200, len(content)]))
    for _ in range(random.choice([1, 1, 2, 8])):
        place = random.integers(0, reach)
        flipped = changed[place] ^ (1 << random.integers(0, 8))
        changed[place] = flipped if random.random() < 0.5 else random.integers(0, 256)
    return bytes(changed)


def attempt(read, error, *arguments):
    """Return what `read` gives, or the words of the one error that it may raise."""
    try:
        return read(*arguments)
    except error as refusal:
        return str(refusal)


def is_read(answer):
    return not isinstance(answer, str)


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_read_alike_everywhere_or_refused_by_name(name):
    num_read = 0
    for number in range(NUM_MUTATIONS):
        random = np.random.default_rng([number, len(FILES[name])])
        content = mutate(FILES[name], random)
        where = f"{name}, mutation {number}"

        pixels = attempt(read_image, ImageError, content)
        header = attempt(inspect_header, ImageError, content)
        graph = attempt(decode_image, tf.errors.InvalidArgumentError, content)
        pipeline = attempt(read_encoded, tf.errors.OpError, content, "some name")

        assert is_read(pipeline) == is_read(pixels), f"{where}: {pixels} {pipeline}"
        if not is_read(pixels):
            assert pixels.startswith("image bytes: ") and pixels.isprintable(), where
            assert not is_read(graph), f"{where}: the graph reads what Python refuses: {pixels}"
            continue
        num_read += 1
        assert is_read(header), f"{where}: {header}"
        assert pixels.shape == (header.height, header.width, 3), where
        np.testing.assert_array_equal(pipeline, pixels, where)
        if is_read(graph):
            np.testing.assert_array_equal(graph, pixels, where)
        else:
            assert header.format in ("TIFF", "JPEG2000", "BMP"), f"{where}: {graph}"
    assert num_read < NUM_MUTATIONS
