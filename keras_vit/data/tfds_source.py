"""Opens a TensorFlow Datasets builder and reads its record files by number."""

import numpy as np
import tensorflow as tf

from keras_vit.data.config import DataConfig, DataError
from keras_vit.data.examples import ArrayExamples, RecordExamples
from keras_vit.data.memory import MAX_HELD_BYTES, decode_all
from keras_vit.data.records import index_records
from keras_vit.data.source import SPLIT_NAMES, SPLIT_SPELLINGS, Source, Split
from keras_vit.data.splits import name_by_number
from keras_vit.data.tf_example import read_feature

_CHUNK = 256


def open_tfds(place: str, config: DataConfig) -> Source:
    """Open `NAME[:CONFIG]`, downloading it if tfds has not prepared it in `data_dir` yet.

    Raises:
        DataError: an unknown data set, split or key; the message lists those there are.
    """
    builder = _prepare(place, config.data_dir)
    image_key, label_key = _choose_keys(builder, config)
    instructions, notes = _choose_splits(builder, config)
    image, label = builder.info.features[image_key], builder.info.features[label_key]
    splits = {}
    for name, instruction in instructions.items():
        examples = _read(builder, instruction, image_key, label_key)
        unlabelled = np.count_nonzero(examples.labels < 0)
        if unlabelled:
            problem = f"{unlabelled} of the {len(examples)} pictures of {instruction} have no label"
            if name == "train" or getattr(config, name):
                raise DataError(f"tfds:{builder.name}: {problem}")
            notes.append(f"{problem}, so it is left out")
            continue
        if None not in image.shape and len(examples) * np.prod(image.shape) <= MAX_HELD_BYTES:
            pixels = decode_all(examples, image.shape)
            examples = ArrayExamples(pixels, examples.labels)
        names = name_by_number(examples.labels, f"{instruction}/")
        splits[name] = Split(name, names, examples, cache=config.cache)
    class_names = tuple(label.int2str(i) for i in range(label.num_classes))
    return Source(class_names, splits, image.shape[-1], notes)


def _prepare(place: str, data_dir: str | None):
    import tensorflow_datasets as tfds

    name = place.replace(":", "/", 1)
    try:
        builder = tfds.builder(name, data_dir=data_dir)
        builder.download_and_prepare()  # does nothing when it is there
    except Exception as error:  # whatever a builder of anybody's raises
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        where = data_dir or "tfds' own folder"
        raise DataError(
            f"tfds:{place}: cannot be opened or prepared in {where}: {reason}"
        ) from error
    return builder


def _choose_keys(builder, config: DataConfig) -> tuple[str, str]:
    import tensorflow_datasets as tfds

    features = builder.info.features
    supervised = builder.info.supervised_keys or ("image", "label")
    keys = (config.image_key or supervised[0], config.label_key or supervised[1])
    kinds = (tfds.features.Image, tfds.features.ClassLabel)
    for field, key, kind in zip(("image_key", "label_key"), keys, kinds, strict=True):
        if key not in features or not isinstance(features[key], kind):
            found = type(features[key]).__name__ if key in features else "missing"
            listed = ", ".join(f"{name} ({type(features[name]).__name__})" for name in features)
            raise DataError(
                f"tfds:{builder.name}: data.{field} = {key!r} must name a feature of type "
                f"{kind.__name__}, but it is {found}; there are: {listed}"
            )
    return keys


def _choose_splits(builder, config: DataConfig) -> tuple[dict[str, str], list[str]]:
    """Return the tfds instruction for each split, and what to say about empty ones."""
    counts = {name: split.num_examples for name, split in builder.info.splits.items()}
    listed = ", ".join(f"{name} ({count})" for name, count in counts.items())
    chosen, notes = {}, []
    for name in SPLIT_NAMES:
        asked = getattr(config, name)
        own = [spelling for spelling in SPLIT_SPELLINGS[name] if spelling in counts]
        instruction = asked or (own[0] if own else None)
        if instruction is None and name != "train":
            continue
        try:
            count = builder.info.splits[instruction or "train"].num_examples
        except (KeyError, ValueError) as error:
            raise DataError(
                f"tfds:{builder.name}: data.{name} = {instruction or 'train'!r} is no split or "
                f"slice of one; there are: {listed}"
            ) from error
        if count:
            chosen[name] = instruction or "train"
        elif asked or name == "train":
            raise DataError(
                f"tfds:{builder.name}: the split {instruction!r} for {name} is empty; "
                f"there are: {listed}"
            )
        else:
            notes.append(f"the split {instruction!r} of tfds:{builder.name} is empty, left out")
    return chosen, notes


def _read(builder, instruction: str, image_key: str, label_key: str) -> RecordExamples:
    file_format = builder.info.file_format.value
    if file_format == "tfrecord":
        parts = builder.info.splits[instruction].file_instructions
        records = index_records((part.filename, part.skip, part.take) for part in parts)
    elif file_format == "array_record":
        records = _ArrayRecords(builder.as_data_source(instruction).data_source, builder.name)
    else:
        raise DataError(
            f"tfds:{builder.name}: is prepared as {file_format}; expected tfrecord or array_record"
        )
    labels = np.array(records.read_values(label_key), np.int32)
    return RecordExamples(records, labels, image_key)


class _ArrayRecords:
    """Records of array_record files, which have an index of their own."""

    def __init__(self, source, name: str, chosen: np.ndarray | None = None):
        self._source = source
        self._name = name
        self._chosen = np.arange(len(source)) if chosen is None else chosen

    def __len__(self) -> int:
        return len(self._chosen)

    def take(self, indices: np.ndarray) -> "_ArrayRecords":
        return _ArrayRecords(self._source, self._name, self._chosen[indices])

    def read(self, indices: np.ndarray) -> np.ndarray:
        records = self._source.__getitems__([int(i) for i in self._chosen[indices]])
        return np.array(records, dtype=object)

    def origins(self, indices: tf.Tensor) -> tf.Tensor:
        return tf.strings.join([self._name, ", record ", tf.as_string(indices)])

    def read_values(self, key: str) -> list[int | bytes]:
        return [
            read_feature(record, key)
            for start in range(0, len(self), _CHUNK)
            for record in self.read(np.arange(start, min(start + _CHUNK, len(self))))
        ]
