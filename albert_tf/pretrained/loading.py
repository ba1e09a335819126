"""Loads pretrained weights: `load_pretrained` builds a model, `load_weights_into` sets an existing one."""

import dataclasses
import logging
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import keras

from albert_tf.config import AlbertConfig
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.pretrained.heads import Head, choose_task, rename_classes
from albert_tf.pretrained.names import OPTIONAL_PARTS, as_groups
from albert_tf.pretrained.own import is_run, read_run_vocabulary
from albert_tf.pretrained.recognition import read
from albert_tf.pretrained.sources import NO_FLAGS, SourceFlags
from albert_tf.pretrained.stored import StoredModel, check_vocabulary
from albert_tf.pretrained.weights import set_weights, weights_of
from albert_tf.training.positions import ResizePositions, resized_table
from albert_tf.training.weights import load_weights
from data_prep.errors import InputError
from data_prep.tasks.task import Kind
from data_prep.tokenizers.normalization import Normalization
from data_prep.tokenizers.vocabulary import Vocabulary, read_normalization

_POSITIONS = "embeddings/position_embeddings"
# May differ between a checkpoint and the model that takes its weights: they only matter in training.
_FREE = ("hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range")
_WITHOUT_NORMALIZATION = ("tf1", "kerashub", "garden")  # unless a file lies beside the vocabulary


@dataclass(frozen=True)
class Pretrained:
    """A model with its weights, and the vocabulary.

    Attributes:
      model: the encoder with both heads.
      missing: which of "pooler", "masked_lm" and "sentence_order" the files do not hold; they are newly
        initialized.
      vocabulary: the vocabulary, if the files include one.
      head: the head of a fine-tuned model, which is not part of `model`; `TextClassifier.from_pretrained` and its
        siblings take it.
    """

    model: AlbertPretrainer
    missing: tuple[str, ...]
    vocabulary: Vocabulary | None
    head: Head | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        """Which of "pooler", "masked_lm" and "sentence_order" the files hold."""
        return tuple(part for part in OPTIONAL_PARTS if part not in self.missing)

    @property
    def encoder(self) -> AlbertEncoder:
        """The model without its heads."""
        return self.model.encoder

    @property
    def config(self) -> AlbertConfig:
        """The model's shape, with activation, epsilon and dropout from the files."""
        return self.model.config


def load_pretrained(
    source: str | Path, *, config: AlbertConfig | str | Path | None = None, seed: int | None = None
) -> Pretrained:
    """Loads an ALBERT from any of the formats that it is published in; the format is detected.

    Args:
      source: a run of ours or a checkpoint in it, what `albert convert` wrote, Google's TF1 checkpoint (folder,
        prefix or .tar.gz), a TF-Hub SavedModel by Google or Model Garden, a Hugging Face or KerasHub
        directory, a name that `albert models` lists ("albert_base_v2"), or an address: `hf://OWNER/NAME`,
        `https://` of a .tar.gz, or `kaggle://OWNER/MODEL/FRAMEWORK/VARIATION`.
      config: the configuration, or its albert_config.json, if it does not lie beside a TF1 checkpoint. It may
        also change the dropout of any other source.
      seed: initializes the parts that the files do not hold, and seeds dropout.

    Returns:
      The model, the parts that the files do not hold (also logged), and the vocabulary.

    Raises:
      InputError: `source` is none of these, or its files are damaged or do not fit each other.
    """
    stored = read_with_config(source, config)
    if stored.missing:
        logging.getLogger(__name__).warning(
            "%s holds no %s: using fresh weights", source, ", ".join(stored.missing)
        )
    return as_pretrained(stored, seed)


def read_source(source: str | Path, flags: SourceFlags = NO_FLAGS, task: Kind | None = None) -> StoredModel:
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


def as_pretrained(stored: StoredModel, seed: int | None = None) -> Pretrained:
    """A model with the weights of files that were read; see `load_pretrained`."""
    return Pretrained(stored.to_pretrainer(seed), stored.missing, stored.vocabulary, stored.head)


def load_weights_into(
    model: AlbertPretrainer,
    source: str | Path,
    *,
    resize_positions: ResizePositions = False,
    optimizer: keras.optimizers.Optimizer | None = None,
    normalization: Normalization | None = None,
) -> tuple[str, ...]:
    """Sets a model's weights from anything that `load_pretrained` reads, for instance under a strategy's scope.

    Args:
      model: has the same shape and mathematics. Its dropout may differ, and if all layers share their
        parameters, the number of layers too.
      source: as for `load_pretrained`.
      resize_positions: if the position tables differ in length, how to fill a longer one: True or "tile" repeats
        the learned rows, "fresh" keeps the model's initial values.
      optimizer: built for the model; receives the moments and the step count, which only our runs hold.
      normalization: of the examples that the model will be trained on; refused if the source's vocabulary has
        another one.

    Returns:
      Which of "pooler", "masked_lm" and "sentence_order" `source` does not hold; the model keeps its own.

    Raises:
      InputError: `source` cannot be read, or holds another model or optimizer; the model is then unchanged.
    """
    if is_run(Path(source)):
        _check_same_normalization(read_run_vocabulary(Path(source)), normalization, source)
        load_weights(model, source, resize_positions=resize_positions, optimizer=optimizer)
        return ()
    if optimizer is not None:
        raise InputError(
            f"--init_optimizer needs a run of ours or a checkpoint in it. Received {source}, which has no moments "
            "for this optimizer; leave the flag out."
        )
    stored = read(source, model.config)
    is_known = stored.format not in _WITHOUT_NORMALIZATION
    if stored.vocabulary and (is_known or read_normalization(stored.vocabulary.file)):
        _check_same_normalization(stored.vocabulary, normalization, source)
    free = {"max_position_embeddings"} if resize_positions else set()
    if stored.config.parameter_sharing == "all" and stored.config.num_hidden_groups == 1:
        free.add("num_hidden_layers")  # any number of layers has the same weights
    check_same_model(stored.config, model.config, source, free)
    weights = dict(stored.weights)
    weights[_POSITIONS] = resized_table(weights[_POSITIONS], weights_of(model)[_POSITIONS], resize_positions)
    set_weights(model, weights)
    return stored.missing


def _check_same_normalization(
    vocabulary: Vocabulary | None, normalization: Normalization | None, source: str | Path
) -> None:
    if vocabulary and normalization and vocabulary.normalization != normalization:
        raise InputError(
            f"A model must be trained on text that is normalized as its vocabulary was. {source} has "
            f"{vocabulary.normalization}; the examples were prepared with {normalization}. Prepare them again."
        )


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
        raise InputError(
            f"{source} holds another model than this configuration: {'; '.join(different)}.{hint}"
        )
