"""What a person says about their data: the `[data]` table, and the error about it."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

SOURCES = ("digits", "folder:PATH", "csv:FILE", "tfds:NAME[:CONFIG]", "tfrecord:PATTERN")


class DataError(ValueError):
    """A data source that cannot be used; one line for each thing that is wrong."""


class DataConfig(BaseModel):
    """Where the pictures come from, how they are split, and how they are brought to size."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str = Field("digits", description=f"One of {', '.join(SOURCES)}.")
    data_dir: str | None = Field(None, description="Where tfds keeps its data sets.")
    train: str | None = Field(
        None,
        description="tfds: a split, 'train[:20000]'; folder: a folder, relative to PATH; tfrecord: "
        "a pattern, relative to PATTERN's folder.",
    )
    validation: str | None = Field(
        None, description="As train; by default the source's own, or else a part of train."
    )
    test: str | None = Field(None, description="As validation.")
    validation_fraction: float = Field(
        0.1, ge=0, lt=1, description="The part of train to validate with if there is no such split."
    )
    test_fraction: float = Field(
        0.0, ge=0, lt=1, description="The part of train to test with if there is no such split."
    )
    image_key: str | None = Field(None, description="tfds, tfrecord: the picture's feature.")
    label_key: str | None = Field(None, description="tfds, tfrecord: the label's feature.")
    class_names: tuple[str, ...] | None = Field(
        None, description="tfrecord: the classes of labels 0, 1, ... that are numbers."
    )
    resize: Literal["squash", "crop", "pad"] = Field(
        "squash", description="How a picture of another shape is brought to image_size."
    )
    crop_fraction: float = Field(
        1.0, gt=0, le=1, description="With resize = 'crop': the side kept of the resized picture."
    )
    interpolation: Literal["bilinear", "bicubic"] = "bilinear"
    skip_bad: bool = Field(
        False, description="Train without the pictures that cannot be read, and say how many."
    )

    group: str | int | None = Field(
        None,
        description="What must not straddle two splits: a column of a CSV file, as in 'patient', "
        "or a level of folders below the class folder, from 1.",
    )
    fold: int | None = Field(None, ge=1, description="Which fold to validate with, from 1.")
    num_folds: int | None = Field(None, ge=2, description="Cross-validation: into how many parts.")
    cache: Literal["auto", "bytes", "decoded", "none"] = Field(
        "auto",
        description="What to keep in memory: files' bytes, decoded pictures, nothing; auto keeps "
        "decoded pictures if they are small enough.",
    )

    @field_validator("source")
    @classmethod
    def _check_source(cls, source: str) -> str:
        kind, _, rest = source.partition(":")
        kinds = {known.partition(":")[0]: ":" in known for known in SOURCES}
        if kind not in kinds or kinds[kind] != bool(rest):
            raise ValueError(f"source must be one of {', '.join(SOURCES)}; got {source!r}")
        return source

    @model_validator(mode="after")
    def _check_fold(self):
        if (self.fold is None) != (self.num_folds is None):
            raise ValueError(f"fold {self.fold} and num_folds {self.num_folds} go together only")
        if self.fold is not None and self.fold > self.num_folds:
            raise ValueError(f"fold must be from 1 to num_folds, {self.num_folds}; got {self.fold}")
        return self

    @model_validator(mode="after")
    def _check_fractions(self):
        together = self.validation_fraction + self.test_fraction
        if together >= 1:
            raise ValueError(
                f"validation_fraction {self.validation_fraction:g} and test_fraction "
                f"{self.test_fraction:g} must leave something to train on, but make {together:g}"
            )
        return self
