"""The flags of `albert export` and their checks."""

from dataclasses import dataclass
from typing import Any, Literal

from data_prep.errors import InputError

KindName = Literal[
    "encoder",
    "preprocessor",
    "fill-mask",
    "embedding",
    "classifier",
    "question-answering",
    "multiple-choice",
    "token-classification",
]
RuntimeName = Literal["onnx", "litert"]
Precision = Literal["float32", "bfloat16"]
Quantization = Literal["none", "float16", "int8", "int8-static"]
Pooling = Literal["mean", "pooled"]


@dataclass(frozen=True)
class ExportSettings:
    """The flags of `albert export`.

    Attributes:
      model_dir: the folder of a pretraining or fine-tuning run (its --output_dir), a name that `albert models`
        lists, anything else that `albert convert` reads, or the .keras file of a fine-tuned model.
      output: a new folder, or an earlier export to replace.
      kind: encoder (ids to vectors, with the heads), preprocessor (text to the encoder's inputs), fill-mask (text
        with [MASK] to the best pieces) or embedding (text to one vector); for fine-tuned models classifier (texts
        to classes or a number), question-answering, multiple-choice or token-classification (text to labelled
        words).
      seq_length: for preprocessor: the length of its outputs, 128 by default.
      top_k: for fill-mask: the number of pieces for each mask, 5 by default.
      pooling: for embedding: the mean of all tokens' vectors (the default), or the pooled output.
      max_answer_length: for question-answering: in tokens, 30 by default.
      format: a SavedModel; onnx, for all kinds but preprocessor: a folder that runs on OpenVINO or ONNX Runtime,
        from text and without TensorFlow; or litert, for encoder and fine-tuned models: a model.tflite that takes
        ids.
      dtype: for SavedModels: bfloat16 halves the file and computes in bfloat16, which is faster on processors that
        support it.
      keep_padding: for SavedModels: compute padding too, so that all shapes follow from those of the inputs, as
        XLA and TPUs need.
      quantize: for onnx and litert: float16 halves the file; int8 quarters it and multiplies in 8 bits. For onnx,
        int8-static also keeps activations in 8 bits, calibrated on --eval_file: the fastest on OpenVINO.
      eval_file: for onnx and litert: measures what is lost, for an encoder as masked-LM accuracy on pretraining
        examples, for a fine-tuned model as its task's metric on a file like its --dev_file.
      max_loss: the most of the metric that the file may lose, as a share of it; more is refused. Default: 0.01 for
        int8-static, no limit for the others.
    """

    model_dir: str
    output: str
    kind: KindName = "encoder"
    seq_length: int | None = None
    top_k: int | None = None
    pooling: Pooling | None = None
    max_answer_length: int | None = None
    format: Literal["savedmodel", RuntimeName] = "savedmodel"
    dtype: Precision = "float32"
    keep_padding: bool = False
    quantize: Quantization = "none"
    eval_file: str | None = None
    max_loss: float | None = None

    def __post_init__(self):
        if self.max_loss is not None and (self.eval_file is None or not 0 <= self.max_loss <= 1):
            raise InputError(
                f"--max_loss must be from 0 to 1 and needs --eval_file. Received {self.max_loss}, and "
                f"{self.eval_file or 'no --eval_file'}."
            )
        if self.quantize == "int8-static" and (self.format != "onnx" or not self.eval_file):
            raise InputError(
                "--quantize=int8-static needs --format=onnx and --eval_file, on which it is calibrated. Received "
                f"--format={self.format} and {self.eval_file or 'no --eval_file'}."
            )
        if self.format == "savedmodel":
            if self.quantize != "none" or self.eval_file:
                raise InputError("--quantize and --eval_file belong to --format=onnx and --format=litert.")
        elif self.dtype != "float32" or self.keep_padding:
            raise InputError(
                f"--format={self.format} supports neither --dtype nor --keep_padding. Use --quantize for smaller "
                "files."
            )

    @property
    def options(self) -> dict[str, Any]:
        """The given flags that belong to single kinds."""
        names = ("seq_length", "top_k", "pooling", "max_answer_length")
        return {name: value for name in names if (value := getattr(self, name)) is not None}
