"""Reads single features of a serialized tf.Example and skips the rest, which may be a picture.

The wire format: an Example holds Features (field 1), which holds map entries (field 1) of a key
(field 1) and a Feature (field 2), which holds a list of bytes (1), floats (2) or integers (3).
"""

from collections.abc import Iterator
from typing import NamedTuple

_KINDS = {1: "bytes", 2: "float", 3: "int64"}
_LENGTH_DELIMITED = 2


class Feature(NamedTuple):
    """Where a feature's list lies in its buffer."""

    key: str
    kind: str  # "bytes", "float" or "int64"
    start: int
    end: int


def find_features(buffer, start: int, end: int) -> Iterator[Feature]:
    """Yield the features of the Example at `buffer[start:end]` without touching their values.

    Raises:
        ValueError: what is there is no Example.
    """
    try:
        for _, features_start, features_end in _fields(buffer, start, end):
            for _, entry_start, entry_end in _fields(buffer, features_start, features_end):
                entry = {
                    number: place for number, *place in _fields(buffer, entry_start, entry_end)
                }
                key = bytes(buffer[slice(*entry[1])]).decode()
                for number, list_start, list_end in _fields(buffer, *entry[2]):
                    yield Feature(key, _KINDS[number], list_start, list_end)
    except (IndexError, KeyError, UnicodeDecodeError) as error:
        raise ValueError(f"the record is no tf.Example: {error!r}") from error


def read_feature(buffer, key: str, start: int = 0, size: int | None = None) -> int | bytes:
    """Return the one value of a feature of the Example at `buffer[start : start + size]`.

    Raises:
        ValueError: there is no such feature, or it has another number of values.
    """
    end = len(buffer) if size is None else start + size
    for feature in find_features(buffer, start, end):
        if feature.key == key:
            return _read_value(buffer, feature)
    raise ValueError(f"has no feature {key!r}")


def _read_value(buffer, feature: Feature) -> int | bytes:
    if feature.kind == "bytes":
        values = [bytes(buffer[start:end]) for _, start, end in _fields(buffer, *feature[2:])]
    else:
        values = list(_integers(buffer, feature.start, feature.end))
    if len(values) != 1:
        raise ValueError(f"the feature {feature.key!r} has {len(values)} values; expected 1")
    return values[0]


def _fields(buffer, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield (number, start, end) of each length-delimited field."""
    while start < end:
        tag, start = _varint(buffer, start)
        if tag & 7 != _LENGTH_DELIMITED:
            raise KeyError(f"wire type {tag & 7}")
        length, start = _varint(buffer, start)
        if start + length > end:
            raise IndexError(f"a field of {length} bytes, but {end - start} are left")
        yield tag >> 3, start, start + length
        start += length


def _integers(buffer, start: int, end: int) -> Iterator[int]:
    """Yield an int64 list, which is packed into one field or not."""
    while start < end:
        tag, start = _varint(buffer, start)
        value, start = _varint(buffer, start)
        if tag & 7 == _LENGTH_DELIMITED:
            stop = start + value
            while start < stop:
                value, start = _varint(buffer, start)
                yield _signed(value)
        else:
            yield _signed(value)


def _varint(buffer, start: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = buffer[start]
        start += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, start
        shift += 7


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value
