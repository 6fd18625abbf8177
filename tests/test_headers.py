import struct
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from picture_bytes import (
    HEIGHT,
    WIDTH,
    encode,
    exif,
    jpeg_of_size,
    png_chunk,
    turned,
    upright,
    with_exif,
)
from PIL import Image

from keras_vit.headers import (
    IMAGE_FORMATS,
    MAX_PIXELS,
    Header,
    exif_orientation,
    inspect_header,
)
from keras_vit.unreadable import ImageError, describe_file_trouble, is_hidden_name


def refusal(content):
    with pytest.raises(ImageError) as caught:
        inspect_header(content)
    return str(caught.value)


def test_a_header_gives_the_size_as_displayed(odd_pictures):
    for odd in odd_pictures:
        if odd.expect != "refuse":
            header = inspect_header(odd.path)
            assert (header.width, header.height) == odd.size, odd.name
            assert header == inspect_header(odd.path.read_bytes())


def test_a_header_gives_format_and_orientation():
    lying = encode(turned(6), "JPEG")

    assert lying[:4] == b"\xff\xd8\xff\xe0"
    assert inspect_header(lying) == Header("JPEG", HEIGHT, WIDTH, 1)
    assert inspect_header(with_exif(lying, exif(6))) == Header("JPEG", WIDTH, HEIGHT, 6)


@pytest.mark.parametrize("kind", [*IMAGE_FORMATS["everywhere"], *IMAGE_FORMATS["python"]])
def test_every_format_is_known_by_content(kind):
    assert inspect_header(encode(upright(), kind)) == Header(kind, WIDTH, HEIGHT, 1)


def test_threads_read_headers_side_by_side(odd_pictures):
    readable = [odd for odd in odd_pictures if odd.expect != "refuse"] * 10

    with ThreadPoolExecutor(8) as pool:
        headers = list(pool.map(inspect_header, [odd.path for odd in readable]))

    assert [(h.width, h.height) for h in headers] == [odd.size for odd in readable]


def test_a_header_behind_much_metadata_is_found(tmp_path):
    content = encode(turned(6), "JPEG")
    padding = (b"\xff\xe2" + struct.pack(">H", 65_000) + bytes(64_998)) * 5
    path = tmp_path / "profile.jpg"
    path.write_bytes(content[:20] + padding + with_exif(content, exif(6))[20:])

    assert inspect_header(path) == Header("JPEG", WIDTH, HEIGHT, 6)


def test_a_picture_may_have_as_many_pixels_as_the_limit():
    assert inspect_header(jpeg_of_size(10_000, MAX_PIXELS // 10_000)).width == 10_000
    too_many = refusal(jpeg_of_size(10_000, MAX_PIXELS // 10_000 + 1))
    assert "claims 10000x5001 pixels, more than 50,000,000" in too_many


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (jpeg_of_size(0, 9), "the JPEG header claims 0x9 pixels, which are none"),
        (b"\xff\xd8\xff\xd9" + bytes(9), "the JPEG file has no frame header, so no size"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "the JPEG file is cut off after 10 bytes"),
        (encode(upright(), "PNG")[:20], "the PNG file is cut off or damaged in its header"),
        (b"GIF89a" + bytes(20), "the GIF file is cut off or damaged before its first frame"),
        (b"RIFF\x0a\0\0\0WEBPXXXX" + bytes(20), "no picture where it should be"),
        (b"BM" + bytes(12) + b"\x28\0\0\0" + bytes(40), "claims 0x0 pixels, which are none"),
        (b"II*\0" + bytes(20), "the TIFF file is damaged"),
    ],
)
def test_a_damaged_header_is_refused_in_words(content, words):
    assert words in refusal(content)


def test_a_gif_frame_that_juts_out_enlarges_the_canvas():
    content = bytearray(encode(upright(), "GIF"))
    content[6:10] = struct.pack("<HH", 5, 7)

    assert inspect_header(bytes(content)) == Header("GIF", WIDTH, HEIGHT, 1)


def test_chunks_by_the_thousand_are_walked_over():
    content = encode(upright(), "PNG")
    chunks = png_chunk(b"tEXt", b"a\0b") * 20_000 + png_chunk(b"eXIf", exif(3))

    assert inspect_header(content[:33] + chunks + content[33:]).orientation == 3


@pytest.mark.parametrize("order", "<>")
def test_every_orientation_is_read_in_both_byte_orders(order):
    read = [exif_orientation(exif(number, order)) for number in range(11)]

    assert read == [1, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1]


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"II*\0",
        exif(6)[:-5],  # the entry is cut
        b"XX" + exif(6)[2:],
        exif(6, count=2),
        exif(6, kind=7),
        b"II*\0" + struct.pack("<I", 2**32 - 1) + exif(6)[8:],  # the directory is far outside
        exif(6)[:8] + struct.pack("<H", 0) + exif(6)[10:],  # the directory is empty
    ],
)
def test_damaged_exif_means_no_turn(block):
    assert exif_orientation(block) == 1


def test_an_orientation_may_be_a_long_number_and_stand_behind_a_cut_directory():
    assert exif_orientation(exif(6, kind=4)) == 6
    assert exif_orientation(exif(6)[:8] + struct.pack("<H", 9999) + exif(6)[10:]) == 6
    assert exif_orientation(b"Exif\0\0" + exif(6)) == 6


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")  # Pillow's remarks about what we damage
def test_exif_is_understood_as_pillow_does():
    differing = 0
    for seed in range(2000):
        random = np.random.default_rng(seed)
        block = bytearray(exif(int(random.integers(1, 9)), "<>"[seed % 2]))
        for _ in range(random.integers(0, 3)):
            block[random.integers(0, len(block))] = random.integers(0, 9)
        loaded = Image.Exif()
        try:
            loaded.load(b"Exif\0\0" + bytes(block))
            orientation = loaded.get(0x0112, 1)
        except (SyntaxError, struct.error):
            orientation = 1
        orientation = orientation if orientation in range(1, 9) else 1
        differing += orientation != exif_orientation(bytes(block))

    # Pillow takes the first of several values, and signed numbers; we take neither.
    assert differing < 20


@pytest.mark.parametrize(
    "name",
    [".hidden.jpg", "._a.jpg", ".git", "Thumbs.db", "thumbs.db", "desktop.ini", "__MACOSX"]
    + [".ipynb_checkpoints", "@eaDir", "$RECYCLE.BIN", "~$a.jpg", "Icon\r", ".DS_Store"],
)
def test_the_systems_files_are_hidden(name):
    assert is_hidden_name(name)


@pytest.mark.parametrize("name", ["a.jpg", "-rf.jpg", "_a.jpg", "a.b", "MACOSX", "~a.jpg"])
def test_a_persons_files_are_not_hidden(name):
    assert not is_hidden_name(name)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (PermissionError(13, "Permission denied"), "reading it is not permitted"),
        (OSError(5, "Input/output error"), "the system cannot read it: Input/output error"),
        (OSError("odd"), "the system cannot read it: odd"),
    ],
)
def test_the_systems_troubles_are_put_in_words(error, words):
    assert describe_file_trouble(error) == words
