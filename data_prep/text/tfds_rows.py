"""Texts of a dataset of tensorflow-datasets, written tfds:NAME/CONFIG:SPLIT.

That package imports TensorFlow when it reads; this module does not.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from data_prep.errors import InputError, first_line, needs_extra

# The version in NAME/CONFIG:1.0.0 begins with a digit, and no split does.
_NAME = re.compile(r"tfds:(?P<dataset>[\w./-]+(:\d[\w.*]*)?)(:(?P<split>[^\d:].*))?")


def is_tfds(name: str | Path) -> bool:
    """Whether a name refers to a dataset and not to a file."""
    return str(name).startswith("tfds:")


def dataset_and_split(name: str | Path) -> tuple[str, str | None]:
    """The parts of a name; None for a split that is left out, and no dataset if the name is written otherwise.

    >>> dataset_and_split("tfds:glue/sst2:train[:10%]")
    ('glue/sst2', 'train[:10%]')
    """
    matched = _NAME.fullmatch(str(name))
    return (matched["dataset"], matched["split"]) if matched else ("", None)


def read_tfds(name: str | Path, text_field: str) -> Iterator[bytes]:
    """The texts of one split, UTF-8, in the order of its files.

    Downloads and prepares the dataset unless it is in tensorflow-datasets' folder (TFDS_DATA_DIR, or
    ~/tensorflow_datasets). Versions ("tfds:glue/sst2:2.0.0:train") and slices are allowed.

    >>> list(read_tfds("tfds:glue/sst2:validation[:1]", "sentence"))
    [b"it 's a charming and often affecting journey . "]
    """
    dataset, split = dataset_and_split(name)
    if not split:
        raise InputError(
            f'A dataset must be written "tfds:NAME/CONFIG:SPLIT", for example "tfds:imdb_reviews:train". '
            f"Received {str(name)!r}."
        )
    tfds, builder = open_tfds(dataset)
    _check_text(tfds, builder, text_field, name)
    # Decodes only the text, and not, for example, images.
    decoders = tfds.decode.PartialDecoding({text_field: True})
    for example in tfds_examples(tfds, builder, split, decoders):
        yield example[text_field]


def open_tfds(dataset: str) -> tuple[Any, Any]:
    """The package and its builder of a dataset ("glue/sst2:2.0.0"), which it downloads if necessary."""
    with needs_extra(f"tfds:{dataset}", "tensorflow-datasets", "tfds"):
        import tensorflow_datasets as tfds
    return tfds, _builder(tfds, dataset)


def tfds_examples(tfds: Any, builder: Any, split: str, decoders: Any = None) -> Iterator[dict[str, Any]]:
    """The examples of one split as NumPy values, in the order of its files."""
    try:
        dataset = builder.as_dataset(
            split=split,
            decoders=decoders,
            # One file after the other, so that the order is reproducible.
            read_config=tfds.ReadConfig(interleave_cycle_length=1),
        )
    except ValueError as error:
        raise InputError(
            f"The split must be one of {', '.join(builder.info.splits)}, or a slice of one. "
            f"Received {split!r} ({_reason(error)})."
        ) from None
    yield from tfds.as_numpy(dataset)


def _builder(tfds: Any, dataset: str) -> Any:
    try:
        builder = tfds.builder(dataset)
    except tfds.core.DatasetNotFoundError:
        raise InputError(
            f"tensorflow-datasets has no dataset {dataset!r}, nor has its folder {tfds.core.constants.DATA_DIR}. "
            "Check the name and TFDS_DATA_DIR."
        ) from None
    except (ValueError, AssertionError, KeyError) as error:
        raise InputError(f"tensorflow-datasets cannot load {dataset!r}: {_reason(error)}") from None
    if builder.info.splits:
        return builder
    try:
        builder.download_and_prepare()
    except Exception as error:
        # The dataset's own code and servers may raise anything.
        raise InputError(
            f"tensorflow-datasets could not download or prepare {dataset!r}: {_reason(error)}"
        ) from None
    return builder


def _check_text(tfds: Any, builder: Any, text_field: str, name: str | Path) -> None:
    features = builder.info.features
    texts = [key for key, feature in features.items() if isinstance(feature, tfds.features.Text)]
    if text_field not in texts:
        raise no_text_field(text_field, name, texts)


def no_text_field(text_field: str, name: str | Path, texts: list[str]) -> InputError:
    """The error of a dataset with other texts."""
    return InputError(
        f"`text_field` must name a text of the dataset. {name} has no text {text_field!r}, "
        f"only: {', '.join(texts) or 'none'}."
    )


def _reason(error: Exception) -> str:
    return first_line(error).rstrip(".:")
