"""The one table of parameter names: ours, TF1's, Hugging Face's, KerasHub's, Model Garden's, and .keras files'.

V vocabulary, E embedding, H hidden, F feed-forward, N heads, D = H / N, T positions, S token types.
"""

from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from albert_tf.config import AlbertConfig
from albert_tf.parameters import distinct_layers

Naming = Literal["ours", "tf1", "huggingface", "kerashub", "garden", "keras"]
Writable = Literal["tf1", "huggingface", "keras", "kerashub"]
FileDtype = Literal["float32", "float16", "bfloat16"]  # of a Hugging Face file
# Parts that a file may lack: Hugging Face's masked-LM model has no pooler, TF-Hub's no sentence-order head.
OptionalPart = Literal["pooler", "masked_lm", "sentence_order"]
OPTIONAL_PARTS: tuple[OptionalPart, ...] = get_args(OptionalPart)
# KerasHub's presets hold heads in a second file, whose names get this prefix here.
KERASHUB_TASK = "task/"
PROJECTION = "embeddings/embedding_projection"


class LayerNames(NamedTuple):
    """One layer: the kind of its parameters, its size (inputs and outputs), and its name in each format.

    Kinds: "table" an embedding; "norm" a LayerNorm; "dense" a kernel and a bias; "split" a dense layer whose
    outputs are heads, "merge" one whose inputs are; "logits" a dense layer that TF1 stores by outputs; "bias";
    "kernel" a dense layer without a bias. In .keras files of a pretrainer
    or a task model the encoder's names begin with "encoder/"; the names of a head are those inside its layer.
    """

    kind: str
    size: str
    ours: str
    tf1: str
    huggingface: str
    kerashub: str = ""
    garden: str = ""
    keras: str = ""


HeadPart = Literal["sequence_head", "token_head", "span_head", "conditional_span_head", "vector_head"]


class HeadSize(NamedTuple):
    """Which of `HEADS` a fine-tuned model has, and the number of its outputs, C."""

    part: HeadPart
    outputs: int


class Use(NamedTuple):
    """What a head's outputs are, in Hugging Face's words.

    Attributes:
      architecture: the class of the model, without AlbertFor.
      problem: the `problem_type` of a sequence classifier.
    """

    architecture: str
    problem: str = ""

    @property
    def pipeline(self) -> str:
        """The Hub's name of the task."""
        return _PIPELINES[self.architecture]


_PIPELINES = {
    "SequenceClassification": "text-classification",
    "MultipleChoice": "multiple-choice",
    "QuestionAnswering": "question-answering",
    "TokenClassification": "token-classification",
}
CLASSES = Use("SequenceClassification", "single_label_classification")
LABEL_SETS = Use("SequenceClassification", "multi_label_classification")
NUMBERS = Use("SequenceClassification", "regression")
OPTIONS = Use("MultipleChoice")
ANSWERS = Use("QuestionAnswering")
WORD_CLASSES = Use("TokenClassification")


_EMBEDDINGS = (
    LayerNames(
        "table", "VE", "embeddings/word_embeddings", "bert/embeddings/word_embeddings",
        "albert.embeddings.word_embeddings", "layers/reversible_embedding", "word_embeddings", "embeddings/vars/0",
    ),
    LayerNames(
        "table", "TE", "embeddings/position_embeddings", "bert/embeddings/position_embeddings",
        "albert.embeddings.position_embeddings", "layers/position_embedding", "position_embedding",
        "embeddings/vars/1",
    ),
    LayerNames(
        "table", "SE", "embeddings/token_type_embeddings", "bert/embeddings/token_type_embeddings",
        "albert.embeddings.token_type_embeddings", "layers/embedding", "type_embeddings", "embeddings/vars/2",
    ),
    LayerNames(
        "norm", "E", "embeddings/layer_norm", "bert/embeddings/LayerNorm",
        "albert.embeddings.LayerNorm", "layers/layer_normalization", "embeddings/layer_norm",
        "embeddings/layer_norm",
    ),
    LayerNames(
        "dense", "EH", PROJECTION, "bert/encoder/embedding_hidden_mapping_in",
        "albert.encoder.embedding_hidden_mapping_in", "layers/dense", "embedding_projection",
        "embeddings/projection",
    ),
)  # fmt: skip
# {a}, {f}: our attention and feed-forward part; {g}, {i}: group and block inside it; {n}: KerasHub's count. Keras
# writes {a_}, {f_} and {i_}, such as _1, but not _0.
_TF1 = "bert/encoder/transformer/group_{g}/inner_group_{i}"
_HF = "albert.encoder.albert_layer_groups.{g}.albert_layers.{i}"
_KERASHUB = "layers/transformer_encoder{n}"
_KERAS_ATTENTION = "attentions/container{a_}/self_attention{i_}"
_KERAS_FFN = "ffns/container{f_}/feed_forward{i_}"
_BLOCK = (
    LayerNames(
        "split", "HH", "attention_{a}_{i}/query", f"{_TF1}/attention_1/self/query", f"{_HF}.attention.query",
        f"{_KERASHUB}/_self_attention_layer/query_dense", "transformer/self_attention/query",
        f"{_KERAS_ATTENTION}/query",
    ),
    LayerNames(
        "split", "HH", "attention_{a}_{i}/key", f"{_TF1}/attention_1/self/key", f"{_HF}.attention.key",
        f"{_KERASHUB}/_self_attention_layer/key_dense", "transformer/self_attention/key",
        f"{_KERAS_ATTENTION}/key",
    ),
    LayerNames(
        "split", "HH", "attention_{a}_{i}/value", f"{_TF1}/attention_1/self/value", f"{_HF}.attention.value",
        f"{_KERASHUB}/_self_attention_layer/value_dense", "transformer/self_attention/value",
        f"{_KERAS_ATTENTION}/value",
    ),
    LayerNames(
        "merge", "HH", "attention_{a}_{i}/output", f"{_TF1}/attention_1/output/dense", f"{_HF}.attention.dense",
        f"{_KERASHUB}/_self_attention_layer/output_dense", "transformer/self_attention/attention_output",
        f"{_KERAS_ATTENTION}/output_dense",
    ),
    LayerNames(
        "norm", "H", "attention_{a}_{i}/layer_norm", f"{_TF1}/LayerNorm", f"{_HF}.attention.LayerNorm",
        f"{_KERASHUB}/_self_attention_layer_norm", "transformer/self_attention_layer_norm",
        f"{_KERAS_ATTENTION}/layer_norm",
    ),
    LayerNames(
        "dense", "HF", "ffn_{f}_{i}/intermediate", f"{_TF1}/ffn_1/intermediate/dense", f"{_HF}.ffn",
        f"{_KERASHUB}/_feedforward_intermediate_dense", "transformer/intermediate",
        f"{_KERAS_FFN}/intermediate",
    ),
    LayerNames(
        "dense", "FH", "ffn_{f}_{i}/output", f"{_TF1}/ffn_1/intermediate/output/dense", f"{_HF}.ffn_output",
        f"{_KERASHUB}/_feedforward_output_dense", "transformer/output",
        f"{_KERAS_FFN}/output_dense",
    ),
    LayerNames(
        "norm", "H", "ffn_{f}_{i}/layer_norm", f"{_TF1}/LayerNorm_1", f"{_HF}.full_layer_layer_norm",
        f"{_KERASHUB}/_feedforward_layer_norm", "transformer/output_layer_norm",
        f"{_KERAS_FFN}/layer_norm",
    ),
)  # fmt: skip
_POOLER_AND_HEADS = (
    LayerNames(
        "dense", "HH", "pooler", "bert/pooler/dense", "albert.pooler", "layers/dense_1", "pooler_transform",
        "layers/dense",
    ),
    LayerNames(
        "dense", "HE", "masked_lm/transform", "cls/predictions/transform/dense", "predictions.dense",
        f"{KERASHUB_TASK}layers/masked_lm_head/_intermediate_dense",
        garden="bert/cls/predictions/transform/dense", keras="layers/masked_lm_head/transform",
    ),
    LayerNames(
        "norm", "E", "masked_lm/layer_norm", "cls/predictions/transform/LayerNorm", "predictions.LayerNorm",
        f"{KERASHUB_TASK}layers/masked_lm_head/_intermediate_layer_norm",
        garden="bert/cls/predictions/transform/LayerNorm", keras="layers/masked_lm_head/layer_norm",
    ),
    LayerNames(
        "bias", "V", "masked_lm/output_bias", "cls/predictions/output_bias", "predictions.bias",
        f"{KERASHUB_TASK}layers/masked_lm_head",
        garden="bert/cls/predictions/output_bias/bias", keras="layers/masked_lm_head",
    ),
    LayerNames(
        "logits", "H2", "sentence_order/classifier", "cls/seq_relationship/output", "sop_classifier.classifier",
        keras="layers/sentence_order_head/classifier",
    ),
)  # fmt: skip
# The heads of fine-tuned models, of which a file has one at most.
SEQUENCE_HEAD: HeadPart = "sequence_head"  # reads the pooled output
TOKEN_HEAD: HeadPart = "token_head"  # reads each token
SPAN_HEAD: HeadPart = "span_head"  # of SQuAD 1.1
CONDITIONAL_SPAN_HEAD: HeadPart = "conditional_span_head"  # of SQuAD 2.0
VECTOR_HEAD: HeadPart = "vector_head"  # what makes one vector of a text: `StoredModel.sentence_vectors`
HEADS: dict[HeadPart, tuple[LayerNames, ...]] = {
    SEQUENCE_HEAD: (
        LayerNames(
            "logits",
            "HC",
            SEQUENCE_HEAD,
            "output",
            "classifier",
            f"{KERASHUB_TASK}layers/dense",
            keras="output_dense",
        ),
    ),
    TOKEN_HEAD: (LayerNames("logits", "HC", TOKEN_HEAD, "", "classifier", keras="output_dense"),),
    SPAN_HEAD: (
        LayerNames("logits", "H2", SPAN_HEAD, "cls/squad/output", "qa_outputs", keras="scores/output_dense"),
    ),
    # The layers that read two vectors have the rows of the first vector first.
    CONDITIONAL_SPAN_HEAD: tuple(
        LayerNames(kind, size, f"{CONDITIONAL_SPAN_HEAD}/{ours}", tf1, "", keras=keras)
        for kind, size, ours, tf1, keras in (
            ("dense", "H1", "start", "start_logits/dense", "start/output_dense"),
            ("dense", "DH", "end_hidden", "end_logits/dense_0", "end_token"),
            ("norm", "H", "end_norm", "end_logits/LayerNorm", "layer_norm"),
            ("dense", "H1", "end", "end_logits/dense_1", "end/output_dense"),
            ("dense", "DH", "answer_hidden", "answer_class/dense_0", "answerable"),
            ("kernel", "H1", "unanswerable", "answer_class/dense_1", "answerable_output"),
        )
    ),
    VECTOR_HEAD: (),
}

_KERAS = {"table": "", "norm": "/gamma /beta", "dense": "/kernel /bias", "bias": "", "kernel": "/kernel"}
_SUFFIXES = {
    "ours": _KERAS,
    "tf1": {**_KERAS, "logits": "_weights _bias"},
    "huggingface": {"table": ".weight", "norm": ".weight .bias", "dense": ".weight .bias", "bias": ""},
    "kerashub": {"table": "/vars/0", "norm": "/vars/0 /vars/1", "dense": "/vars/0 /vars/1"},
    "garden": {**_KERAS, "table": "/embeddings"},
    "keras": {"table": "", "dense": "/vars/0 /vars/1"},
}
# Which kernels a format stores as [outputs, inputs].
_TRANSPOSED = {"tf1": ("logits",), "huggingface": ("dense", "split", "merge", "logits")}
_BY_HEADS = ("kerashub", "garden")  # kernels of attention have N and D as two dimensions
_ALWAYS_PROJECTED = ("huggingface", "kerashub")  # have a projection where E == H, too


@dataclass(frozen=True)
class Parameter:
    """One array under two names.

    Attributes:
      ours: our name: the variable's path without the model's name.
      theirs: the name in the other format.
      part: "encoder", or one of `OPTIONAL_PARTS` or `HEADS`.
      shape: the shape of our array.
      their_shape: the shape of the other format's array.
      transposed: whether theirs is ours transposed; otherwise both hold the same numbers in the same order.
    """

    ours: str
    theirs: str
    part: str
    shape: tuple[int, ...]
    their_shape: tuple[int, ...]
    transposed: bool


def parameters(config: AlbertConfig, naming: Naming, head: HeadSize | None = None) -> list[Parameter]:
    """Every parameter of a model, with those of its head, that has a name in a format.

    Formats that only have groups get one group for each layer if `parameter_sharing` is not "all": parameters
    that layers share are then listed once for each of them.
    """
    rows = (*_rows(config, naming), *(HEADS[head.part] if head else ()))
    outputs = head.outputs if head else 0
    return [parameter for row in rows for parameter in _parameters(row, config, naming, outputs)]


def heads_in(names: Container[str], config: AlbertConfig, naming: Naming) -> dict[HeadPart, list[str]]:
    """Those of `HEADS` that have a parameter among a file's names, and these names."""
    found = {
        part: [
            row.theirs
            for layer in layers
            for row in _parameters(layer, config, naming, 1)
            if row.theirs in names
        ]
        for part, layers in HEADS.items()
    }
    return {part: theirs for part, theirs in found.items() if theirs}


def as_groups(config: AlbertConfig) -> AlbertConfig:
    """The configuration of the same model for formats that have groups but no `parameter_sharing`."""
    if config.parameter_sharing == "all":
        return config
    values = {**config.to_dict(), "parameter_sharing": "all", "num_hidden_groups": config.num_hidden_layers}
    return AlbertConfig.from_dict(values)


def _rows(config: AlbertConfig, naming: Naming) -> Iterator[LayerNames]:
    for row in _EMBEDDINGS:
        is_absent = row.ours == PROJECTION and config.embedding_size == config.hidden_size
        if not is_absent or naming in _ALWAYS_PROJECTED:
            yield row
    attentions, ffns = distinct_layers(config)
    groups = as_groups(config).num_hidden_groups
    for g in range(groups):
        for i in range(config.inner_group_num):
            count = g * config.inner_group_num + i
            numbers = {
                "g": g,
                "i": i,
                "a": g * attentions // groups,
                "f": g * ffns // groups,
                "n": f"_{count}" if count else "",
            }
            numbers |= {f"{name}_": f"_{numbers[name]}" if numbers[name] else "" for name in "afi"}
            for row in _BLOCK:
                yield LayerNames(row.kind, row.size, *(name.format(**numbers) for name in row[2:]))
    yield from _POOLER_AND_HEADS


def _parameters(row: LayerNames, config: AlbertConfig, naming: Naming, outputs: int) -> Iterator[Parameter]:
    base = getattr(row, naming)
    if not base:
        return
    sizes = {
        "V": config.vocab_size,
        "T": config.max_position_embeddings,
        "S": config.type_vocab_size,
        "E": config.embedding_size,
        "H": config.hidden_size,
        "F": config.intermediate_size,
        "D": 2 * config.hidden_size,
        "C": outputs,
        "1": 1,
        "2": 2,
    }
    kernel = tuple(sizes[letter] for letter in row.size)
    # The second is a bias, gamma or beta; a table or a bias alone has only the first.
    shapes = (kernel, kernel[-1:])
    head = row.ours.split("/")[0]
    part = head if head in OPTIONAL_PARTS or head in HEADS else "encoder"
    for mine, suffix, shape in zip(
        _suffixes("ours", row.kind), _suffixes(naming, row.kind), shapes, strict=False
    ):
        transposed = len(shape) == 2 and row.kind in _TRANSPOSED.get(naming, ())
        their_shape = shape[::-1] if transposed else _by_heads(row.kind, shape, config, naming)
        yield Parameter(row.ours + mine, base + suffix, part, shape, their_shape, transposed)


def _suffixes(naming: str, kind: str) -> list[str]:
    suffixes = _SUFFIXES[naming]
    return suffixes.get(kind, suffixes["dense"]).split(" ")


def _by_heads(kind: str, shape: tuple[int, ...], config: AlbertConfig, naming: Naming) -> tuple[int, ...]:
    if naming not in _BY_HEADS:
        return shape
    heads = (config.num_attention_heads, config.hidden_size // config.num_attention_heads)
    if kind == "split":
        return (*shape[:-1], *heads)
    if kind == "merge" and len(shape) == 2:
        return (*heads, shape[-1])
    return shape
