"""Recipe: everything a run is made of, one typed table per concern; TOML in, JSON in and out."""

from __future__ import annotations

import importlib.resources
import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
from pydantic import BaseModel, ConfigDict, Field

from keras_vit.augment import AugmentConfig
from keras_vit.data import DataConfig
from keras_vit.model import ViTConfig
from keras_vit.optim import OptimConfig
from keras_vit.recipe_errors import RecipeError, describe_errors, nearest, wrong_kinds
from keras_vit.resume import CheckpointConfig
from keras_vit.strategy import StrategyConfig

# What the data decides when a recipe does not say it.
FROM_DATA = ("num_classes", "num_channels")
# What a variant such as "B/16" stands for; the image size stays the recipe's own.
FROM_VARIANT = {"patch_size", "hidden_dim", "num_layers", "num_heads", "mlp_dim"}

ClassWeight = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class TrainConfig(BaseModel):
    """How long and on what loss a model is trained."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # How many times the training split is gone through.
    epochs: int = Field(default=10, ge=1)
    # Pictures in one step, over all devices together.
    batch_size: int = Field(default=32, ge=1)
    # The share of each label that is spread evenly over all classes, in [0, 1).
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    # What a picture's loss is multiplied by: "balanced" is num_examples / (num_classes * count of
    # the class); a table gives it by class name, and a class left out counts 1.
    class_weights: None | Literal["balanced"] | dict[str, ClassWeight] = None
    # Stop after so many epochs without a better validation; None trains all epochs.
    early_stopping_patience: int | None = Field(default=None, ge=1)


class Recipe(BaseModel):
    """Everything a run is made of; the run is a function of it.

    `model.num_classes` and `model.num_channels` come from the data when the recipe does not give
    them: they are then null in the recipe's JSON, and `resolve` fills them in.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    # What the recipe is called, and its run folder when none is given; not a setting.
    name: str = "unnamed"
    # The same seed on the same machine gives the same weights.
    seed: int = Field(default=0, ge=0, le=2**31 - 1)
    model: ViTConfig
    data: DataConfig = DataConfig()
    augment: AugmentConfig = AugmentConfig()
    train: TrainConfig = TrainConfig()
    optim: OptimConfig = OptimConfig()
    strategy: StrategyConfig = StrategyConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()

    @classmethod
    def load(cls, source: str | Path, overrides: Iterable[str | Mapping[str, Any]] = ()) -> Recipe:
        """Read a recipe by the name of a shipped one, or from a `.toml` or `.json` file.

        Args:
            source: "digits", "my.toml" or the "recipe.json" of a run.
            overrides: texts such as "optim.learning_rate=1e-3" or tables of such settings, put
                over what the file says.

        Raises:
            RecipeError: naming the file and place, or the full name of each wrong field.
        """
        path = find_recipe(source)
        table = {"name": path.stem, **read_table(path)}
        _expand_model(table)
        for override in overrides:
            text = isinstance(override, str)
            change = parse_override(override) if text else dict(override)
            _expand_model(change)
            _merge(table, change)
        return cls.from_dict(table)

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Recipe:
        """Make a recipe of plain tables, as TOML or JSON gives them.

        Raises:
            RecipeError: with one line for each wrong field, by its full name.
        """
        table = dict(table)
        _expand_model(table)
        return make_config(cls, table)

    @classmethod
    def from_json(cls, text: str) -> Recipe:
        """Read back what `to_json` wrote."""
        return cls.from_dict(json.loads(text))

    def to_dict(self) -> dict[str, Any]:
        """Return plain tables that `from_dict` turns into an equal recipe."""
        table = self.model_dump(mode="json")
        for key in FROM_DATA:
            if key not in self.model.model_fields_set:
                table["model"][key] = None
        return table

    def to_json(self) -> str:
        """Return the whole recipe as JSON text."""
        return json.dumps(self.to_dict(), indent=2) + "\n"

    def resolve(self, num_classes: int, num_channels: int) -> Recipe:
        """Return the recipe with what the data decides filled in.

        Raises:
            ValueError: if the recipe gives another number of classes than the data has. Another
                number of channels is allowed: pictures are turned into it.
        """
        table = self.to_dict()
        model = table["model"]
        if model["num_classes"] not in (None, num_classes):
            raise ValueError(
                f"model.num_classes: {model['num_classes']} in the recipe, {num_classes} in the "
                f"data {self.data.source!r}; leave it out to take the data's"
            )
        model["num_classes"] = num_classes
        if model["num_channels"] is None:
            model["num_channels"] = num_channels
        return type(self).from_dict(table)

    def differences(self, other: Recipe) -> list[str]:
        """Return a line for each setting that differs, `table.key: mine, not theirs`, sorted."""
        mine, theirs = _flatten(self.to_dict()), _flatten(other.to_dict())
        return [
            f"{key}: {json.dumps(mine.get(key))}, not {json.dumps(theirs.get(key))}"
            for key in sorted((mine.keys() | theirs.keys()) - {"name"})
            if mine.get(key) != theirs.get(key) and not key.startswith("checkpoint.")
        ]


def make_config(config_class: type[BaseModel], table: Mapping[str, Any], name: str = "") -> Any:
    """Make one configuration of a plain table.

    Args:
        config_class: `Recipe` or the class of one of its tables.
        table: what a file says.
        name: the table's name in messages.

    Raises:
        RecipeError: with one line for each wrong field, by its full name.
    """
    try:
        config = config_class.model_validate(table)
    except pydantic.ValidationError as error:
        raise RecipeError("\n".join(describe_errors(error, config_class, name))) from None
    if problems := wrong_kinds(table, config, name):
        raise RecipeError("\n".join(problems))
    return config


def shipped_recipes() -> dict[str, Path]:
    """Return the files of the recipes that come with the package, by name."""
    try:
        training = Path(str(importlib.resources.files("keras_vit.training")))
    except ModuleNotFoundError:  # a checkout that is not installed
        training = Path(__file__).parents[1] / "training"
    return {file.stem: file for file in sorted((training / "recipes").glob("*.toml"))}


def find_recipe(source: str | Path) -> Path:
    """Return the file of a recipe, given its name or its path.

    Raises:
        RecipeError: if there is no such recipe, naming the nearest one that is shipped.
    """
    path = Path(source)
    if path.suffix in (".toml", ".json"):
        return path
    shipped = shipped_recipes()
    if str(source) in shipped:
        return shipped[str(source)]
    suggestion = nearest(str(source), shipped)
    raise RecipeError(
        f"no recipe is called {str(source)!r}"
        + (f"; did you mean {suggestion!r}" if suggestion else "")
        + f"? There are {', '.join(shipped)}, and files of your own that end in .toml"
    )


def read_table(path: Path) -> dict[str, Any]:
    """Read a TOML or JSON file into plain tables.

    Raises:
        RecipeError: if it cannot be read, naming the file, line and column.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        table = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise RecipeError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path}: byte {error.start} is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise RecipeError(f"{path}: not JSON: {error}") from None
    except tomllib.TOMLDecodeError as error:
        line, column = text.count("\n") + 1, len(text) - text.rfind("\n")
        place = f"(at line {line}, column {column}: the end of the file)"
        reason = str(error).replace("(at end of document)", place)
        raise RecipeError(f"{path}: not TOML: {reason}") from None
    if not isinstance(table, dict):
        raise RecipeError(f'{path}: expected tables such as {{"model": ...}}, received {text[:40]}')
    return table


def parse_override(text: str) -> dict[str, Any]:
    """Turn "table.key=value" into nested tables; a value that is no TOML is a bare string.

    `null` takes a setting back to None, which TOML cannot write.

    Raises:
        RecipeError: if there is no "=" or the key is none.
    """
    key, _, value = (part.strip() for part in text.partition("="))
    try:
        table = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError:
        table = {}
    leaf = table
    while len(leaf) == 1 and isinstance(next(iter(leaf.values())), dict):
        leaf = next(iter(leaf.values()))
    if "=" not in text or len(leaf) != 1:
        raise RecipeError(f"{text!r}: expected table.key=value, such as train.epochs=20")
    leaf[next(iter(leaf))] = _parse_value(value)
    return table


def _parse_value(text: str) -> Any:
    if text == "null":
        return None
    try:
        table = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return table["value"] if len(table) == 1 else text


def _expand_model(table: dict[str, Any]) -> None:
    """Put a variant's sizes in place of its name, and drop what the data decides."""
    model = table.get("model")
    if not isinstance(model, dict):
        return
    model = {k: v for k, v in model.items() if not (k in FROM_DATA and v is None)}
    if "variant" in model:
        model = {**_variant_sizes(model.pop("variant")), **model}
    table["model"] = model


def _variant_sizes(variant: Any) -> dict[str, Any]:
    """Return the fields that a name such as "B/16" stands for."""
    patch_size = str(variant).rpartition("/")[2]
    # On an image of one patch, so that only the variant is judged and not the image's size.
    image_size = int(patch_size) if patch_size.isdecimal() else 224
    try:
        config = ViTConfig.from_variant(str(variant), image_size=image_size)
    except pydantic.ValidationError as error:
        problems = describe_errors(error, ViTConfig)
        raise RecipeError(f"model.variant {variant!r}: {problems[0]}") from None
    except ValueError as error:
        raise RecipeError(f"model.variant: {error}") from None
    return config.model_dump(include=FROM_VARIANT)


def _merge(table: dict[str, Any], change: Mapping[str, Any]) -> None:
    """Put `change` over `table`, table by table, in place."""
    for key, value in change.items():
        if isinstance(value, dict) and isinstance(table.get(key), dict):
            _merge(table[key], value)
        else:
            table[key] = value


def _flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return `{"table.key": value}` of nested tables."""
    flat = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat.update(_flatten(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat
