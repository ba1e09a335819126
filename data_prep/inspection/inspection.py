"""`albert inspect`: what is in pretraining files, whether it follows ALBERT's rules, and whether it is whole."""

from pathlib import Path

from rich.console import Console

from data_prep.errors import InputError
from data_prep.examples.manifest import Manifest, manifests_of
from data_prep.inspection.example_files import read_batches
from data_prep.inspection.example_plot import plot_stats
from data_prep.inspection.example_stats import ExampleStats, stats_table
from data_prep.inspection.example_view import LEGEND, example_panel
from data_prep.inspection.settings import InspectSettings
from data_prep.inspection.verification import check_values, missing_shards, verify_file
from data_prep.text.sources import expand_files
from data_prep.tokenizers.vocabulary import Tokenizer, Vocabulary, load_tokenizer

_EXAMPLES = 3  # shown where nothing else is asked for


def inspect(files: list[str], settings: InspectSettings, console: Console) -> None:
    """Shows examples, then counts, then checks, as the settings ask.

    Args:
      files: TFRecord files, plain or GZIP, of this library or of the original; globs and commas allowed.
      settings: what to do.
      console: where it is written.

    Raises:
      InputError: a file cannot be read or something in it is wrong; with `verify` after all files were checked.
    """
    paths = list(dict.fromkeys(path for pattern in files for path in expand_files(pattern)))
    if not paths:
        raise InputError("At least one TFRecord file must be named. Received none.")
    plot_file = Path(settings.plot_file)
    if settings.stats and not plot_file.absolute().parent.is_dir():
        raise InputError(
            f"`plot_file` must lie in a folder. There is no folder {plot_file.absolute().parent}."
        )
    asked = settings.stats or settings.verify
    num_examples = settings.num_examples if settings.num_examples is not None else 0 if asked else _EXAMPLES
    if num_examples < 0:
        raise InputError(f"`num_examples` must not be negative. Received {num_examples}.")
    manifests = manifests_of(paths)
    manifest = manifests.get(paths[0])
    tokenizer = _tokenizer(paths[0], manifest, settings) if num_examples or settings.stats else None
    if tokenizer and num_examples:
        show_examples(paths, tokenizer, num_examples, console)
    stats = ExampleStats(tokenizer.mask_id, tokenizer.starts_word) if tokenizer and settings.stats else None
    if settings.verify:
        if tokenizer is None and settings.names_vocabulary:
            tokenizer = _tokenizer(paths[0], manifest, settings)
        known = tokenizer.vocab_size if tokenizer else manifest.vocabulary.size if manifest else None
        verify_files(paths, manifests, known, stats, console)
    elif stats and tokenizer:
        for path in paths:
            for batch in read_batches(path):
                check_values(batch, tokenizer.vocab_size, path)
                stats.add(batch.values)
    if stats:
        console.print(stats_table(stats))
        plot_stats(stats, plot_file)
        console.print(f"Wrote {plot_file}", highlight=False, soft_wrap=True, markup=False)


def show_examples(paths: list[Path], tokenizer: Tokenizer, num_examples: int, console: Console) -> None:
    """Decodes the first examples of the files, one after the other."""
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
                console.print(LEGEND, style="dim", highlight=False, markup=False)
                return


def verify_files(
    paths: list[Path],
    manifests: dict[Path, Manifest],
    vocab_size: int | None,
    stats: ExampleStats | None,
    console: Console,
) -> None:
    """Checks every file and tells of each one.

    Args:
      paths: the files.
      manifests: those of the files that have one.
      vocab_size: V, if known.
      stats: counts the examples on the way.
      console: where the lines go.

    Raises:
      InputError: something is wrong with one of them, or a file that belongs to them is missing.
    """
    wrong = 0
    for path in paths:
        shard = manifests[path].shard(path.name) if path in manifests else None
        try:
            examples = verify_file(path, vocab_size, shard, stats.add if stats else None)
        except InputError as error:
            wrong += 1
            line = f"WRONG  {error}"
        else:
            line = f"ok     {path}: {examples:,} examples, {path.stat().st_size:,} bytes, " + (
                "as its manifest says" if shard else "no manifest"
            )
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    missing = missing_shards(paths, manifests)
    for path in missing:
        line = f"WRONG  {path} is in the manifest and not there."
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    if vocab_size is None:
        console.print(
            "Ids were not compared with a vocabulary; name it with --spm_model_file or --vocab_file."
        )
    if wrong or missing:
        raise InputError(
            f"Of {len(paths)} files {wrong} are damaged or not what their manifest says, and {len(missing)} more "
            "are missing; copy them again or prepare them again."
        )


def _tokenizer(path: Path, manifest: Manifest | None, settings: InspectSettings) -> Tokenizer:
    lower = manifest.settings.do_lower_case if manifest else True
    if settings.names_vocabulary:
        return load_tokenizer(settings.spm_model_file, settings.vocab_file, lower)
    if not manifest or not Path(manifest.vocabulary.file).is_file():
        reason = (
            f"The manifest names {manifest.vocabulary.file}, which does not exist"
            if manifest
            else f"{path} has no manifest"
        )
        raise InputError(
            f"Decoding and counting need the vocabulary. {reason}; give it with --spm_model_file or --vocab_file."
        )
    return Vocabulary.read(manifest.vocabulary.file, lower).tokenizer()
