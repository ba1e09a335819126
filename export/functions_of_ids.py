"""What exports compute in runtimes other than TensorFlow: functions of ids, with their outputs."""

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints.sentence_vectors import Pooling
from albert_tf.model.inputs import random_inputs
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.model.sentence_vectors import sentence_vectors
from albert_tf.runtime.pretrained import Pretrained
from albert_tf.tasks.hub_names import MASKED_POSITIONS, TEXT_INPUTS, from_hub_names, to_hub_names
from albert_tf.tasks.kinds import find_kind
from albert_tf.tasks.served import random_ids
from albert_tf.tasks.task_model import TaskModel
from export.embedding import with_pooling
from export.fill_mask import check_fill_mask
from export.portable import Portable
from export.savedmodel import function_of_ids


def portable_encoder(pretrained: Pretrained) -> Portable:
    """The encoder with its heads: `serving_default`, and with a masked-LM head `mlm`.

    Both return `sequence_output` (B, T, H), and `pooled_output` (B, H) and `sop_logits` (B, 2) if the source holds
    these parts; `mlm` also takes `masked_lm_positions` (B, P) and returns `mlm_logits` (B, P, V). P may be 0.
    """
    model, parts = pretrained.model, pretrained.parts

    def encode(inputs):
        outputs = model.encoder(from_hub_names(inputs))
        arrays = {"sequence_output": outputs["sequence_output"]}
        if "pooler" in parts:
            arrays["pooled_output"] = outputs["pooled_output"]
            if "sentence_order" in parts:
                arrays["sop_logits"] = model.sentence_order(outputs["pooled_output"])
        if MASKED_POSITIONS in inputs:
            table = model.encoder.embeddings.word_embeddings
            arrays["mlm_logits"] = model.masked_lm(
                outputs["sequence_output"], inputs[MASKED_POSITIONS], table
            )
        return arrays

    outputs, sample = {"sequence_output": "B, T, H"}, _sample(model)
    if "pooler" in parts:
        outputs["pooled_output"] = "B, H"
        if "sentence_order" in parts:
            outputs["sop_logits"] = "B, 2"
    functions = {"serving_default": function_of_ids(encode, TEXT_INPUTS)}
    if "masked_lm" in parts:
        functions["mlm"] = function_of_ids(encode, (*TEXT_INPUTS, MASKED_POSITIONS))
        outputs["mlm_logits"] = "B, P, V"
    else:
        del sample[MASKED_POSITIONS]
    return Portable(model, functions, outputs, sample)


def portable_embedding(pretrained: Pretrained, pooling: Pooling | None = None) -> Portable:
    """The encoder with `embedding` (B, D), as `build_embedding`."""
    pretrained = with_pooling(pretrained, pooling)
    model, how = pretrained.model, pretrained.sentence_vectors

    def embed(inputs):
        batch = from_hub_names(inputs)
        return {"embedding": sentence_vectors(model.encoder(batch, training=False), batch["input_mask"], how)}

    sample = _sample(model)
    del sample[MASKED_POSITIONS]
    functions = {"serving_default": function_of_ids(embed, TEXT_INPUTS)}
    options = {"max_seq_length": pretrained.longest_text, "vector_size": pretrained.vector_size}
    return Portable(model, functions, {"embedding": "B, D"}, sample, options)


def portable_fill_mask(pretrained: Pretrained, top_k: int = 5) -> Portable:
    """The encoder with the masked-LM head: `ids` and `probabilities` (B, P, K) of each mask's best pieces."""
    assert pretrained.vocabulary is not None, "the kind takes text"
    V = pretrained.vocabulary.count_pieces()
    check_fill_mask(pretrained, V, top_k)
    model = pretrained.model

    def best_pieces(inputs):
        hidden = model.encoder(from_hub_names(inputs), training=False)["sequence_output"]
        logits = model.masked_lm(hidden, inputs[MASKED_POSITIONS], model.encoder.embeddings.word_embeddings)
        # The model may have more embeddings than the vocabulary has pieces.
        best, ids = tf.math.top_k(tf.nn.softmax(logits)[..., :V], top_k)
        return {"ids": ids, "probabilities": best}

    functions = {"serving_default": function_of_ids(best_pieces, (*TEXT_INPUTS, MASKED_POSITIONS))}
    outputs = dict.fromkeys(("ids", "probabilities"), "B, P, K")
    return Portable(model, functions, outputs, _sample(model), {"top_k": top_k})


def task_function(model: TaskModel, **options: int) -> Portable:
    """A fine-tuned model, as its kind serves it from ids."""
    kind = find_kind(model.kind)
    served = kind.from_ids(model, **options)
    return Portable(
        model,
        {"serving_default": function_of_ids(served.function, TEXT_INPUTS, model.input_rank)},
        dict(kind.outputs_of(getattr(model, "answerable", False))),
        dict(served.sample or random_ids(model)),
        served.options,
        served.dimensions,
        served.example_ids,
        served.example_types,
    )


def _sample(model: AlbertPretrainer) -> dict[str, np.ndarray]:
    return to_hub_names(random_inputs(model.encoder.config, 0))
