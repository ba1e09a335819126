"""Commands from text to examples: vocab, tokenize, prepare, inspect."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from albert_cli.commands.terminal import import_tensorflow, print_message, print_next
from data_prep.console import open_console, working
from data_prep.errors import InputError
from data_prep.examples.prepare_flags import PrepareSettings
from data_prep.tokenizers.vocabulary_flags import VocabularySettings

if TYPE_CHECKING:
    from data_prep.tokenizers.vocabulary import Vocabulary

_SETTINGS = Parameter(name="*")


def vocab(*, settings: Annotated[VocabularySettings, _SETTINGS]) -> None:
    """Train a SentencePiece vocabulary with ALBERT's symbols, or extend the one of a model.

    For example:

      albert vocab --input_file='text/*.txt' --output_prefix=vocab/30k

      albert vocab --extend=albert_base_v2 --vocab_size=30500 \\
          --input_file='law/*.txt' --output_prefix=vocab/law
    """
    if "tfds:" in f"{settings.input_file},{settings.eval_file}":
        import_tensorflow()  # because tensorflow-datasets imports it
    if settings.extend:
        _extend(settings, settings.extend)
        return
    from data_prep.storage.copies import pushed
    from data_prep.tokenizers.vocabulary_report import report_table
    from data_prep.tokenizers.vocabulary_training import read_report, train_vocabulary

    with pushed(settings.output_prefix, is_prefix=True) as prefix, working("training the vocabulary"):
        report = read_report(train_vocabulary(replace(settings, output_prefix=prefix)))
    model_file = f"{settings.output_prefix}.model"
    open_console(stderr=True).print(report_table(report))
    print(model_file)
    usual = VocabularySettings(settings.input_file, settings.output_prefix)
    values = {name: getattr(settings, name) for name in ("input_format", "language", "text_field")}
    reading = "".join(f" --{name}={value}" for name, value in values.items() if value != getattr(usual, name))
    print_next(
        f"albert prepare --input_file='{settings.input_file}'{reading} --spm_model_file={model_file} "
        "--output_file=data/train.tfrecord"
    )


def _extend(settings: VocabularySettings, model: str) -> None:
    from data_prep.storage.copies import pushed
    from data_prep.tokenizers.vocabulary_training import write_extension

    vocabulary = _vocabulary_of(model)
    with pushed(settings.output_prefix, is_prefix=True) as prefix, working("choosing pieces"):
        file, added = write_extension(replace(settings, output_prefix=prefix), vocabulary)
    print_message(added)
    written = f"{settings.output_prefix}{file.suffix}"
    print(written)
    flag = "vocab_file" if vocabulary.kind == "wordpiece" else "spm_model_file"
    print_next(
        f"albert prepare --input_file='{settings.input_file}' --{flag}={written} "
        "--output_file=data/train.tfrecord",
        f"albert pretrain --do_train --input_file='data/train.tfrecord*' --init_checkpoint={model} "
        "--output_dir=runs/own_words",
    )


def _vocabulary_of(model: str) -> "Vocabulary":
    """The vocabulary of a file, or of a model in any format."""
    from data_prep.tokenizers.vocabulary import Vocabulary

    if Path(model).suffix in (".model", ".txt") and not Path(model).is_dir():
        return Vocabulary.read(model)
    import_tensorflow()
    from albert_tf.checkpoints.open_model import open_model

    vocabulary = open_model(model).vocabulary
    if vocabulary is None:
        raise InputError(f"--extend needs a vocabulary, which {model} does not hold. Name a vocabulary file.")
    return vocabulary


def tokenize(
    *,
    spm_model_file: str | None = None,
    vocab_file: str | None = None,
    do_lower_case: bool | None = None,
    pieces: bool = False,
    offsets: bool = False,
) -> None:
    """Turn each line of standard input into a JSON array of ids, without [CLS] and [SEP].

    For example:

      albert tokenize --spm_model_file=vocab/30k.model < text.txt

    Args:
      spm_model_file: SentencePiece model, from `albert vocab` or a released checkpoint.
      vocab_file: WordPiece vocab.txt in place of --spm_model_file, for example of a Chinese checkpoint.
      do_lower_case: --nodo_lower_case declares a cased vocabulary. Default: what the settings file beside the
        vocabulary says, or lower case without one.
      pieces: print pieces instead of ids.
      offsets: print the [begin, end] of each piece in its line instead of ids, in characters (code points).
    """
    from data_prep.tokenizers.token_stream import Output, tokenize_stream
    from data_prep.tokenizers.vocabulary import load_tokenizer

    if pieces and offsets:
        raise InputError("--pieces and --offsets exclude each other. Received both; give one.")
    tokenizer = load_tokenizer(spm_model_file, vocab_file, do_lower_case)
    output: Output = "pieces" if pieces else "offsets" if offsets else "ids"
    tokenize_stream(tokenizer, sys.stdin.buffer, sys.stdout.buffer, output)


def prepare(*, settings: Annotated[PrepareSettings, _SETTINGS]) -> None:
    """Turn text into sentence-order and masked-LM examples: TFRecord shards and a manifest.json.

    For example:

      albert prepare --input_file='text/*.txt' --max_seq_length=512 \\
          --spm_model_file=vocab/30k.model --output_file=data/train.tfrecord

      albert prepare --runner=FlinkRunner \\
          --pipeline_options='--flink_master=host:8081' \\
          --input_file='gs://bucket/text/*.txt' --num_shards=256 \\
          --spm_model_file=vocab/30k.model \\
          --output_file=gs://bucket/data/train.tfrecord
    """
    if settings.runner == "local":
        from data_prep.prepare.local import prepare as write_examples
    else:
        from data_prep.prepare.beam import prepare_on_cluster as write_examples

    vocab_size = write_examples(settings).vocabulary.size
    files = settings.output_file if "," in settings.output_file else f"{settings.output_file}*"
    print_next(
        f"albert inspect '{files}' --stats --verify",
        f"python -c \"from albert_tf import AlbertConfig; AlbertConfig.from_preset('albert_base_v2', "
        f"vocab_size={vocab_size}).to_json_file('albert_config.json')\"",
        f"albert pretrain --do_train --input_file='{files}' "
        "--albert_config_file=albert_config.json --output_dir=runs/base",
    )


def inspect(  # noqa: D417 - cyclopts finds no help of *files in the docstring
    *files: Annotated[str, Parameter(help="TFRecord files of examples, plain or GZIP; globs are allowed.")],
    stats: bool = False,
    verify: bool = False,
    spm_model_file: str | None = None,
    vocab_file: str | None = None,
    num_examples: int | None = None,
) -> None:
    """Show decoded pretraining examples, count their lengths and masks, and check that the files are complete.

    For example:

      albert inspect data/train.tfrecord* --stats --verify

    Args:
      stats: print a table of the lengths, masks and labels of all examples.
      verify: check every record's checksum and values, and the files against their manifest.
      spm_model_file: SentencePiece model, from `albert vocab` or a released checkpoint. Default: the vocabulary
        that the manifest.json beside the files names.
      vocab_file: WordPiece vocab.txt in place of --spm_model_file, for example of a Chinese checkpoint.
      num_examples: number of decoded examples to show. Default: 3, or 0 with --stats or --verify.
    """
    import_tensorflow()
    from data_prep.inspection.inspection import inspect as inspect_files

    inspect_files(
        files,
        open_console(),
        stats=stats,
        verify=verify,
        spm_model_file=spm_model_file,
        vocab_file=vocab_file,
        num_examples=num_examples,
    )
