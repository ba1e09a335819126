"""Commands from text to examples: vocab, tokenize, prepare, inspect."""

import os
import sys
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from albert_cli.commands.tensorflow_quietly import import_tensorflow
from data_prep.errors import InputError
from data_prep.examples.settings import PrepareSettings
from data_prep.inspection.settings import InspectSettings
from data_prep.tokenizers.vocabulary_training import VocabularySettings

_SETTINGS = Parameter(name="*")
_INSPECT = InspectSettings()


def vocab(*, settings: Annotated[VocabularySettings, _SETTINGS]) -> None:
    """Train a SentencePiece vocabulary with ALBERT's symbols.

    For example:

      albert vocab --input_file='text/*.txt' --output_prefix=vocab/30k
    """
    if "tfds:" in f"{settings.input_file},{settings.eval_file}":
        import_tensorflow()  # tensorflow-datasets will
    from data_prep.tokenizers.vocabulary_report import report_table
    from data_prep.tokenizers.vocabulary_training import read_report, train_vocabulary

    model_file = train_vocabulary(settings)
    Console(stderr=True).print(report_table(read_report(model_file)))
    print(model_file)


def tokenize(
    *,
    spm_model_file: str | None = None,
    vocab_file: str | None = None,
    do_lower_case: bool = True,
    pieces: bool = False,
    offsets: bool = False,
) -> None:
    """Turn lines of text on standard input into JSON arrays of ids, one a line, without [CLS] and [SEP].

    For example:

      albert tokenize --spm_model_file=vocab/30k.model < text.txt

    Args:
      spm_model_file: a SentencePiece model.
      vocab_file: a WordPiece vocab.txt, as the Chinese checkpoints have, in place of a SentencePiece model.
      do_lower_case: --nodo_lower_case for a cased vocabulary.
      pieces: print the pieces rather than their ids.
      offsets: print [begin, end] of each piece in its line, in characters (code points).
    """
    from data_prep.tokenizers.token_stream import Output, tokenize_stream
    from data_prep.tokenizers.vocabulary import load_tokenizer

    if pieces and offsets:
        raise InputError("`pieces` and `offsets` are two ways to print. Received both; name one.")
    tokenizer = load_tokenizer(spm_model_file, vocab_file, do_lower_case)
    output: Output = "pieces" if pieces else "offsets" if offsets else "ids"
    try:
        tokenize_stream(tokenizer, sys.stdin.buffer, sys.stdout.buffer, output)
    except BrokenPipeError:  # `| head` has seen enough; nor is there anyone to flush for at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def prepare(*, settings: Annotated[PrepareSettings, _SETTINGS]) -> None:
    """Write SOP and masked-LM examples of a text as TFRecord shards with a manifest.json.

    For example:

      albert prepare --input_file='text/*.txt' --max_seq_length=512 \\
          --spm_model_file=vocab/30k.model --output_file=data/train.tfrecord

      albert prepare --runner=FlinkRunner --pipeline_options='--flink_master=host:8081' \\
          --input_file='gs://bucket/text/*.txt' --num_shards=256 \\
          --spm_model_file=vocab/30k.model --output_file=gs://bucket/data/train.tfrecord
    """
    if settings.runner == "local":
        from data_prep.prepare.local import prepare as write_examples
    else:
        from data_prep.prepare.beam import prepare_on_cluster as write_examples
    write_examples(settings)


def inspect(
    *files: Annotated[str, Parameter(help="TFRecord files of examples, plain or GZIP; globs allowed.")],
    settings: Annotated[InspectSettings, _SETTINGS] = _INSPECT,
) -> None:
    """Show what is in files of pretraining examples; count it; check that they are whole.

    For example:

      albert inspect data/train.tfrecord-* --stats --verify
    """
    import_tensorflow()
    from data_prep.inspection.inspection import inspect as inspect_files

    inspect_files(list(files), settings, Console())
