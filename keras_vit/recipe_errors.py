"""Say what is wrong with a recipe: one line for each field, by its full name."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Iterable
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

# What each kind of pydantic error expected, in words; `{gt}` and the like come from its context.
EXPECTED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "too_short": "{min_length} values",
    "too_long": "{max_length} values",
}
KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


class RecipeError(ValueError):
    """A recipe that cannot be used: one line for each thing that is wrong."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most like `name`, or None when none is alike."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)), None)


def describe_errors(
    error: ValidationError, config_class: type[BaseModel], name: str = ""
) -> list[str]:
    """Return one line for each wrong field: its full name, what was expected and received.

    Args:
        error: what pydantic raised for `config_class`.
        config_class: the class that was validated; its fields are the names that are known.
        name: the full name of the table itself, empty for a whole recipe.
    """
    prefix = f"{name}." if name else ""
    known = known_names(config_class, prefix)
    by_field: dict[str, list[dict[str, Any]]] = {}
    for problem in error.errors():
        field = (prefix + ".".join(_field_path(problem["loc"], config_class))).rstrip(".")
        by_field.setdefault(field, []).append(dict(problem))
    parts = [part for field, group in by_field.items() for part in _split_union(field, group)]
    return [_describe(field, group, known) for field, group in parts]


def wrong_kinds(table: Any, config: Any, name: str = "") -> list[str]:
    """Return a line for each value that pydantic turned into another kind, or that is not finite.

    A recipe is a file: "5" is not a number there and 1 is not true, though Python's callers may
    write `TrainConfig(epochs="5")`. A whole number may stand for a real one, and one number for
    an equal pair.

    Args:
        table: what was given.
        config: what pydantic made of it.
        name: the full name of the field, empty for the whole recipe.
    """
    if isinstance(table, float) and not math.isfinite(table):
        return [f"{name}: expected a finite number, received {_show(table)}"]
    if isinstance(table, dict) and isinstance(config, BaseModel | dict):
        values = dict(config)
        parts = [(f"{name}.{key}".lstrip("."), table[key], values[key]) for key in table]
    elif isinstance(table, list | tuple) and isinstance(config, list | tuple):
        parts = [(name, a, b) for a, b in zip(table, config, strict=False)]
    elif type(config) in KINDS and type(table) is not type(config):
        if type(table) is int and type(config) is float:
            return []
        return [f"{name}: expected {KINDS[type(config)]}, received {_show(table)}"]
    else:
        return []
    return [line for key, given, made in parts for line in wrong_kinds(given, made, key)]


def _field_path(location: tuple[int | str, ...], config_class: type[BaseModel]) -> tuple[str, ...]:
    """Return the part of an error's location that names fields, without a union's branches."""
    path: list[str] = []
    for part in location:
        path.append(str(part))
        field = config_class.model_fields.get(str(part))
        if field is None or not _is_table(field.annotation):
            break
        config_class = field.annotation
    return tuple(path)


def _split_union(name: str, group: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the errors that matter of all that the branches of a union gave, by field.

    A branch that took the value as a whole and failed at a part of it is the one that was meant.
    """
    deepest = max(len(problem["loc"]) for problem in group)
    if all(len(problem["loc"]) == deepest for problem in group):
        return [(name, group)]
    meant = [problem for problem in group if len(problem["loc"]) == deepest]
    return [(f"{name}.{problem['loc'][-1]}", [problem]) for problem in meant]


def _describe(name: str, group: list[dict[str, Any]], known: list[str]) -> str:
    first = group[0]
    if first["type"] == "extra_forbidden":
        return f"{name}: unknown; {_suggest(name, known)}"
    if first["type"] == "missing":
        short = isinstance(first["loc"][-1], int)
        return f"{name}: missing" + (f" a value in {_show(first['input'])}" if short else "")
    if first["type"] in ("value_error", "assertion_error"):
        return f"{name}: {first['ctx']['error']}".removeprefix(": ")
    expected = " or ".join(dict.fromkeys(_expected(problem) for problem in group))
    line = f"{name}: expected {expected}, received {_show(first['input'])}"
    choices = [c for p in group if p["type"] == "literal_error" for c in _choices(p)]
    suggestion = nearest(str(first["input"]), choices)
    return f"{line}; did you mean {_show(suggestion)}?" if suggestion else line


def _expected(problem: dict[str, Any]) -> str:
    if problem["type"] == "literal_error":
        return " or ".join(_show(choice) for choice in _choices(problem))
    if problem["type"] not in EXPECTED:
        return problem["msg"].removeprefix("Input should be ")
    bounds = problem.get("ctx", {}).items()
    whole = {k: int(v) if isinstance(v, float) and v.is_integer() else v for k, v in bounds}
    return EXPECTED[problem["type"]].format(**whole)


def _choices(problem: dict[str, Any]) -> list[str]:
    """Return the values of a Literal out of the text `'a', 'b' or 'c'`."""
    return problem["ctx"]["expected"].strip("'").replace("' or '", "', '").split("', '")


def known_names(config_class: type[BaseModel], prefix: str = "") -> list[str]:
    """Return the full name of every table and field of a configuration class."""
    names = []
    for key, field in config_class.model_fields.items():
        names.append(prefix + key)
        # A table, or one that stands in a union with other kinds of values.
        for annotation in (field.annotation, *get_args(field.annotation)):
            if _is_table(annotation):
                names += known_names(annotation, f"{prefix}{key}.")
    return names


def _suggest(name: str, known: list[str]) -> str:
    """Say which name was meant: one of the same table, or of another, with the most alike key."""
    table, _, key = name.rpartition(".")
    beside, all_keys = {}, {}
    for other in known:
        other_table, _, other_key = other.rpartition(".")
        all_keys.setdefault(other_key, other)
        if other_table == table:
            beside[other_key] = other
    meant = all_keys.get(key) or beside.get(nearest(key, beside))
    meant = meant or all_keys.get(nearest(key, all_keys))
    return f"did you mean {meant}?" if meant else f"known are {', '.join(beside) or 'none'}"


def _is_table(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _show(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
