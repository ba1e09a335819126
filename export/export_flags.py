"""The flags of `albert export` and their checks."""

from dataclasses import dataclass
from typing import Any, Literal

from albert_tf.checkpoints.sentence_vectors import Pooling
from data_prep.errors import InputError

RuntimeName = Literal["onnx", "litert"]
Layout = Literal["albert_tf", "huggingface"]
Precision = Literal["float32", "bfloat16"]
Quantization = Literal["none", "float16", "int8", "int8-static"]


@dataclass(frozen=True)
class ExportSettings:
    """The flags of `albert export`.

    Attributes:
      model_dir: model to export: a fine-tuned model, a pretraining run or one of its checkpoints, a name from
        `albert models`, or any other source that `albert convert` reads.
      output: new folder to write, or an earlier export to replace; or its address.
      kind: what the exported model computes. "encoder": vectors from ids, with the pretraining heads;
        "preprocessor": the encoder's inputs from text; "fill-mask": the best pieces for each [MASK];
        "embedding": one vector per text. For fine-tuned models: "classifier" (classes or a number),
        "question-answering", "multiple-choice" or "token-classification" (labelled words). Default: what a
        fine-tuned model was trained for; "encoder" for a pretrained model.
      seq_length: length of the preprocessor's outputs, in tokens. Default: 128.
      top_k: number of pieces that fill-mask returns for each mask. Default: 5.
      pooling: how embedding makes one vector from those of the tokens: their "mean", that of [CLS] ("cls"), each
        element's "max", "weightedmean" by position, or the "pooled" output. Default: the model's; "mean" unless
        it comes with modules.json of sentence-transformers.
      max_answer_length: maximum length of an answer, in tokens. Default: 30.
      format: file format: a SavedModel; "onnx", a folder that answers from text on OpenVINO or ONNX Runtime
        without TensorFlow, for all kinds but preprocessor; or "litert", a model.tflite that takes ids, for
        phones, from an encoder or a fine-tuned model.
      layout: files of --format=onnx. "albert_tf": what `albert predict`, `albert embed` and `load_portable` read.
        "huggingface": onnx/model.onnx with Hugging Face's inputs and outputs, its configuration and tokenizer, as
        Transformers.js and optimum load them.
      dtype: precision of a SavedModel; bfloat16 halves the file and is faster on CPUs with AMX or AVX512-BF16.
      keep_padding: compute padding too in a SavedModel, so that all shapes follow from the inputs' shapes; XLA
        and TPUs need this.
      quantize: smaller numbers for onnx and litert. "float16" halves the file; "int8" reduces it to about a
        third and multiplies in 8 bits; "int8-static", for onnx only, also keeps activations in 8 bits, is
        calibrated on --eval_file, and is the fastest on OpenVINO.
      eval_file: data on which an onnx or litert file is compared with the original model: pretraining examples
        for a pretrained model's masked-LM accuracy or the cosine of its embeddings, or a file like --dev_file for
        a fine-tuned model's metric.
      max_loss: share of the metric on --eval_file that the file may lose; if it loses more, the export fails.
        Default: 0.01 for int8-static, no limit otherwise.
    """

    model_dir: str
    output: str
    kind: str | None = None
    seq_length: int | None = None
    top_k: int | None = None
    pooling: Pooling | None = None
    max_answer_length: int | None = None
    format: Literal["savedmodel", RuntimeName] = "savedmodel"
    layout: Layout = "albert_tf"
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
        check_calibration(self.quantize, self.format, self.eval_file)
        if self.layout == "huggingface" and (self.format != "onnx" or self.eval_file or self.options):
            raise InputError(
                "--layout=huggingface needs --format=onnx, and takes neither --eval_file nor a kind's options. "
                f"Received --format={self.format}, and {[*self.options, self.eval_file]}."
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
        """The flags that are set and belong to single kinds."""
        names = ("seq_length", "top_k", "pooling", "max_answer_length")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


def check_calibration(quantize: Quantization, format_name: str, eval_file: str | None) -> None:
    """Raises InputError if int8-static lacks data for calibration or the format for it."""
    if quantize == "int8-static" and (format_name != "onnx" or not eval_file):
        raise InputError(
            "--quantize=int8-static needs --format=onnx and --eval_file, on which it is calibrated. Received "
            f"--format={format_name} and {eval_file or 'no --eval_file'}."
        )
