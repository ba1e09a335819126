"""Loads pretrained weights: `load_pretrained` builds a model, `load_weights_into` sets an existing one."""

import dataclasses
import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import keras
import numpy as np

from albert_tf.checkpoints.heads import Head, choose_task, rename_classes
from albert_tf.checkpoints.names import OPTIONAL_PARTS, as_groups
from albert_tf.checkpoints.own import is_run, read_run_config, read_run_vocabulary
from albert_tf.checkpoints.recognition import named_files, read
from albert_tf.checkpoints.sources import NO_FLAGS, SourceFlags
from albert_tf.checkpoints.stored import StoredModel, check_vocabulary
from albert_tf.checkpoints.text_answers import embeddings, encoder_inputs, fill_masks
from albert_tf.checkpoints.tf1 import read_moments
from albert_tf.checkpoints.weights import variables_by_name
from albert_tf.config import AlbertConfig, ResizePositions
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.optimizers import AdamW
from albert_tf.tasks.task import TaskKind
from albert_tf.training.weights import assign, load_weights
from data_prep.errors import InputError
from data_prep.examples.manifest import VocabularyFacts
from data_prep.tokenizers.vocabulary import Tokenizer, Vocabulary, read_normalization

_PART = re.compile(r"\b(attention|ffn)_\d+_")  # the parts of a group, or of a layer
# May differ between a checkpoint and the model that takes its weights: they only matter in training.
_FREE = ("hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range")
# Neither names nor shapes of weights show these.
_UNSEEN = ("num_attention_heads", "hidden_act", "layer_norm_epsilon")
_WITHOUT_NORMALIZATION = ("tf1", "kerashub", "garden")  # unless a file is beside the vocabulary


@dataclass(frozen=True)
class Pretrained:
    """A model with its weights, and the vocabulary.

    Attributes:
      model: the encoder with both heads.
      missing: the parts among "pooler", "masked_lm" and "sentence_order" that the files do not hold; they have
        new, random weights.
      vocabulary: the vocabulary, if the files include one.
      head: head of a fine-tuned model, which is not part of `model`; `TextClassifier.from_pretrained` and the
        other task models load it.
      sentence_modules: modules of sentence-transformers beside the model, such as "Normalize", without which its
        vectors are not those of `embed`.

    >>> loaded = load_pretrained("runs/base")
    >>> loaded.missing, loaded.encoder.name, loaded.vocabulary.count_pieces()
    ((), 'albert_encoder', 100)
    >>> for piece, probability in loaded.fill_mask(["the [MASK] sailed"], top_k=2)[0][0]:
    ...     assert piece and 0 < probability < 1
    >>> vectors = loaded.embed(["the captain", "a quiet neighbour"])  # float32 (2, H)
    >>> outputs = loaded.encoder(loaded.encoder_inputs(["the captain", "a quiet neighbour"]))
    >>> outputs["sequence_output"].shape[0]
    2
    """

    model: AlbertPretrainer
    missing: tuple[str, ...]
    vocabulary: Vocabulary | None
    head: Head | None = None
    sentence_modules: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        """Which of "pooler", "masked_lm" and "sentence_order" the files hold."""
        return tuple(part for part in OPTIONAL_PARTS if part not in self.missing)

    @cached_property
    def tokenizer(self) -> Tokenizer | None:
        """The vocabulary's tokenizer; None without a vocabulary."""
        return self.vocabulary.tokenizer() if self.vocabulary else None

    @property
    def encoder(self) -> AlbertEncoder:
        """The model without its heads."""
        return self.model.encoder

    @property
    def config(self) -> AlbertConfig:
        """The model's shape, with activation, epsilon and dropout from the files."""
        return self.model.config

    def fill_mask(self, texts: Sequence[str], top_k: int = 5) -> list[list[list[tuple[str, float]]]]:
        """Predicts the pieces behind the [MASK]s of texts.

        Args:
          texts: each with any number of [MASK].
          top_k: number of pieces for each mask.

        Returns:
          For each text, for each of its masks, (piece, probability) of the best pieces, best first. "▁" begins a
          word. A text that is too long is cut around its masks, or after the first ones if they are too far
          apart; masks that are cut off have no entry.

        Raises:
          InputError: the model has no vocabulary or no masked-LM head, or fewer pieces than `top_k`; a text has
            another model's mask, such as <mask>, and no [MASK].
        """
        if "masked_lm" in self.missing:
            raise InputError("Filling masks needs a masked-LM head, which the model's files do not hold.")
        return fill_masks(self.model, self._tokenizer_for_text(), texts, top_k)

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Turns each text into one vector: the mean of the vectors of its tokens, [CLS] and [SEP] included.

        Args:
          texts: N texts; one that is too long is cut at its end.

        Returns:
          float32 (N, H).

        Raises:
          InputError: the model has no vocabulary, or is one of sentence-transformers with other vectors.
        """
        self.check_vectors()
        return embeddings(self.model, self._tokenizer_for_text(), texts)

    def check_vectors(self) -> None:
        """Raises InputError if sentence-transformers makes other vectors than the mean of the tokens' vectors."""
        if self.sentence_modules:
            raise InputError(
                "The vector of a text is the mean of its tokens' vectors. modules.json beside the model also "
                f"names {', '.join(self.sentence_modules)}: use sentence-transformers, or remove modules.json "
                "for the mean."
            )

    def encoder_inputs(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, max_seq_length: int | None = None
    ) -> dict[str, np.ndarray]:
        """Turns texts, or pairs of texts, into the arrays of `encoder`: [CLS] a [SEP] or [CLS] a [SEP] b [SEP].

        Args:
          texts: N texts, in which [MASK] is the symbol.
          pairs: N second texts.
          max_seq_length: longest sequence, in tokens; the end of the longer text is cut off. Default: the model's
            number of positions.

        Returns:
          `input_ids`, `input_mask` and `token_type_ids`, int32 (N, T), padded to the longest sequence.

        Raises:
          InputError: the model has no vocabulary, or the lists differ in length.
        """
        longest = max_seq_length or self.config.max_position_embeddings
        return encoder_inputs(self._tokenizer_for_text(), texts, pairs, longest)

    def _tokenizer_for_text(self) -> Tokenizer:
        if self.tokenizer is None:
            raise InputError("Text input needs a vocabulary, which the model's files do not hold.")
        return self.tokenizer


def load_pretrained(
    source: str | Path,
    *,
    config: AlbertConfig | str | Path | None = None,
    seed: int | None = None,
    dtype: str | keras.DTypePolicy | None = None,
) -> Pretrained:
    """Loads an ALBERT from any of the formats that it is published in; the format is detected.

    Args:
      source: a run or a checkpoint in it, what `albert convert` wrote, Google's TF1 checkpoint (folder,
        prefix or .tar.gz), a TF-Hub SavedModel by Google or Model Garden, a Hugging Face or KerasHub
        directory, a name that `albert models` lists ("albert_base_v2"), or an address: `hf://OWNER/NAME`,
        `https://` of a .tar.gz, or `kaggle://OWNER/MODEL/FRAMEWORK/VARIATION`.
      config: the configuration, or its albert_config.json, if it is not beside a TF1 checkpoint. It may also
        change the dropout of any other source.
      seed: seed of the parts that the files do not hold, and of dropout.
      dtype: policy of the model, for instance "mixed_bfloat16". Default: Keras' global policy.

    Returns:
      The model, the parts that the files do not hold (also logged), and the vocabulary.

    Raises:
      InputError: `source` is none of these, or its files are damaged or do not fit each other.

    >>> loaded = load_pretrained("runs/base")  # or "albert_base_v2", or a path or an address
    >>> ids = [loaded.tokenizer.cls_id, *loaded.tokenizer.encode("the captain"), loaded.tokenizer.sep_id]
    >>> loaded.encoder({"input_ids": np.array([ids])})["pooled_output"].shape[-1] == loaded.config.hidden_size
    True
    """
    stored = read_with_config(source, config)
    if stored.missing:
        logging.getLogger(__name__).warning(
            "%s holds no %s: using fresh weights", source, ", ".join(stored.missing)
        )
    return as_pretrained(stored, seed, dtype)


def read_source(
    source: str | Path, flags: SourceFlags = NO_FLAGS, task: TaskKind | None = None
) -> StoredModel:
    """Reads a model in any format, with what its files leave open.

    Args:
      source: anything that `load_pretrained` reads.
      flags: configuration, vocabulary and the names of the classes.
      task: what the head of a fine-tuned model is for.

    Raises:
      InputError: `source` cannot be read, or what is given belongs to another model.
    """
    stored = read_with_config(source, flags.albert_config_file)
    if flags.vocab_file:
        stored = dataclasses.replace(stored, vocabulary=Vocabulary.read(flags.vocab_file))
        check_vocabulary(stored)
    if not (task or flags.label_names):
        return stored
    if stored.head is None:
        raise InputError(f"--task and --labels need a fine-tuned model. {source} has no fine-tuned head.")
    head = choose_task(stored.head, task) if task else stored.head
    if flags.label_names:
        head = rename_classes(head, flags.label_names)
    return dataclasses.replace(stored, head=head)


def read_with_config(source: str | Path, config: AlbertConfig | str | Path | None) -> StoredModel:
    """Reads a model in any format; a given configuration is the model's, and its dropout the one to use."""
    if config is None:
        return read(source)
    given = config if isinstance(config, AlbertConfig) else AlbertConfig.from_json_file(config)
    stored = read(source, given)
    check_same_model(stored.config, given, source)
    return dataclasses.replace(
        stored, config=dataclasses.replace(stored.config, **{name: getattr(given, name) for name in _FREE})
    )


def as_pretrained(stored: StoredModel, seed: int | None = None, dtype=None) -> Pretrained:
    """A model with the weights of files that were read; see `load_pretrained`."""
    model = stored.to_pretrainer(seed, dtype)
    return Pretrained(model, stored.missing, stored.vocabulary, stored.head, stored.sentence_modules)


def load_weights_into(
    model: AlbertPretrainer,
    source: str | Path,
    *,
    resize_positions: ResizePositions = False,
    optimizer: AdamW | None = None,
    vocabulary: VocabularyFacts | None = None,
    init_from_group0: bool = False,
) -> tuple[str, ...]:
    """Sets a model's weights from anything that `load_pretrained` reads, for instance under a strategy's scope.

    Args:
      model: has the same shape and mathematics. Its dropout may differ, and if all layers share their
        parameters, the number of layers too.
      source: as for `load_pretrained`.
      resize_positions: if the position tables differ in length, how to fill a longer one: True or "tile" repeats
        the learned rows, "fresh" keeps the model's initial values.
      optimizer: built for the model; receives the moments and the step count, which our runs and TF1 checkpoints
        may hold.
      vocabulary: that of the examples that the model will be trained on; refused if the source has another one.
      init_from_group0: groups of layers that `source` does not hold become copies of its first group.

    Returns:
      Which of "pooler", "masked_lm" and "sentence_order" `source` does not hold; the model keeps its own.

    Raises:
      InputError: `source` cannot be read, or holds another model or optimizer; the model is then unchanged.
    """
    if is_run(Path(source)) and not init_from_group0:
        _check_same_vocabulary(read_run_vocabulary(Path(source)), vocabulary, source)
        if there := read_run_config(Path(source)):
            check_same_model(there, model.config, source, free=there.to_dict().keys() - _UNSEEN)
        load_weights(model, source, resize_positions=resize_positions, optimizer=optimizer)
        return ()
    with named_files(source) as path:
        stored = read(path, model.config)
        if optimizer is not None and stored.format != "tf1":
            raise InputError(
                "--init_optimizer needs a pretraining run, a checkpoint in it or a TF1 checkpoint. Received "
                f"{source}, which has no moments for this optimizer; leave the flag out."
            )
        moments = read_moments(stored.path, stored.config) if optimizer is not None else None
        is_known = stored.format not in _WITHOUT_NORMALIZATION
        has_normalization = stored.vocabulary and (is_known or read_normalization(stored.vocabulary.file))
        _check_same_vocabulary(
            stored.vocabulary, vocabulary, source, has_normalization=bool(has_normalization)
        )
    free = {"max_position_embeddings"} if resize_positions else set()
    if stored.config.parameter_sharing == "all" and stored.config.num_hidden_groups == 1:
        free.add("num_hidden_layers")  # any number of layers has the same weights
    if init_from_group0:
        free |= {"num_hidden_layers", "num_hidden_groups", "parameter_sharing"}
    check_same_model(stored.config, model.config, source, free)

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


def _check_same_vocabulary(
    there: Vocabulary | None,
    given: VocabularyFacts | None,
    source: str | Path,
    *,
    has_normalization: bool = True,
) -> None:
    """Raises InputError if examples have other ids than a model, or text that is normalized otherwise."""
    if there is None or given is None:
        return
    if there.sha256 != given.sha256 and not _has_pieces_of(there, given):
        raise InputError(
            f"A model must be trained on examples that were prepared with its own vocabulary. {source} has "
            f"another one than {given.file}, with which these were prepared; prepare them again with the model's."
        )
    if has_normalization and there.normalization != given.normalization:
        raise InputError(
            f"A model must be trained on text that is normalized as its vocabulary was. {source} has "
            f"{there.normalization}; the examples were prepared with {given.normalization}. Prepare them again."
        )


def _has_pieces_of(there: Vocabulary, given: VocabularyFacts) -> bool:
    """Whether a vocabulary of another file has the same pieces, as far as this can be known."""
    if not Path(given.file).is_file():
        return there.count_pieces() == given.size
    return there.tokenizer().pieces == given.read().tokenizer().pieces


def check_same_model(
    there: AlbertConfig, given: AlbertConfig, source: str | Path, free: Collection[str] = ()
) -> None:
    """Raises InputError if configurations differ in more than dropout, initialization and the fields `free`."""
    if there.parameter_sharing != given.parameter_sharing and "none" in (
        there.parameter_sharing,
        given.parameter_sharing,
    ):
        there, given = as_groups(there), as_groups(given)  # sharing nothing is one group for each layer
    different = [
        f"{name} is {value}, not {getattr(given, name)}"
        for name, value in there.to_dict().items()
        if name not in (*_FREE, *free) and value != getattr(given, name)
    ]
    if different:
        hint = ""
        if any(name.startswith("max_position_embeddings") for name in different):
            hint = " --resize_positions repeats the rows of the position table or cuts them off."
        raise InputError(f"{source} does not match this configuration: {'; '.join(different)}.{hint}")
