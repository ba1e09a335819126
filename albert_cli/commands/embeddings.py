"""The command for vectors of texts: embed."""

import sys
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from albert_cli.commands.portable_models import is_portable_model
from albert_cli.commands.streams import input_stream
from albert_cli.commands.terminal import import_tensorflow, print_message
from albert_tf.checkpoints.sources import SourceFlags
from albert_tf.runtime.engine_flags import USUAL_ENGINE, EngineSettings
from albert_tf.tasks.columns import Columns
from data_prep.console import working
from data_prep.errors import InputError

if TYPE_CHECKING:
    from albert_tf.runtime.vector_stream import Embed


def embed(
    *,
    model_dir: str,
    input_file: str = "-",
    output: str | None = None,
    albert_config_file: str | None = None,
    vocab_file: str | None = None,
    input_format: Literal["auto", "text", "csv", "jsonl"] = "auto",
    column_names: str = "",
    portable: Annotated[EngineSettings, Parameter(name="*")] = USUAL_ENGINE,
) -> None:
    """Turn each text of a file or of standard input into a vector, the mean of its tokens' vectors.

    For example:

      albert embed --model_dir=albert_base_v2 --output=vectors.npy < texts.txt

      albert embed --model_dir=runs/base < texts.txt > vectors.jsonl

      albert embed --model_dir=runs/base --column_names=text=review \\
          --output=vectors.npy < reviews.csv

      albert embed --model_dir=portable --requests=2 --output=vectors.npy \\
          < texts.txt

    Args:
      model_dir: any pretrained or fine-tuned model that `albert convert` reads, or the output of `albert export
        --kind=embedding --format=onnx`, which runs without TensorFlow and with the --pooling of its export.
      input_file: file to read, or its address. Default: standard input.
      output: .npy file to write, float32, with a row for each text, or its address. Default: print a JSON array
        for each text as it arrives.
      albert_config_file: the model's albert_config.json, if it is not beside a TF1 checkpoint.
      vocab_file: SentencePiece model or WordPiece vocab.txt, if the model comes without a vocabulary.
      input_format: layout of the lines. "text" has one text per line; "jsonl", a JSON object; "csv", a table
        whose first line names the columns. "auto" decides from the first line, and recognizes tables with tabs,
        too.
      column_names: name of the column that holds the texts, as in text=review. Default: that of a fine-tuned
        model's training data, or text_a, text, sentence1 or sentence.
      portable: how a portable model runs.
    """
    if output is not None and not output.endswith(".npy"):
        raise InputError(f"--output must end in .npy. Received {output}.")
    named = Columns.named(column_names)
    vectors_of, columns = _read_embedder(model_dir, SourceFlags(albert_config_file, vocab_file), portable)
    from albert_tf.runtime.vector_stream import arriving_texts, write_json_vectors, write_vector_file
    from data_prep.storage.copies import pushed

    with input_stream(input_file) as source:
        texts = arriving_texts(source, columns, input_format, named)
        if output is None:
            write_json_vectors(vectors_of, texts, sys.stdout.buffer)
            return
        with pushed(output) as file, working(f"writing vectors to {output}"):
            count = write_vector_file(vectors_of, texts, file)
    print_message(f"{count:,} vectors")
    print(output)


def _read_embedder(model_dir: str, flags: SourceFlags, settings: EngineSettings) -> tuple["Embed", Columns]:
    """Texts -> vectors, by a model of any format, and the columns of its training data.

    TensorFlow is imported unless the model is portable.
    """
    if is_portable_model(model_dir, flags, settings):
        from albert_tf.runtime.portable_folder import PortableFolder
        from albert_tf.runtime.portable_loading import load_folder
        from albert_tf.runtime.portable_text_model import PortableEmbedding

        model = load_folder(PortableFolder(model_dir), settings)
        if not isinstance(model, PortableEmbedding):
            raise InputError(
                f"--model_dir must be a portable model of the kind embedding. {model_dir} is of the kind "
                f"{model.folder.facts.kind}; export it with --kind=embedding."
            )
        return lambda texts: model(texts)["embedding"], Columns()
    import_tensorflow()
    from albert_tf.runtime.pretrained import as_pretrained
    from albert_tf.tasks.open_task import read_source

    stored = read_source(model_dir, flags)
    return as_pretrained(stored, dtype="float32").embed, Columns.of_stored(stored)
