"""Any name can be drawn, in one line, without a warning, and still be recognised."""

import pytest

from keras_vit import lettering


@pytest.fixture
def without_font(monkeypatch):
    """Pretend that no font has characters outside Latin-1."""
    monkeypatch.setattr(
        lettering, "_family", lambda character: "DejaVu Sans" if ord(character) < 256 else None
    )


@pytest.mark.parametrize(
    "text, shown",
    [
        ("plain name", "plain name"),
        ("two\nlines\tand  spaces ", "two lines and spaces"),
        ("cafe\u0301", "caf\xe9"),
        ("\u732b", "U+732B"),
        ("\u732b\u72ac cat", "U+732B U+72AC cat"),
        ("\U0001f431 cat", "[cat face] cat"),
        ("\U0001f468\u200d\U0001f469", "[man] [woman]"),
        ("\u2764\ufe0f", "[heavy black heart]"),
        ("\udcff.jpg", "\\xff.jpg"),
        ("bell\x07", "bell"),
        ("$x_1$", "$x_1$"),
        ("", ""),
    ],
)
def test_what_has_no_font_is_spelled_out(without_font, text, shown):
    assert lettering.readable(text) == shown


def test_a_character_of_another_installed_font_is_kept_and_its_family_named():
    # DejaVu Sans comes with matplotlib and has a mathematical letter that text fonts lack.
    assert lettering.readable("\u2102") == "\u2102"
    assert lettering.families("plain") == lettering.families("")
    assert "DejaVu Sans" in lettering.families("\u2102")


def test_the_placeholder_font_is_never_chosen():
    assert not any(
        name.startswith("Last Resort") for name in lettering.families("\u732b\U0001faef")
    )


@pytest.mark.parametrize(
    "text, keep_end, shown",
    [
        ("short", False, "short"),
        ("a long name", False, "a lo..."),
        ("a  long name", False, "a  l..."),
        ("abc def", False, "abc def"),
        ("folder/picture.jpg", True, "....jpg"),
    ],
)
def test_a_long_text_is_cut_at_one_end(text, keep_end, shown):
    assert lettering.shorten(text, lambda part: len(part) <= 7, keep_end) == shown


def test_a_text_that_never_fits_is_nothing():
    assert lettering.shorten("abc", lambda part: not part) == ""
