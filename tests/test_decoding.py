import io
import struct

import numpy as np
import pytest
import tensorflow as tf
from picture_bytes import (
    HEIGHT,
    WIDTH,
    encode,
    exif,
    fields,
    jpeg_of_size,
    png,
    png_chunk,
    png_rows,
    turned,
    upright,
    with_exif,
)
from PIL import Image, ImageOps

from keras_vit.chunks import PADDING, read_orientation
from keras_vit.decoding import decode_image
from keras_vit.headers import exif_orientation

UPRIGHT = fields()
LOSSLESS = {"lossless": True, "exact": True}


def decode(encoded):
    return decode_image(encoded).numpy()


def refusal(encoded):
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        decode_image(encoded)
    return str(caught.value)


def segment(marker, content):
    return b"\xff" + bytes([marker]) + struct.pack(">H", len(content) + 2) + content


def assert_upright(encoded, tolerance=0):
    pixels = decode(encoded).astype(int)
    assert pixels.shape == UPRIGHT.shape
    assert np.abs(pixels - UPRIGHT)[4:12, 4:20].max() <= tolerance  # the red field
    assert np.abs(pixels - UPRIGHT)[20:28, 28:44].max() <= tolerance  # the yellow one


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("number", range(1, 9))
def test_jpegs_are_turned_by_their_exif(number, order):
    assert_upright(with_exif(encode(turned(number), "JPEG"), exif(number, order)), tolerance=12)


@pytest.mark.parametrize("number", range(1, 9))
def test_a_turn_equals_pillows(number):
    stored = np.random.default_rng(0).integers(0, 256, (6, 9, 3)).astype(np.uint8)
    tags = Image.Exif()
    tags[0x0112] = number
    encoded = encode(Image.fromarray(stored), "PNG", exif=tags)
    with Image.open(io.BytesIO(encoded)) as image:
        np.testing.assert_array_equal(decode(encoded), np.asarray(ImageOps.exif_transpose(image)))


@pytest.mark.parametrize(
    "before",
    [
        b"",
        segment(0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0"),
        segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0<x/>"),  # XMP shares EXIF's marker
        segment(0xFE, b"a comment that says Exif\0\0II*\0"),
        segment(0xE2, bytes(65_533)) * 3,
        b"\xff" * 9,  # filling bytes
        b"\xff\x01",  # a marker without content
        segment(0xDB, bytes([0]) + bytes(range(1, 65))),  # EXIF behind a table
    ],
)
def test_the_segments_of_a_jpeg_are_walked_to_its_exif(before):
    content = encode(turned(6), "JPEG")
    with_segments = content[:2] + before + segment(0xE1, b"Exif\0\0" + exif(6)) + content[20:]

    assert_upright(with_segments, tolerance=12)


def test_exif_inside_another_segment_is_no_exif():
    thumbnail = with_exif(encode(upright(), "JPEG"), exif(6))
    content = encode(upright(), "JPEG")

    assert_upright(content[:20] + segment(0xED, thumbnail) + content[20:], tolerance=12)


def test_the_first_exif_counts():
    content = with_exif(with_exif(encode(turned(6), "JPEG"), exif(3)), exif(6))

    assert_upright(content, tolerance=12)


def test_webp_and_png_are_turned_by_their_exif():
    for number in range(1, 9):
        tags = b"Exif\0\0" + exif(number, ">")
        assert_upright(encode(turned(number), "WEBP", exif=tags, **LOSSLESS))
        lying = turned(number)
        chunk = png_chunk(b"eXIf", exif(number))
        content = png(*lying.size, 8, 2, png_rows(np.asarray(lying)), after=chunk)
        assert_upright(content)


def test_a_png_of_thousands_of_chunks_is_turned():
    lying = turned(6)
    before = png_chunk(b"tEXt", b"a\0b") * 20_000 + png_chunk(b"eXIf", exif(6))

    assert_upright(png(*lying.size, 8, 2, png_rows(np.asarray(lying)), before=before))


def read_block(block):
    content = tf.io.decode_raw(tf.strings.join([block, tf.constant(bytes(PADDING))]), tf.uint8)
    stop = tf.cast(tf.strings.length(block), tf.int64)
    return read_orientation(content, tf.constant(0, tf.int64), stop)


def test_the_graph_understands_exif_as_python_does():
    read = tf.function(read_block, input_signature=[tf.TensorSpec([], tf.string)])
    for seed in range(300):
        random = np.random.default_rng(seed)
        block = bytearray(exif(int(random.integers(0, 11)), "<>"[seed % 2]))
        for _ in range(random.integers(0, 3)):
            block[random.integers(0, len(block))] = random.integers(0, 256)
        block = bytes(block[: random.integers(len(block) // 2, len(block) + 1)])
        assert read(block).numpy() == exif_orientation(block), block


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA"])
@pytest.mark.parametrize("width", [1, 7, 8, 13])
def test_bmp_pixels_equal_pillows(mode, width):
    noise = np.random.default_rng(width).integers(0, 256, (5, width, 3)).astype(np.uint8)
    image = Image.fromarray(noise)
    encoded = encode(image.quantize(9) if mode == "P" else image.convert(mode), "BMP")

    with Image.open(io.BytesIO(encoded)) as image:
        expected = np.asarray(image.convert("RGB"))
    np.testing.assert_array_equal(decode(encoded), expected)
    np.testing.assert_array_equal(decode(top_down(encoded)), expected[::-1])


def top_down(bmp):
    """Return the same rows, announced as coming from the top."""
    height = struct.unpack("<i", bmp[22:26])[0]
    return bmp[:22] + struct.pack("<i", -height) + bmp[26:]


def test_a_bmp_of_four_bits_is_read():
    palette = b"".join(bytes(colour[::-1]) + b"\0" for colour in UPRIGHT[::20, ::30].reshape(-1, 3))
    header = struct.pack("<IiiHHIIiiII", 40, 3, 1, 1, 4, 0, 4, 0, 0, 4, 4)
    file_header = struct.pack("<2sIII", b"BM", 54 + 16 + 4, 0, 54 + 16)

    pixels = decode(file_header + header + palette + b"\x03\x20\0\0")

    np.testing.assert_array_equal(pixels[0], UPRIGHT[::20, ::30].reshape(-1, 3)[[0, 3, 2]])


def test_colours_that_a_bmp_leaves_out_are_black():
    encoded = bytearray(encode(upright().quantize(4), "BMP"))
    encoded[-1] = 255

    assert decode(bytes(encoded))[0, -1].tolist() == [0, 0, 0]


def test_an_animation_gives_its_first_frame_in_its_place():
    noise = np.random.default_rng(1).integers(0, 256, (HEIGHT, WIDTH, 3)).astype(np.uint8)
    first = np.zeros_like(UPRIGHT)
    first[8:20, 10:30] = noise[8:20, 10:30]
    options = {"save_all": True, "append_images": [Image.fromarray(noise)], "duration": 50}
    encoded = encode(Image.fromarray(first), "WEBP", minimize_size=True, **options, **LOSSLESS)

    np.testing.assert_array_equal(decode(encoded), first)


def test_an_animated_webp_is_turned_and_not_blended():
    clear = [image.copy() for image in (turned(6), turned(3).resize(turned(6).size))]
    for image in clear:
        image.putalpha(1)
    tags = b"Exif\0\0" + exif(6)
    encoded = encode(
        clear[0], "WEBP", save_all=True, append_images=clear[1:], exif=tags, **LOSSLESS
    )

    assert encoded[20] & 2, "this is no animation"
    assert_upright(encoded)


def test_a_webp_frame_outside_its_canvas_is_refused():
    encoded = bytearray(encode(upright(), "WEBP", save_all=True, append_images=[turned(3)]))
    frame = encoded.index(b"ANMF") + 8
    encoded[frame : frame + 3] = b"\x09\0\0"

    assert "first frame is cut off" in refusal(bytes(encoded))


def test_an_interlaced_gif_of_many_frames_is_decoded_only_to_its_first():
    encoded = encode(
        upright(),
        "GIF",
        save_all=True,
        append_images=[turned(3), turned(2)],
        interlace=1,
        duration=90,
    )
    second = encoded.index(b"!\xf9", encoded.index(b"!\xf9") + 1)

    np.testing.assert_array_equal(decode(encoded), decode(encoded[:second] + b";"))
    np.testing.assert_array_equal(decode(encoded), decode(encoded[:second] + b"rubbish"))
    assert_upright(encoded, tolerance=4)


def test_a_gif_frame_has_its_place_on_the_screen():
    encoded = bytearray(encode(upright(), "GIF"))
    encoded[6:10] = struct.pack("<HH", WIDTH + 9, HEIGHT + 5)
    frame = encoded.index(b",", 13 + 3 * 2 ** ((encoded[10] & 7) + 1))
    encoded[frame + 1 : frame + 5] = struct.pack("<HH", 7, 2)

    pixels = decode(bytes(encoded))

    assert pixels.shape == (HEIGHT + 5, WIDTH + 9, 3)
    assert np.abs(pixels[2:-3, 7:-2].astype(int) - UPRIGHT).max() <= 4
    assert not pixels[:2].any() and not pixels[-3:].any() and not pixels[:, :7].any()


@pytest.mark.parametrize("block", [1, 3, 254, 255])
def test_gif_blocks_of_any_size_are_walked_over(block):
    noise = np.random.default_rng(2).integers(0, 256, (40, 40, 3)).astype(np.uint8)
    encoded = encode(Image.fromarray(noise).quantize(256), "GIF")
    start = encoded.index(b",", 13 + 3 * 256) + 11
    data, position = b"", start
    while encoded[position]:
        data += encoded[position + 1 : position + 1 + encoded[position]]
        position += 1 + encoded[position]
    blocks = [data[at : at + block] for at in range(0, len(data), block)]
    again = b"".join(bytes([len(part)]) + part for part in blocks)

    np.testing.assert_array_equal(
        decode(encoded[:start] + again + encoded[position:]), decode(encoded)
    )


@pytest.mark.parametrize("kind", ["PNG", "GIF", "BMP", "WEBP", "JPEG"])
def test_a_bomb_is_refused_from_its_header(kind):
    bombs = {
        "JPEG": jpeg_of_size(60_000, 60_000),
        "PNG": png(60_000, 60_000, 8, 2, bytes(9)),
        "GIF": b"GIF89a" + bytes(7) + b",\0\0\0\0\x60\xea\x60\xea\0\x08\x01\0\0;",
        "BMP": encode(upright(), "BMP")[:18] + struct.pack("<ii", 60_000, -60_000) + bytes(40),
        "WEBP": b"RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x5f\xea\0\x5f\xea\0",
    }
    if kind == "BMP":
        bombs[kind] = bombs[kind][:26] + encode(upright(), "BMP")[26:]

    assert "more than 50,000,000" in refusal(bombs[kind])


def test_the_decoder_works_inside_a_map_over_a_batch():
    batch = tf.constant([encode(turned(number), "PNG") for number in (1, 3)])
    decoded = tf.map_fn(decode_image, batch, tf.TensorSpec((HEIGHT, WIDTH, 3), tf.uint8))

    np.testing.assert_array_equal(decoded, [UPRIGHT, UPRIGHT[::-1, ::-1]])
