"""`hf://OWNER/NAME`: a repository on the Hugging Face Hub, through its own library and cache."""

from pathlib import Path
from typing import cast

from data_prep.errors import InputError

PREFIX = "hf://"
_SMALL = ["*.json", "spiece.model", "vocab.txt", "assets/tokenizer/*"]
_WEIGHTS = ["model*.safetensors", "model.weights.h5"]
_OLD_WEIGHTS = ["pytorch_model*.bin"]


def download(address: str) -> Path:
    """Downloads what is needed of `hf://OWNER/NAME` or `hf://OWNER/NAME@REVISION`, or finds it in the cache.

    HF_ENDPOINT, HF_HOME, HF_TOKEN and HF_HUB_OFFLINE mean what they mean to huggingface_hub.

    Returns:
      The folder, in the cache.

    Raises:
      InputError: there is no such repository, or it cannot be reached.
    """
    import huggingface_hub
    from huggingface_hub import errors

    repository, _, revision = address.removeprefix(PREFIX).partition("@")
    owner, _, name = repository.partition("/")
    if not owner or not name or "/" in name:
        raise InputError(f"An address on the Hub is {PREFIX}OWNER/NAME. Received {address}.")

    # The HTTP library underneath has errors of its own, and changed from one release to the next.
    http_errors = cast(tuple[type[Exception], ...], errors.HfHubHTTPError.__bases__)
    failures: tuple[type[Exception], ...] = (OSError, errors.HFValidationError, *http_errors)

    def snapshot(patterns: list[str]) -> Path:
        return Path(
            huggingface_hub.snapshot_download(repository, revision=revision or None, allow_patterns=patterns)
        )

    try:
        folder = snapshot(_SMALL + _WEIGHTS)
        if not any(match for pattern in _WEIGHTS for match in folder.glob(pattern)):
            folder = snapshot(_SMALL + _OLD_WEIGHTS)
    except failures as error:
        raise InputError(f"{address} cannot be had: {str(error).strip().splitlines()[0]}") from None
    return folder
