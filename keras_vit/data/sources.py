"""From the `[data]` table to labelled examples: opens a source and gives it its splits."""

from collections.abc import Callable

from keras_vit.data.config import DataConfig
from keras_vit.data.digits import open_digits
from keras_vit.data.folder import open_folder
from keras_vit.data.holding_back import hold_back, make_fold
from keras_vit.data.source import Source
from keras_vit.data.tfds_source import open_tfds


def open_source(
    config: DataConfig, seed: int, progress: Callable[[int, int], None] | None = None
) -> Source:
    """Open a source, find everything that is wrong with it, and make the splits it lacks.

    Args:
        config: the `[data]` table.
        seed: decides, with the names, which examples are held back where the source has no such
            split itself.
        progress: is called with (files checked, files to check) while pictures that were never
            seen before are decoded to find the bad ones.

    Raises:
        DataError: names every file that cannot be used and everything else that is wrong.
    """
    kind, _, place = config.source.partition(":")
    if kind == "digits":
        source = open_digits(config)
    elif kind == "folder":
        source = open_folder(place, config, progress)
    else:
        source = open_tfds(place, config)
    if config.num_folds is not None:
        return make_fold(source, config, seed)
    return hold_back(source, config, seed)
