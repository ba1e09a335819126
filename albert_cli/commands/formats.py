"""Commands that write a model in another form: export, convert; and models, the list of names."""

from typing import Literal

from rich.console import Console
from rich.table import Table

from albert_cli.commands.terminal import import_tensorflow, print_message, print_notes
from data_prep.errors import InputError


def export(
    *,
    model_dir: str,
    output: str,
    kind: Literal[
        "encoder",
        "preprocessor",
        "fill-mask",
        "embedding",
        "classifier",
        "question-answering",
        "multiple-choice",
    ] = "encoder",
    seq_length: int | None = None,
    top_k: int | None = None,
    pooling: Literal["mean", "pooled"] | None = None,
    max_answer_length: int | None = None,
    format: Literal["savedmodel", "onnx", "litert"] = "savedmodel",  # noqa: A002
    dtype: Literal["float32", "bfloat16"] = "float32",
    keep_padding: bool = False,
    quantize: Literal["none", "float16", "int8"] = "none",
    eval_file: str | None = None,
) -> None:
    """Write a model as a SavedModel that takes ids or raw text, or as a file for ONNX Runtime or LiteRT.

    For example:

      albert export --model_dir=runs/base --output=saved_model

      albert export --kind=fill-mask --model_dir=albert_base_v2.tar.gz --output=models/albert/1

      albert export --format=litert --quantize=int8 --eval_file='heldout/*.tfrecord' --model_dir=runs/base \\
          --output=phone

      albert export --kind=classifier --format=onnx --quantize=int8 --eval_file=glue/SST-2/dev.tsv \\
          --model_dir=runs/sst-2 --output=reviews

    Args:
      model_dir: the folder of a pretraining or fine-tuning run (its --output_dir), a name that `albert models`
        lists, anything else that `albert convert` reads, or the .keras file of a fine-tuned model.
      output: a new folder, or an earlier export to replace.
      kind: encoder (ids to vectors, with the heads), preprocessor (text to the encoder's inputs), fill-mask (text
        with [MASK] to the best pieces) or embedding (text to one vector); for fine-tuned models classifier (texts
        to classes or a number), question-answering or multiple-choice.
      seq_length: for preprocessor: the length of its outputs, 128 by default.
      top_k: for fill-mask: the number of pieces for each mask, 5 by default.
      pooling: for embedding: the mean of all tokens' vectors (the default), or the pooled output.
      max_answer_length: for question-answering: in tokens, 30 by default.
      format: a SavedModel; or, for encoder and classifier, a file that takes ids: model.onnx for ONNX Runtime and
        others, or model.tflite for LiteRT.
      dtype: for SavedModels: bfloat16 halves the file and computes in bfloat16, which is faster on processors that
        support it.
      keep_padding: for SavedModels: compute padding too, so that all shapes follow from those of the inputs, as
        XLA and TPUs need.
      quantize: for onnx and litert: float16 halves the file; int8 quarters it and multiplies in 8 bits.
      eval_file: for onnx and litert: measures what is lost, for an encoder as masked-LM accuracy on pretraining
        examples, for a classifier as its task's metric on a file like its --dev_file.
    """
    import_tensorflow()
    from export.run import export_for_runtime, export_model

    given = {
        "seq_length": seq_length,
        "top_k": top_k,
        "pooling": pooling,
        "max_answer_length": max_answer_length,
    }
    options = {name: value for name, value in given.items() if value is not None}
    if format == "savedmodel":
        if quantize != "none" or eval_file:
            raise InputError("--quantize and --eval_file belong to --format=onnx and --format=litert.")
        result = export_model(model_dir, output, kind, dtype, keep_padding, **options)
    else:
        if kind not in ("encoder", "classifier"):
            raise InputError(
                f"--format={format} supports --kind=encoder and --kind=classifier, which take ids there; text "
                f"needs TensorFlow. Received --kind={kind}."
            )
        if options or dtype != "float32" or keep_padding:
            raise InputError(
                f"--format={format} supports neither --dtype, --keep_padding nor options of a kind. Use "
                "--quantize for smaller files."
            )
        result = export_for_runtime(model_dir, output, format, quantize, eval_file, kind)
    print_notes(result.notes)
    print_message(result.comparison.describe())
    print(output)


def convert(
    source: str,
    destination: str,
    /,
    *,
    to: Literal["tf1", "huggingface", "keras", "kerashub"],
    dtype: Literal["float32", "float16", "bfloat16"] = "float32",
    verify: bool = True,
) -> None:
    """Write a pretrained model in another format, and check that it computes the same.

    For example:

      albert convert albert_base_v2.tar.gz albert_base_hf --to=huggingface

      albert convert albert_base_v2 albert_base_tf1 --to=tf1

    Args:
      source: a run's folder or checkpoint, Google's TF1 checkpoint (folder, prefix or .tar.gz), a TF-Hub
        SavedModel, a Hugging Face or KerasHub directory, what this command wrote, a name that `albert models`
        lists, or an address: hf://OWNER/NAME, https:// of a .tar.gz, or kaggle://OWNER/MODEL/FRAMEWORK/VARIATION.
      destination: a new or empty folder.
      to: tf1 (for google-research/albert), huggingface, keras (a .keras file of this library) or kerashub.
      dtype: for huggingface: float16 and bfloat16 round the weights and halve the file.
      verify: compare the outputs of source and result on random input. --noverify skips it.
    """
    import_tensorflow()
    from albert_tf.pretrained.conversion import convert as convert_model

    result = convert_model(source, destination, to, dtype=dtype, verify=verify)
    print_notes(result.notes)
    if result.comparison:
        print_message(result.comparison.describe())
    print(destination)


def models() -> None:
    """List the models that have names: those of the package, then Google's, which are downloaded once.

    A name stands wherever a pretrained model is asked for. For example:

      albert models

      albert export --kind=fill-mask --model_dir=albert_base_v2 --output=fill_mask

      albert finetune --task=rte --data_dir=glue --init_checkpoint=albert_base_v2 --output_dir=runs/rte --do_train
    """
    from albert_tf.pretrained.sources import named_models

    table = Table("name", "parameters", "size", "files", box=None, pad_edge=False)
    for column in table.columns[1:3]:
        column.justify = "right"
    for model in named_models():
        table.add_row(model.name, f"{model.parameters:,}", f"{model.size / 1e6:,.1f} MB", model.place)
    Console(highlight=False).print(table)
