"""Commands that write a model in another form: export, convert."""

from typing import Literal

from rich.console import Console

from albert_cli.commands.tensorflow_quietly import import_tensorflow
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
    """Write a model as a SavedModel, all kinds but the encoder from text on; or for ONNX Runtime or LiteRT.

    For example:

      albert export --model_dir=runs/base --output=saved_model

      albert export --kind=fill-mask --model_dir=albert_base_v2.tar.gz --output=models/albert/1

      albert export --format=litert --quantize=int8 --eval_file='heldout/*.tfrecord' --model_dir=runs/base \\
          --output=phone

      albert export --kind=classifier --format=onnx --quantize=int8 --eval_file=glue/SST-2/dev.tsv \\
          --model_dir=runs/sst-2 --output=reviews

    Args:
      model_dir: a run's folder, what --output_dir was in pretraining or fine-tuning; or anything that `albert
        convert` reads; or the .keras file of a fine-tuned model.
      output: a new folder, or an earlier export to replace.
      kind: encoder (ids to vectors, with the heads), preprocessor (text to the encoder's inputs), fill-mask (text
        with [MASK] to the best pieces) or embedding (text to one vector); of a fine-tuned model classifier (texts
        to classes or a number), question-answering or multiple-choice.
      seq_length: of the preprocessor; 128 unless told.
      top_k: how many pieces fill-mask gives; 5 unless told.
      pooling: of embedding: the mean of all tokens' vectors, or the pooled output; mean unless told.
      max_answer_length: of question-answering, in tokens; 30 unless told.
      format: a SavedModel; or of an encoder or classifier, taking ids, model.onnx for ONNX Runtime and others, or
        model.tflite for LiteRT.
      dtype: of a SavedModel: bfloat16 halves it and computes in bfloat16, faster where the processor can.
      keep_padding: of a SavedModel: compute padding, too, with shapes that follow from the inputs', as XLA and
        TPUs need.
      quantize: of onnx and litert: float16 halves the file; int8 quarters it and multiplies in 8 bits.
      eval_file: of onnx and litert: what is lost is measured on it; of an encoder the masked-LM accuracy on
        pretraining examples, of a classifier its task's metric on a file like its --dev_file.
    """
    import_tensorflow()
    from export.run import export_model

    given = {
        "seq_length": seq_length,
        "top_k": top_k,
        "pooling": pooling,
        "max_answer_length": max_answer_length,
    }
    options = {name: value for name, value in given.items() if value is not None}
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if format == "savedmodel":
        if quantize != "none" or eval_file:
            raise InputError("--quantize and --eval_file belong to --format=onnx and --format=litert.")
        result = export_model(model_dir, output, kind, dtype, keep_padding, **options)
    else:
        from export.runtimes import export_for_runtime

        if kind not in ("encoder", "classifier"):
            raise InputError(
                f"--format={format} is of --kind=encoder and --kind=classifier, which take ids there; text needs "
                f"TensorFlow. Received --kind={kind}."
            )
        if options or dtype != "float32" or keep_padding:
            raise InputError(
                f"--format={format} is in float32, without further options; --quantize is its own."
            )
        result = export_for_runtime(model_dir, output, format, quantize, eval_file, kind)
    for note in result.notes:
        console.print(f"note: {note}", markup=False)
    console.print(result.comparison.sentence, markup=False)
    print(output)


def convert(
    source: str,
    destination: str,
    /,
    *,
    to: Literal["tf1", "huggingface", "keras", "kerashub"],
    verify: bool = True,
) -> None:
    """Write a pretrained model in another format, and check that it computes the same.

    For example:

      albert convert albert_base_v2.tar.gz albert_base_hf --to=huggingface

    Args:
      source: a run's folder or checkpoint, Google's TF1 checkpoint (folder, prefix or .tar.gz), a TF-Hub
        SavedModel, a Hugging Face or KerasHub directory, hf://OWNER/NAME, or what this command wrote.
      destination: a new or empty folder.
      to: tf1 (for google-research/albert), huggingface, keras (a .keras file of ours) or kerashub.
      verify: compare the outputs of source and result on random input. --noverify leaves it out.
    """
    import_tensorflow()
    from albert_tf.pretrained.conversion import convert as convert_model

    result = convert_model(source, destination, to, verify=verify)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    for note in result.notes:
        console.print(f"note: {note}", markup=False)
    if result.comparison:
        console.print(result.comparison.sentence, markup=False)
    print(destination)
