import struct
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from picture_bytes import (
    HEIGHT,
    ORIENTATION_TAG,
    WIDTH,
    encode,
    fields,
    run_length_bmp,
    turned,
    upright,
)
from PIL import Image

from keras_vit.images import ImageError, inspect_header, read_image


def refusal(content):
    with pytest.raises(ImageError) as caught:
        read_image(content)
    return str(caught.value)


@pytest.mark.parametrize("kind", ["TIFF", "JPEG2000", "PPM"])
def test_lossless_pixels_come_through(kind):
    np.testing.assert_array_equal(read_image(encode(upright(), kind)), fields())


def test_avif_is_read():
    pixels = read_image(encode(upright(), "AVIF", quality=95)).astype(int)

    assert np.abs(pixels - fields())[4:12, 4:20].max() <= 12


@pytest.mark.parametrize("number", range(1, 9))
def test_tiffs_are_turned_by_their_tag(number):
    encoded = encode(turned(number), "TIFF", tiffinfo={ORIENTATION_TAG: number})

    np.testing.assert_array_equal(read_image(encoded), fields())
    assert inspect_header(encoded) == ("TIFF", WIDTH, HEIGHT, number)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK"])
def test_tiffs_of_every_mode_become_rgb(mode):
    image = upright().convert(mode)

    expected = np.asarray(image.convert("RGB"))

    np.testing.assert_array_equal(read_image(encode(image, "TIFF")), expected)


@pytest.mark.parametrize("kind", ["TIFF", "JPEG2000", "PPM"])
def test_sixteen_bits_are_scaled_by_257(kind):
    levels = np.array([[0, 128, 129, 257, 32_768, 65_406, 65_407, 65_535]], np.uint16)
    image = Image.fromarray(np.repeat(levels, 8, 0))

    pixels = read_image(encode(image, kind))

    assert pixels.shape == (8, 8, 3)
    assert pixels[3, :, 1].tolist() == [0, 0, 1, 1, 128, 254, 255, 255]


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        (np.array([[0, 70_000]], np.int32), "its pixels reach from 0 to 70000"),
        (np.array([[-1, 5]], np.int32), "its pixels reach from -1 to 5"),
        (np.array([[0.0, 0.5]], np.float32), "floating-point numbers of unknown range"),
    ],
)
def test_pixels_of_unknown_range_are_refused(levels, words):
    assert words in refusal(encode(Image.fromarray(levels), "TIFF"))


def test_the_first_page_of_a_tiff_is_read():
    encoded = encode(upright(), "TIFF", save_all=True, append_images=[turned(3)])

    np.testing.assert_array_equal(read_image(encoded), fields())


def test_a_tiff_of_too_many_pixels_is_refused_before_it_is_unpacked():
    encoded = bytearray(encode(upright(), "TIFF"))
    width = encoded.index(struct.pack("<HHII", 256, 4, 1, WIDTH)) + 8
    for side, words in ((40_000, "more than 50,000,000"), (10_000_000, "far too many pixels")):
        encoded[width : width + 4] = struct.pack("<I", side)
        encoded[width + 12 : width + 16] = struct.pack("<I", side // 10)
        assert words in refusal(bytes(encoded))


def test_a_run_length_bmp_is_read_unless_it_would_take_long():
    encoded = run_length_bmp()
    np.testing.assert_array_equal(read_image(encoded), fields())

    large = encoded[:18] + struct.pack("<ii", 2_000, 2_001) + encoded[26:]
    assert "a large run-length BMP, which takes long: save it as PNG" in refusal(large)


def test_a_bmp_with_the_oldest_header_is_read():
    rows = b"".join(row[:, ::-1].tobytes() for row in fields()[::-1])
    header = struct.pack("<IHHHH", 12, WIDTH, HEIGHT, 1, 24)
    encoded = struct.pack("<2sIII", b"BM", 26 + len(rows), 0, 26) + header + rows

    assert inspect_header(encoded) == ("BMP", WIDTH, HEIGHT, 1)
    np.testing.assert_array_equal(read_image(encoded), fields())


@pytest.mark.parametrize("compression", ["raw", "tiff_lzw", "tiff_adobe_deflate", "packbits"])
def test_a_tiff_that_is_cut_off_is_refused(compression):
    content = encode(turned(3), "TIFF", compression=compression)
    directory = struct.unpack("<I", content[4:8])[0]
    if directory < len(content) // 2:
        message = refusal(content[:-20])
        assert message.startswith("image bytes: the TIFF file is ")
    assert "image bytes: the TIFF file is " in refusal(content[: directory + 3])


def test_pillows_warnings_are_kept_from_the_user_and_the_filters_are_put_back():
    encoded = bytearray(encode(upright(), "TIFF"))
    encoded[8:10] = struct.pack("<H", 500)  # more entries than there are: Pillow would warn
    before = list(warnings.filters)

    with ThreadPoolExecutor(4) as pool:
        for pixels in pool.map(read_image, [bytes(encoded)] * 12):
            np.testing.assert_array_equal(pixels, fields())

    assert warnings.filters == before
