"""`albert publish`: the folder of a conversion or an export becomes a repository on the Hugging Face Hub."""

import fnmatch
from collections.abc import Callable, Sequence
from pathlib import Path

from albert_tf.checkpoints.card import CARD_FILE, written_by
from albert_tf.checkpoints.checkpoint_files import say_on_stderr
from albert_tf.checkpoints.downloads import FILES_OF_MODELS, repository_of
from data_prep.errors import InputError, first_line
from data_prep.files import is_hidden, read_text


def publish(
    folder: str | Path,
    address: str,
    *,
    license: str = "",  # noqa: A002 - the Hub's name
    languages: Sequence[str] = (),
    tags: Sequence[str] = (),
    private: bool = False,
    show: Callable[[str], None] = say_on_stderr,
) -> str:
    """Uploads a folder's model in one commit; the repository is created if need be. The folder stays as it is.

    Hidden files, and files of kinds that no model has, are left out.

    HF_ENDPOINT and HF_TOKEN mean what they mean to huggingface_hub.

    Args:
      folder: what `albert convert` or `albert export` wrote.
      address: hf://OWNER/NAME.
      license: its identifier on the Hub, for example "apache-2.0".
      languages: languages of the model's text, as ISO 639 codes.
      tags: further tags beside "albert".
      private: whether a new repository is private.
      show: receives the list of files, line by line, before anything is sent.

    Returns:
      The web address of the commit.

    Raises:
      InputError: the folder or the address is not of this form, the folder holds links, or the Hub cannot be
        reached or refuses.
    """
    from huggingface_hub import CommitOperationAdd, HfApi
    from huggingface_hub.errors import LocalTokenNotFoundError

    folder = Path(folder)
    repository, revision = repository_of(address)
    if revision:
        raise InputError(f"The address must be hf://OWNER/NAME, without a revision. Received {address}.")
    files = _files(folder)
    card = _card(folder, license, languages, tags).encode()
    contents: dict[str, Path | bytes] = {name: path for name, path in files.items() if _is_model_file(name)}
    contents[CARD_FILE] = card
    for name, content in contents.items():
        size = content.stat().st_size if isinstance(content, Path) else len(content)
        show(f"{size:15,} bytes  {name}")
    for name in sorted(files.keys() - contents.keys()):
        show(f"left out, of no kind that models have: {name}")
    operations = [CommitOperationAdd(name, content) for name, content in contents.items()]
    api = HfApi()
    try:
        api.create_repo(repository, private=private, exist_ok=True)
        commit = api.create_commit(repository, operations, commit_message="Upload by albert publish")
    except ValueError as error:  # the metadata, or the name of the repository
        raise InputError(
            f"{folder} cannot be published at {address}: {' '.join(str(error).split())}"
        ) from None
    except Exception as error:  # of any class, if something other than the Hub answers
        has_answered = getattr(error, "response", None) is not None
        if has_answered or isinstance(error, LocalTokenNotFoundError):
            remedy = "The Hub needs a token that may write there: `hf auth login`, or the variable HF_TOKEN."
        else:
            remedy = "Publish it from a machine that reaches the Hub."
        raise InputError(
            f"{folder} cannot be published at {address}: {first_line(error).rstrip('.')}. {remedy}"
        ) from None
    return str(commit.commit_url)


def _files(folder: Path) -> dict[str, Path]:
    """The files of a folder and its subfolders by relative path, without hidden ones such as those in .git.

    Raises:
      InputError: the folder does not exist, or holds a link, whose target may be anything, or a device.
    """
    if not folder.is_dir():
        raise InputError(f"A folder to publish must exist. Received {folder}.")
    files = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if is_hidden(name):
            continue
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise InputError(
                f"A folder to publish must hold regular files. Received {path}, a link or a device; put the file "
                "itself there."
            )
        if path.is_file():
            files[name.as_posix()] = path
    return files


def _is_model_file(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in FILES_OF_MODELS)


def _card(folder: Path, license_name: str, languages: Sequence[str], tags: Sequence[str]) -> str:
    """The folder's README.md with the user's metadata.

    Raises:
      InputError: `albert convert` and `albert export` have not written the folder, or the metadata is invalid.
    """
    from huggingface_hub import ModelCard

    path = folder / CARD_FILE
    text = read_text(path) if path.is_file() else ""
    if not any(written_by(f"albert {command}") in text for command in ("convert", "export")):
        raise InputError(
            "A folder to publish must be one that `albert convert` or `albert export` wrote, with its "
            f"{CARD_FILE}. Received {folder}; `albert convert {folder} NEW_FOLDER --to=huggingface` writes one "
            "from a model."
        )
    try:
        card = ModelCard(text, ignore_metadata_errors=True)
    except Exception as error:  # errors of YAML and huggingface_hub have no common class
        raise InputError(
            f"The metadata between the lines --- of {path} must be names and values in YAML. They are not: "
            f"{getattr(error, 'problem', None) or error}."
        ) from None
    if license_name:
        card.data["license"] = license_name
    if languages:
        card.data["language"] = list(languages)
    card.data["tags"] = list(dict.fromkeys([*(card.data.get("tags") or ()), *tags]))
    return str(card)
