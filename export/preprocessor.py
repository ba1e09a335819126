"""Text to the encoder's inputs, as a SavedModel with the interface of TF-Hub's text preprocessors.

texts --tokenize--> pieces --trim--> [CLS] a [SEP] b [SEP] --pad--> input_word_ids, input_mask, input_type_ids
"""

import numpy as np
import tensorflow as tf

from albert_tf.runtime.pretrained import Pretrained
from albert_tf.tasks.served import TEXT
from data_prep.errors import InputError, needs_extra
from data_prep.in_graph import GraphTokenizer, make_graph_tokenizer
from data_prep.tokenizers.vocabulary import Tokenizer
from export.savedmodel import Export
from export.text import text_export

_TEXT = "The captain sailed past 300 lighthouses, in 1987."
_EXAMPLE = """
import tensorflow as tf
import tensorflow_text  # registers the tokenizer's operations

preprocessor = tf.saved_model.load(".")
print(preprocessor(tf.constant(["The captain sailed past."]))["input_word_ids"][0, :8])
"""


class _Tokenize(tf.Module):
    """`preprocessor.tokenize`: an object that can be called and has a method."""

    def __init__(self, tokenizer: Tokenizer, graph: GraphTokenizer):
        super().__init__()
        self._graph = graph
        self._special_tokens = {
            "start_of_sequence_id": tokenizer.cls_id,
            "end_of_segment_id": tokenizer.sep_id,
            "padding_id": tokenizer.pad_id,
            "mask_id": tokenizer.mask_id,
            "vocab_size": tokenizer.vocab_size,
        }

    @tf.function(input_signature=[TEXT], autograph=False)
    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return self._graph.tokenize(texts)

    @tf.function(input_signature=[], autograph=False)
    def get_special_tokens_dict(self) -> dict[str, tf.Tensor]:
        return {name: tf.constant(i, tf.int32) for name, i in self._special_tokens.items()}


def build_preprocessor(pretrained: Pretrained, tokenizer: Tokenizer, seq_length: int = 128) -> Export:
    """The preprocessor of a model.

    The object is called with a batch of texts, string (B,), and returns `input_word_ids`, `input_mask` and
    `input_type_ids`, int32 (B, seq_length). `.tokenize(texts)` returns the pieces alone, RaggedTensor int32
    (B, (T)), without a dimension of words, as TF-Hub's other SentencePiece preprocessors do.
    `.bert_pack_inputs(segments, seq_length)` makes the three arrays from one or two such tensors; if two are too
    long together, the longer one is cut first. `.tokenize.get_special_tokens_dict()` returns the symbols' ids.

    Args:
      pretrained: the model.
      tokenizer: the tokenizer that the preprocessor equals on every text.
      seq_length: the length that `__call__` returns, including [CLS] and [SEP], and the default of
        `bert_pack_inputs`.

    Raises:
      InputError: the model has no positions for `seq_length`.
    """
    longest = pretrained.config.max_position_embeddings
    if not 3 <= seq_length <= longest:
        raise InputError(
            f"--seq_length must be from 3 to the model's `max_position_embeddings`, {longest}. "
            f"Received {seq_length}."
        )

    def bert_pack_inputs(inputs, seq_length=seq_length):
        return _pack_segments(inputs, tokenizer, seq_length)

    root = tf.train.Checkpoint()
    root.tokenize = _Tokenize(tokenizer, make_graph_tokenizer(tokenizer))
    root.bert_pack_inputs = tf.function(bert_pack_inputs, autograph=False)
    for ragged_rank in (1, 2):  # (B, (T)), and (B, (words), (pieces)) as BERT's tokenizers give
        segment = tf.RaggedTensorSpec([None] * (ragged_rank + 1), tf.int32, ragged_rank)
        for segments in (1, 2):
            root.bert_pack_inputs.get_concrete_function([segment] * segments, tf.TensorSpec([], tf.int32))

    def preprocess(texts):
        packed = _pack_segments([root.tokenize(texts)], tokenizer, seq_length)
        return {name: tf.ensure_shape(array, [None, seq_length]) for name, array in packed.items()}

    def check(loaded):
        ids = tokenizer.encode(_TEXT)[: seq_length - 2]
        ours = np.array([[tokenizer.cls_id, *ids, tokenizer.sep_id]])
        theirs = loaded(tf.constant([_TEXT]))["input_word_ids"][:, : ours.shape[1]]
        return {"input_word_ids": (theirs, ours)}

    methods = {"serving_default": (preprocess, [TEXT])}
    return text_export(root, methods, check, _EXAMPLE, [{"text": [_TEXT]}])


def _pack_segments(segments, tokenizer: Tokenizer, seq_length) -> dict[str, tf.Tensor]:
    """[CLS] a [SEP] or [CLS] a [SEP] b [SEP] of each example.

    Args:
      segments: one or two RaggedTensors of integers, (B, (T)) or (B, (words), (pieces)).
      tokenizer: has the symbols.
      seq_length: the length to which each row is cut and padded, including the symbols.

    Returns:
      `input_word_ids`, `input_mask` and `input_type_ids`, int32 (B, seq_length).
    """
    with needs_extra("Packing segments in the graph", "tensorflow-text", "text"):
        import tensorflow_text as tf_text

    flat = [tf.cast(s.merge_dims(1, -1) if s.ragged_rank > 1 else s, tf.int32) for s in segments]
    room = seq_length - (len(flat) + 1)
    trimmed = tf_text.RoundRobinTrimmer(room).trim(flat)
    ids, types = tf_text.combine_segments(trimmed, tokenizer.cls_id, tokenizer.sep_id)
    ids, mask = tf_text.pad_model_inputs(ids, seq_length, tokenizer.pad_id)
    types, _ = tf_text.pad_model_inputs(types, seq_length)
    arrays = {"input_word_ids": ids, "input_mask": mask, "input_type_ids": types}
    return {name: tf.cast(array, tf.int32) for name, array in arrays.items()}
