"""Sources of labelled pictures, their splits, and the batches made from them."""

from keras_vit.data.check import SourceReport, check_source
from keras_vit.data.config import DataConfig, DataError
from keras_vit.data.memory import describe_cache
from keras_vit.data.pipeline import evaluation_batches, training_batches
from keras_vit.data.source import Source, Split
from keras_vit.data.sources import open_source

__all__ = [
    "DataConfig",
    "DataError",
    "Source",
    "SourceReport",
    "Split",
    "check_source",
    "describe_cache",
    "evaluation_batches",
    "open_source",
    "training_batches",
]
