import io
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf
from picture_bytes import encode, fields, upright
from PIL import Image

from keras_vit.images import (
    ImageError,
    check_file,
    decode_image,
    inspect_header,
    read_encoded,
    read_image,
)


def decode(encoded):
    """Decode in a graph; None where the graph refuses."""
    try:
        return decode_image(encoded).numpy()
    except tf.errors.InvalidArgumentError:
        return None


def refusal(source):
    with pytest.raises(ImageError) as caught:
        read_image(source)
    return str(caught.value)


def test_every_odd_picture_is_read_as_displayed(odd_pictures):
    readable = [odd for odd in odd_pictures if odd.expect != "refuse"]

    assert [fault for odd in readable for fault in odd.faults(read_image(odd.path))] == []


def test_every_unreadable_file_is_refused_by_name_in_one_line(odd_pictures):
    for odd in odd_pictures:
        if odd.expect == "refuse":
            message = refusal(odd.path)
            assert message.startswith(f"{odd.path}: ") and message.isprintable(), message


def test_bytes_are_read_as_the_file_is(odd_pictures):
    for odd in odd_pictures:
        encoded = odd.path.read_bytes()
        if odd.expect == "refuse":
            assert refusal(encoded) == refusal(odd.path).replace(str(odd.path), "image bytes")
        else:
            np.testing.assert_array_equal(read_image(encoded), read_image(odd.path), odd.name)


def test_the_graph_reads_the_same_bits_or_refuses(odd_pictures):
    for odd in odd_pictures:
        pixels = decode(tf.io.read_file(os.fsencode(odd.path)))
        if odd.expect == "read":
            np.testing.assert_array_equal(pixels, read_image(odd.path), odd.name)
        else:
            assert pixels is None, odd.name


def test_a_data_pipeline_reads_the_same_bits_and_what_only_python_reads_too(odd_pictures):
    readable = [odd for odd in odd_pictures if odd.expect != "refuse"]
    paths = tf.data.Dataset.from_tensor_slices([os.fsencode(odd.path) for odd in readable])
    pipeline = paths.map(lambda path: read_encoded(tf.io.read_file(path), path), 2)

    assert pipeline.element_spec == tf.TensorSpec((None, None, 3), tf.uint8)
    for odd, pixels in zip(readable, pipeline.as_numpy_iterator(), strict=True):
        np.testing.assert_array_equal(pixels, read_image(odd.path), odd.name)


def test_a_data_pipeline_refuses_what_is_unreadable(odd_pictures):
    for odd in odd_pictures:
        if odd.expect == "refuse":
            path = os.fsencode(odd.path)
            with pytest.raises(tf.errors.OpError):
                read_encoded(tf.io.read_file(path), path)


@pytest.mark.parametrize("name", ["text", "empty file", "png bomb", "jpeg bomb", "gif cut off"])
def test_a_data_pipeline_names_the_file_that_is_no_picture_or_a_bomb(odd_pictures, name):
    path = next(os.fsencode(odd.path) for odd in odd_pictures if odd.name == name)

    with pytest.raises(tf.errors.OpError, match=path.decode()):
        read_encoded(tf.io.read_file(path), path)


def test_the_graph_says_what_it_takes():
    with pytest.raises(tf.errors.InvalidArgumentError, match="not a JPEG, PNG, GIF, BMP or WebP"):
        decode_image(encode(upright(), "TIFF"))


def test_a_checked_file_has_the_size_that_reading_gives(odd_pictures):
    for odd in odd_pictures:
        if odd.expect == "refuse":
            with pytest.raises(ImageError):
                check_file(odd.path)
        else:
            header = check_file(odd.path)
            assert (header.width, header.height) == odd.size, odd.name
            assert header == inspect_header(odd.path)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("empty file", "the file is empty"),
        ("zero bytes", "there are only zero bytes in it"),
        ("text", "this is text, not an image: it starts with 'some notes, and no pictu...'"),
        ("git lfs pointer", "a Git LFS pointer, not the picture itself: run `git lfs pull`"),
        ("html page", "this is an HTML page, not an image"),
        ("jpg cut off", "the JPEG file is cut off after"),
        ("png cut off", "the PNG file is cut off after"),
        ("gif cut off", "the GIF file is cut off after"),
        ("bmp cut off", "the BMP file is cut off after"),
        ("webp cut off", "the WebP file is cut off after"),
        ("tif cut off", "the TIFF file is cut off"),
        ("png wrong checksum", "the PNG file is damaged: its pixels cannot be decoded"),
        ("png bomb", "the PNG header claims 60000x60000 pixels, more than 50,000,000"),
        ("jpeg bomb", "the JPEG header claims 60000x60000 pixels, more than 50,000,000"),
    ],
)
def test_a_refusal_says_what_is_wrong(odd_pictures, name, words):
    path = next(odd.path for odd in odd_pictures if odd.name == name)

    assert words in refusal(path)


def test_a_jpeg_cut_inside_its_scan_is_called_cut_off():
    content = encode(upright(), "JPEG")

    assert refusal(content[:-40]).endswith(f"cut off after {len(content) - 40} bytes")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"%PDF-1.7", "a PDF document"),
        (b"PK\x03\x04", "a ZIP archive"),
        (b"\0\0\0\x18ftypheic", "an HEIC picture: save it as PNG or JPEG first"),
        (b"\0\0\0\x18ftypmp42", "a video"),
        (b"<?xml version='1.0'?><svg/>", "an XML or SVG file"),
        (b"\x07\x80\xff\xfe" * 9, "not an image of a known format"),
        (b"BMW, a car maker", "this is text"),
    ],
)
def test_foreign_files_are_called_by_their_kind(content, words):
    assert words in refusal(content)


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    assert refusal(tmp_path / "no.jpg") == f"{tmp_path}/no.jpg: there is no such file"
    assert refusal(tmp_path) == f"{tmp_path}: this is a folder, not a file"
    assert refusal(str(tmp_path)) == refusal(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_that_may_not_be_read_is_named(tmp_path):
    path = tmp_path / "secret.jpg"
    path.write_bytes(b"")
    path.chmod(0)

    assert refusal(path) == f"{path}: reading it is not permitted"


def test_a_name_of_odd_bytes_or_lines_stays_in_one_printable_line(tmp_path):
    path = os.path.join(os.fsencode(tmp_path), b"a\nb \xe9\xff \xf0\x9f\x90\x88.jpg")
    try:
        open(path, "wb").close()
    except OSError:
        pytest.skip("this file system holds only names that are Unicode")

    message = refusal(os.fsdecode(path))

    assert message == f"{tmp_path}/a\\nb \\xe9\\xff \U0001f408.jpg: the file is empty"


def test_every_thread_reads_the_same_pixels(odd_pictures):
    readable = [odd.path for odd in odd_pictures if odd.expect != "refuse"]
    expected = [read_image(path) for path in readable]

    with ThreadPoolExecutor(8) as pool:
        for pixels, right in zip(pool.map(read_image, readable * 3), expected * 3, strict=True):
            np.testing.assert_array_equal(pixels, right)


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"subsampling": 2}])
def test_jpeg_pixels_equal_pillows(options):
    noise = np.random.default_rng(0).integers(0, 256, (37, 53, 3)).astype(np.uint8)
    content = encode(Image.fromarray(noise), "JPEG", **options)

    with Image.open(io.BytesIO(content)) as image:
        np.testing.assert_array_equal(read_image(content), np.asarray(image))


def test_cuts_of_every_format_are_refused():
    picture = Image.fromarray(fields(width=16, height=8))
    for kind in ("JPEG", "PNG", "GIF", "BMP", "WEBP"):
        content = encode(picture, kind)
        whole = len(content) - (kind == "GIF")  # without its last byte a GIF's picture is complete
        for length in [*range(1, whole - 3, 17), *range(whole - 3, whole)]:
            assert decode(content[:length]) is None, f"{kind} cut after {length} bytes"
