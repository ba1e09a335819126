"""What each kind of export computes in runtimes other than TensorFlow: functions of ids, with their outputs."""

from collections.abc import Callable
from functools import partial

import numpy as np
import tensorflow as tf

from albert_tf.conversion.verification import random_inputs
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.runtime.portable_inputs import MASKED_POSITIONS, TEXT_INPUTS, from_hub_names, to_hub_names
from albert_tf.runtime.pretrained import Pretrained
from albert_tf.tasks.choice.model import MultipleChoice
from albert_tf.tasks.spans.model import QuestionAnswering
from albert_tf.tasks.task_model import TaskModel
from albert_tf.tasks.texts.model import MultiLabelClassifier, TextClassifier, TextRegressor
from albert_tf.tasks.words.model import TokenClassifier
from export.embedding import check_pooling, mean_of_tokens
from export.fill_mask import check_fill_mask
from export.portable import Portable, at_least_masked
from export.question_answering import check_answer_length, window_outputs
from export.savedmodel import function_of_ids
from export.settings import Pooling


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


def portable_embedding(pretrained: Pretrained, pooling: Pooling = "mean") -> Portable:
    """The encoder with `embedding` (B, H), as `build_embedding`."""
    check_pooling(pretrained, pooling)
    model = pretrained.model

    def embed(inputs):
        batch = from_hub_names(inputs)
        outputs = model.encoder(batch, training=False)
        mean = mean_of_tokens(outputs, batch["input_mask"])
        return {"embedding": outputs["pooled_output"] if pooling == "pooled" else mean}

    sample = _sample(model)
    del sample[MASKED_POSITIONS]
    return Portable(
        model, {"serving_default": function_of_ids(embed, TEXT_INPUTS)}, {"embedding": "B, H"}, sample
    )


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


def portable_classifier(model: TextClassifier | TextRegressor | TokenClassifier | MultipleChoice) -> Portable:
    """A fine-tuned model with one output for each class, or one number.

    It returns `probabilities` and `logits`, (B, C) for the classes of a text or the options of a question, or
    (B, T, C) for the classes of tokens; a regressor returns `score` (B,). The probabilities are those of a
    softmax, of several labels for a text those of sigmoids. The inputs are (B, T), for options (B, C, T).
    """
    probabilities = tf.sigmoid if isinstance(model, MultiLabelClassifier) else tf.nn.softmax

    def classify(inputs):
        outputs = model(from_hub_names(inputs), training=False)
        if isinstance(model, TextRegressor):
            return {"score": outputs}
        return {"probabilities": probabilities(outputs), "logits": at_least_masked(outputs)}

    if isinstance(model, TextRegressor):
        return _task(model, classify, {"score": "B"})
    shape = "B, T, C" if model.has_token_outputs else "B, C"
    portable = partial(_task, model, classify, dict.fromkeys(("probabilities", "logits"), shape))
    if not isinstance(model, MultipleChoice):
        return portable()
    options = [_sample(model, seed) for seed in range(3)]
    sample = {name: np.stack([option[name] for option in options], axis=1) for name in TEXT_INPUTS}
    sample["input_mask"][0, -1] = 0  # one question has an option less
    ids = "[[[2, 13, 1, 9, 3], [2, 13, 1, 7, 3]]]"
    return portable(sample, dimensions="B, C, T", example_ids=ids)


def portable_question_answering(model: QuestionAnswering, max_answer_length: int = 30) -> Portable:
    """A fine-tuned model, which finds answers in [CLS] question [SEP] context [SEP].

    It returns what `window_outputs` does.
    """

    check_answer_length(max_answer_length)

    def answer(inputs):
        return window_outputs(partial(model, training=False), from_hub_names(inputs))

    sample = _sample(model)
    places = np.arange(sample["input_mask"].shape[1])
    sample["input_type_ids"] = ((places >= 3) & (sample["input_mask"] > 0)).astype("int32")
    outputs = {"start_logits": "B, T", "end_logits": "B, T"}
    if model.answerable:
        outputs = {
            "answerable_logits": "B",
            "start_top_log_probs": "B, K",
            "start_top_index": "B, K",
            "end_top_log_probs": "B, K*K",
            "end_top_index": "B, K*K",
        }
    ids, types = "[[2, 13, 3, 7, 9, 1, 3]]", 'np.array([[0, 0, 0, 1, 1, 1, 1]], "int32")'
    options = {"max_answer_length": max_answer_length}
    return _task(model, answer, outputs, sample, options=options, example_ids=ids, example_types=types)


def _task(model: TaskModel, function: Callable, outputs: dict[str, str], sample=None, **options) -> Portable:
    """A task model as one function; its sample is random unless given."""
    functions = {"serving_default": function_of_ids(function, TEXT_INPUTS, model.input_rank)}
    if sample is None:
        sample = _sample(model)
    return Portable(model, functions, outputs, {name: sample[name] for name in TEXT_INPUTS}, **options)


def _sample(model: TaskModel | AlbertPretrainer, seed: int = 0) -> dict[str, np.ndarray]:
    return to_hub_names(random_inputs(model.encoder.config, seed))
