"""Texts of a dataset of the Hugging Face Hub, written hf://datasets/OWNER/NAME/CONFIG:SPLIT.

The package `datasets` streams them, so that no row is kept on disk. Nothing of a dataset is run.
"""

import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from data_prep.errors import InputError, first_line, needs_extra
from data_prep.storage.paths import shown
from data_prep.text.tfds_rows import no_text_field

_NAME = re.compile(
    r"hf://datasets/(?P<repository>[^/@:]+/[^/@:]+)(@(?P<revision>[^/:]+))?(/(?P<config>[^/:]+))?(:(?P<split>.+))?"
)
_ROWS = 256  # that are read at once


def is_hub(name: str | Path) -> bool:
    """Whether a name refers to the Hub and not to a file."""
    return str(name).startswith("hf:/")


def read_hub(name: str | Path, text_field: str) -> Iterator[str | None]:
    """The texts of one split in the order of its files; None where a row has none.

    HF_TOKEN, HF_HOME, HF_ENDPOINT and HF_HUB_OFFLINE mean what they mean to huggingface_hub. In a process, the
    rows are those of one commit.

    >>> list(read_hub("hf://datasets/stanfordnlp/sst2@main:validation", "sentence"))[0]
    "it 's a charming and often affecting journey . "
    """
    address = shown(name)
    matched = _NAME.fullmatch(address)
    if not matched:
        raise InputError(
            'A dataset of the Hub must be written "hf://datasets/OWNER/NAME:SPLIT", with @REVISION behind NAME '
            f"unless it is the newest, and /CONFIG if there are several. Received {address!r}."
        )
    repository, revision, config, split = matched.group("repository", "revision", "config", "split")
    with needs_extra(address, "datasets>=4", "datasets"):
        import datasets
        from pyarrow import types

        if int(getattr(datasets, "__version__", "0").split(".")[0]) < 4:  # which runs the code of a dataset
            raise ImportError
    try:
        splits = _open_hub(datasets, repository, revision, config).as_streaming_dataset()
        if split not in splits:
            raise InputError(_one_of("split", splits, split, address))
        for table in splits[split].with_format("arrow").iter(_ROWS):
            is_text = (types.is_string, types.is_large_string, types.is_null)
            texts = [field.name for field in table.schema if any(each(field.type) for each in is_text)]
            if text_field not in texts:
                raise no_text_field(text_field, address, texts)
            yield from table[text_field].to_pylist()
    except InputError:
        raise
    except Exception as error:
        # Servers, the network and the readers of many file formats raise anything.
        message = f"{address} cannot be read: {first_line(error).rstrip('.')}."
        status = getattr(getattr(error, "response", None), "status_code", None)
        if isinstance(error, datasets.exceptions.DatasetNotFoundError) or status in (401, 403):
            message += " Check the name; a private or gated dataset needs your HF_TOKEN."
        raise InputError(message) from None


@functools.lru_cache(maxsize=16)
def _open_hub(datasets: Any, repository: str, revision: str | None, config: str | None) -> Any:
    """The builder of a dataset at one commit, the newest of the revision."""
    path = f"hf://datasets/{repository}"
    try:
        builder = datasets.load_dataset_builder(path, config, revision=revision)
    except ValueError:
        configs = datasets.get_dataset_config_names(path, revision=revision)
        if config in configs:
            raise
        raise InputError(_one_of("configuration", configs, config, path)) from None
    # Without the Hub, the package opens what an earlier program left in its cache, of any commit.
    if revision and not str(builder.base_path).startswith(path):
        raise InputError(f"{path}@{revision} cannot be read: the Hub does not answer or refuses access.")
    return builder


def _one_of(what: str, choices: Iterable[str], received: str | None, name: str) -> str:
    return f"The {what} must be one of {', '.join(choices)}. Received {received or 'none'} in {name}."
