"""`albert inspect`: what pretraining files hold, whether it follows ALBERT's rules, whether it is complete."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from data_prep.console import working
from data_prep.errors import InputError
from data_prep.examples.manifest import Manifest, manifests_of, without_empty_shards, without_manifests
from data_prep.inspection.example_batches import read_batches
from data_prep.inspection.example_stats import ExampleStats, stats_table
from data_prep.inspection.example_view import LEGEND, example_panel
from data_prep.inspection.verification import check_values, missing_shards, verify_file
from data_prep.storage.paths import file_size, shown
from data_prep.text.sources import expand_files
from data_prep.tokenizers.vocabulary import Tokenizer, load_tokenizer
from data_prep.tokenizers.vocabulary_flags import vocabulary_from_flags

_EXAMPLES = 3  # shown by default


def inspect(
    files: Sequence[str],
    console: Console,
    *,
    stats: bool = False,
    verify: bool = False,
    spm_model_file: str | None = None,
    vocab_file: str | None = None,
    num_examples: int | None = None,
) -> None:
    """Prints examples, then statistics, then the results of the checks; the arguments are the command's flags.

    With `verify`, all files are checked before the first fault is raised.
    """
    paths = without_manifests(dict.fromkeys(path for pattern in files for path in expand_files(pattern)))
    if not paths:
        raise InputError("At least one TFRecord file must be named. Received none.")
    if num_examples is None:
        num_examples = 0 if stats or verify else _EXAMPLES
    if num_examples < 0:
        raise InputError(f"--num_examples must not be negative. Received {num_examples}.")
    manifests = manifests_of(paths)
    manifest = manifests.get(paths[0])
    tokenizer = None
    if num_examples or stats or spm_model_file or vocab_file:
        tokenizer = _tokenizer(paths[0], manifest, spm_model_file, vocab_file)
    with_examples = without_empty_shards(paths, manifests)
    if not with_examples:
        console.print("The files hold no examples.")
    if tokenizer and num_examples:
        show_examples(with_examples, tokenizer, num_examples, console)
    counted = (
        ExampleStats(tokenizer.mask_id, tokenizer.word_starts("original")) if tokenizer and stats else None
    )
    if verify:
        verify_files(paths, manifests, tokenizer.vocab_size if tokenizer else None, counted, console)
    elif counted and tokenizer:
        for path in with_examples:
            with working(f"reading {path}"):
                for batch in read_batches(path):
                    check_values(batch, tokenizer.vocab_size, path)
                    counted.add(batch.values)
    if counted and counted.examples:
        console.print(stats_table(counted, manifest.settings if manifest else None))


def show_examples(paths: list[Path], tokenizer: Tokenizer, num_examples: int, console: Console) -> None:
    """Prints the first examples of the files, decoded."""
    left = num_examples
    for path in paths:
        for batch in read_batches(path):
            check_values(batch, tokenizer.vocab_size, path)
            for row in range(min(left, len(batch.values["input_ids"]))):
                example = {name: values[row] for name, values in batch.values.items()}
                title = f"{path.name}, example {batch.first + row}"
                console.print(example_panel(example, tokenizer.pieces, tokenizer.mask_id, title))
                left -= 1
            if not left:
                if "masked_lm_ids" in batch.values:
                    console.print(LEGEND, style="dim", highlight=False, markup=False)
                return


def verify_files(
    paths: list[Path],
    manifests: dict[Path, Manifest],
    vocab_size: int | None,
    stats: ExampleStats | None,
    console: Console,
) -> None:
    """Checks every file, prints a line about each, and counts the examples in `stats`.

    Without `vocab_size`, ids are compared with the V of each file's manifest, if it has one.
    """
    wrong = 0
    for path in paths:
        manifest = manifests.get(path)
        shard = manifest.shard(path) if manifest else None
        V = vocab_size or (manifest.vocabulary.size if manifest else None)
        try:
            with working(f"reading {path}"):
                examples = verify_file(path, V, shard, stats.add if stats else None)
        except InputError as error:
            wrong += 1
            line = f"WRONG  {error}"
        else:
            line = f"ok     {shown(path)}: {examples:,} examples, {file_size(path):,} bytes, " + (
                "matches its manifest" if shard else "no manifest"
            )
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    missing = missing_shards(paths, manifests)
    for path in missing:
        line = f"WRONG  {path} is in the manifest but does not exist."
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    if vocab_size is None and not manifests.keys() >= set(paths):
        console.print(
            "Ids were not checked against a vocabulary; name it with --spm_model_file or --vocab_file."
        )
    if wrong or missing:
        raise InputError(
            f"Of {len(paths)} files {wrong} are damaged or differ from their manifest, and {len(missing)} more "
            "are missing; copy them again or prepare them again."
        )


def _tokenizer(
    path: Path, manifest: Manifest | None, spm_model_file: str | None, vocab_file: str | None
) -> Tokenizer:
    if spm_model_file or vocab_file:
        if manifest:
            return manifest.vocabulary.read(vocabulary_from_flags(spm_model_file, vocab_file)).tokenizer()
        return load_tokenizer(spm_model_file, vocab_file)
    if not manifest or file_size(Path(manifest.vocabulary_here.file)) is None:
        reason = f"{path} has no manifest"
        if manifest:
            reason = f"The manifest names {manifest.vocabulary_here.file}, which does not exist"
        raise InputError(
            f"Decoding and counting need the vocabulary. {reason}; give it with --spm_model_file or --vocab_file."
        )
    return manifest.vocabulary_here.read().tokenizer()
