"""Sets the weights that pretraining starts from, from files in any format."""

import re
from collections.abc import Mapping
from pathlib import Path

import keras
import numpy as np

from albert_tf.checkpoints.longer_vocabulary import with_vocabulary
from albert_tf.checkpoints.open_model import check_same_model, named_files, open_model
from albert_tf.checkpoints.runs import is_run, read_run_config, read_run_vocabulary
from albert_tf.checkpoints.tf1 import read_moments
from albert_tf.config import ResizePositions
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.model.weights import variables_by_name
from albert_tf.optimizers import AdamW
from albert_tf.training.weights import assign, load_weights
from data_prep.errors import InputError
from data_prep.examples.manifest import VocabularyFacts
from data_prep.tokenizers.vocabulary import Vocabulary, read_normalization

_PART = re.compile(r"\b(attention|ffn)_\d+_")  # the parts of a group, or of a layer
# Fields that neither the names nor the shapes of weights reveal.
_UNSEEN = ("num_attention_heads", "hidden_act", "layer_norm_epsilon")
_WITHOUT_NORMALIZATION = ("tf1", "kerashub", "garden")  # unless a file is beside the vocabulary


def load_weights_into(
    model: AlbertPretrainer,
    source: str | Path,
    *,
    resize_positions: ResizePositions = False,
    optimizer: AdamW | None = None,
    vocabulary: VocabularyFacts | None = None,
    init_from_group0: bool = False,
) -> tuple[str, ...]:
    """Sets a model's weights from anything that `load_pretrained` reads, for instance under the devices' scope.

    Args:
      model: has the same shape and mathematics. Its dropout may differ, and if all layers share their
        parameters, the number of layers too.
      source: as for `load_pretrained`.
      resize_positions: if the position tables differ in length, how to fill a longer one: True or "tile" repeats
        the learned rows, "fresh" keeps the model's initial values.
      optimizer: built for the model; receives the moments and the step count, which our runs and TF1 checkpoints
        may hold.
      vocabulary: the vocabulary of the training examples; refused if the source has another one, unless it has
        the source's pieces and more (`with_vocabulary`).
      init_from_group0: groups of layers that `source` does not hold become copies of its first group.

    Returns:
      Which of "pooler", "masked_lm" and "sentence_order" `source` does not hold; the model keeps its own.

    Raises:
      InputError: `source` cannot be read, or holds another model or optimizer; the model is then unchanged.
    """
    may_differ = {"max_position_embeddings"} if resize_positions else set()
    if model.config.parameter_sharing == "all" and model.config.num_hidden_groups == 1:
        may_differ.add("num_hidden_layers")  # any number of layers has the same weights
    if init_from_group0:
        may_differ |= {"num_hidden_layers", "num_hidden_groups", "parameter_sharing"}
    with named_files(source) as path:
        own = read_run_vocabulary(path) if is_run(path) else None
        if is_run(path) and not init_from_group0 and not _is_longer(vocabulary, own):
            _check_same_vocabulary(own, vocabulary, source)
            if found := read_run_config(path):
                check_same_model(found, model.config, source, found.to_dict().keys() - _UNSEEN)
            load_weights(model, path, resize_positions=resize_positions, optimizer=optimizer)
            return ()
        stored = open_model(path, model.config, {*may_differ, "vocab_size"})
        own, is_known = stored.vocabulary, stored.format not in _WITHOUT_NORMALIZATION
        has_normalization = own and (is_known or read_normalization(own.file))
        _check_same_vocabulary(own, vocabulary, source, has_normalization=bool(has_normalization))
        if vocabulary and _is_longer(vocabulary, own):
            if optimizer is not None:
                raise InputError(
                    "--init_optimizer needs a model with the vocabulary of the examples, since new pieces have no "
                    f"moments. {vocabulary.file} has more pieces than {source}; leave the flag out."
                )
            stored = with_vocabulary(stored, vocabulary.read())
        check_same_model(stored.config, model.config, source, may_differ)
        if optimizer is not None and stored.format != "tf1":
            raise InputError(
                "--init_optimizer needs a pretraining run, a checkpoint in it or a TF1 checkpoint. Received "
                f"{source}, which has no moments for this optimizer; leave the flag out."
            )
        moments = read_moments(stored.path, stored.config) if optimizer is not None else None

    variables = variables_by_name(model)
    _assign_all(variables, stored.weights, resize_positions, init_from_group0)
    if optimizer is not None and moments is not None:
        slots = {name: optimizer.moments_of(variable) for name, variable in variables.items()}
        for i, arrays in enumerate((moments.m, moments.v)):
            slot = {name: pair[i] for name, pair in slots.items()}
            _assign_all(slot, arrays, resize_positions, init_from_group0)
        optimizer.iterations.assign(moments.step)
    return stored.missing


def _assign_all(
    variables: Mapping[str, keras.Variable],
    arrays: Mapping[str, np.ndarray],
    resize_positions: ResizePositions,
    init_from_group0: bool,
) -> None:
    for name, variable in variables.items():
        array = arrays.get(name)
        if array is None and init_from_group0:
            array = arrays.get(_PART.sub(r"\1_0_", name))
        if array is not None:
            assign(variable, array, resize_positions)


def _is_longer(prepared_with: VocabularyFacts | None, own: Vocabulary | None) -> bool:
    """Whether the examples' vocabulary is another one than the model's, with more pieces."""
    if own is None or prepared_with is None or own.sha256 == prepared_with.sha256:
        return False
    return prepared_with.size > own.count_pieces()


def _check_same_vocabulary(
    own: Vocabulary | None,
    prepared_with: VocabularyFacts | None,
    source: str | Path,
    *,
    has_normalization: bool = True,
) -> None:
    """Raises InputError if the examples lack pieces of the model's vocabulary, or its normalization."""
    if own is None or prepared_with is None:
        return
    if own.sha256 != prepared_with.sha256 and not _has_pieces_of(own, prepared_with):
        raise InputError(
            "A model must be trained on examples that were prepared with its own vocabulary, or with a longer one "
            f"of `albert vocab --extend`. {source} has another one than {prepared_with.file}; prepare them again "
            "with the model's."
        )
    if has_normalization and own.normalization != prepared_with.normalization:
        raise InputError(
            f"A model must be trained on text that is normalized as its vocabulary was. {source} has "
            f"{own.normalization}; the examples were prepared with {prepared_with.normalization}. Prepare them "
            "again."
        )


def _has_pieces_of(own: Vocabulary, prepared_with: VocabularyFacts) -> bool:
    """Whether another vocabulary has the same pieces, or begins with them, as far as this can be known."""
    if not Path(prepared_with.file).is_file():
        return own.count_pieces() == prepared_with.size
    pieces = own.tokenizer().pieces
    return prepared_with.read().tokenizer().pieces[: len(pieces)] == pieces
