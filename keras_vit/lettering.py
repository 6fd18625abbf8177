"""Prepare any text for a drawn picture: find fonts for it, spell out what none has, cut it to fit.

Class and file names come in every script. A character without a font would be drawn as an empty
box, with a warning; here it becomes `[cat face]` or `U+732B`, which a reader can look up.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Callable

PREFERRED_FAMILIES = ("Inter", "Helvetica Neue", "Arial", "Liberation Sans", "DejaVu Sans")
ELLIPSIS = "..."


def readable(text: str) -> str:
    """Return a text in one line of which every character has a font.

    Joiners and variation selectors go, white space becomes single spaces, a symbol without a font
    becomes its name in brackets, a letter its code point, a byte that was no text `\\xff`.
    """
    composed = unicodedata.normalize("NFC", " ".join(text.split()))
    pieces = [piece for piece in map(_drawable, composed) if piece]
    spelled_out = [len(piece) > 1 for piece in pieces]
    spaces = [a and b for a, b in zip(spelled_out, [False, *spelled_out], strict=False)]
    return "".join(" " * space + piece for space, piece in zip(spaces, pieces, strict=True))


def families(text: str) -> list[str]:
    """Return font families, the preferred ones first, that have all characters of a text."""
    extra = (_family(character) for character in text)
    return list(dict.fromkeys([*_preferred_families(), *(name for name in extra if name)]))


def shorten(text: str, fits: Callable[[str], bool], keep_end: bool = False) -> str:
    """Cut a text until it fits, with an ellipsis at its end, or in front with `keep_end`."""
    if fits(text):
        return text
    for length in range(len(text) - 1, 0, -1):
        cut = ELLIPSIS + text[-length:] if keep_end else text[:length].rstrip() + ELLIPSIS
        if fits(cut):
            return cut
    return ""


def _drawable(character: str) -> str:
    category = unicodedata.category(character)
    if category in ("Cc", "Cf") or unicodedata.name(character, "").startswith("VARIATION SELECTOR"):
        return ""
    if _family(character):
        return character
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"
    if category.startswith("S") and unicodedata.name(character, ""):
        return f"[{unicodedata.name(character).lower()}]"
    return f"U+{ord(character):04X}"


@functools.cache
def _family(character: str) -> str | None:
    """Return the first installed family that has a character, preferred ones first."""
    fonts = _fonts()
    names = (*_preferred_families(), *fonts)
    return next((name for name in names if fonts[name].get_char_index(ord(character))), None)


@functools.cache
def _preferred_families() -> tuple[str, ...]:
    return tuple(name for name in PREFERRED_FAMILIES if name in _fonts())


@functools.cache
def _fonts() -> dict:
    """Open the regular face of every installed family that draws letters in outline."""
    from matplotlib.font_manager import fontManager
    from matplotlib.ft2font import FT2Font

    faces = {}
    for entry in fontManager.ttflist:
        regular = entry.style == "normal" and entry.weight in (400, "normal", "regular")
        placeholder = entry.name.startswith("Last Resort") or "Color" in entry.name
        if regular and not placeholder and entry.name not in faces:
            faces[entry.name] = FT2Font(entry.fname)
    return {name: face for name, face in faces.items() if face.scalable}
