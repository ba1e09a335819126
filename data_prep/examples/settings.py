"""The flags of `albert prepare` and their checks."""

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from data_prep.errors import InputError, check_at_least
from data_prep.examples.masking import MaskingSettings
from data_prep.text.sources import InputFormat
from data_prep.tfrecord.schema import Feature, chunk_features, pretraining_features
from data_prep.tokenizers.vocabulary import vocabulary_from_flags


@dataclass(frozen=True)
class PrepareSettings:
    """The flags of `albert prepare`; the original's names keep their meaning.

    Attributes:
      input_file: text, plain or compressed, .jsonl, .tfrecord, .parquet; globs and commas; tfds:NAME:SPLIT; or -.
      output_file: the TFRecord file to write, or several, separated by commas. One name with
        `num_shards` N > 1 gives NAME-00000-of-0000N and so on. A manifest.json is written beside it.
      spm_model_file: the SentencePiece model, from `albert vocab`.
      vocab_file: a WordPiece vocab.txt, as the Chinese checkpoints have, instead of a SentencePiece model.
      input_format: "lines" (one sentence per line, blank lines between documents) or "prose" (one document
        per file, blank lines between paragraphs).
      language: language of prose, for the sentence splitter.
      text_field: field that holds the text in JSON lines, TFRecords, Parquet and tfds datasets.
      num_shards: number of files to write.
      max_seq_length: T, tokens in an example, including [CLS] and [SEP].
      max_predictions_per_seq: P, the most masked tokens in an example. Default: masked_lm_prob * T, rounded
        up: 77 for 512 tokens. (The original's 20 masks at most 3.9% of 512.)
      masked_lm_prob: share of the tokens that are masked.
      dupe_factor: number of passes over the text, each with other pairs and masks. Default: 40 with static
        masking, 1 with dynamic; more then only group the sentences differently.
      short_seq_prob: share of examples that aim at a random shorter length.
      ngram: most words in a masked span.
      favor_shorter_ngram: a span of n words has probability proportional to 1/n; if false, longer spans are
        more probable by the same weights.
      do_whole_word_mask: the pieces of a word are masked together.
      masking: "static" masks now; "dynamic" leaves masking to training, which draws new masks in every epoch. For
        sentence_objective=sop it also draws anew where the two segments are cut and whether they are swapped.
      sentence_objective: "sop" predicts whether two segments are swapped, "nsp" whether the second comes from
        another document (BERT); "none" makes single segments.
      random_seed: seed of all draws.
      overwrite: replace files that were made with other settings.
      strict: text that looks like another input_format than the given one is an error, not a warning.
      do_lower_case: false for a cased vocabulary. Default: as the file beside it says, else true.
      workers: number of processes. Default: one per core. The output does not depend on it.
      runner: "local", or an Apache Beam runner such as DirectRunner, FlinkRunner, SparkRunner or
        DataflowRunner, to prepare on a cluster. The output does not depend on it.
      pipeline_options: options of the Beam runner in one string: "--flink_master=host:8081 --parallelism=64".
    """

    input_file: str
    output_file: str
    spm_model_file: str | None = None
    vocab_file: str | None = None
    input_format: InputFormat = "lines"
    language: str = "en"
    text_field: str = "text"
    num_shards: int = 1
    max_seq_length: int = 512
    max_predictions_per_seq: int | None = None
    masked_lm_prob: float = 0.15
    dupe_factor: int | None = None
    short_seq_prob: float = 0.1
    ngram: int = 3
    favor_shorter_ngram: bool = True
    do_whole_word_mask: bool = True
    masking: Literal["static", "dynamic"] = "static"
    sentence_objective: Literal["sop", "nsp", "none"] = "sop"
    random_seed: int = 12345
    overwrite: bool = False
    strict: bool = False
    do_lower_case: bool | None = None
    workers: int | None = None
    runner: str = "local"
    pipeline_options: str = ""

    @property
    def vocabulary_file(self) -> str:
        """The vocabulary of either kind."""
        return vocabulary_from_flags(self.spm_model_file, self.vocab_file)

    @property
    def predictions(self) -> int:
        """P: `max_predictions_per_seq` or its default."""
        if self.max_predictions_per_seq is not None:
            return self.max_predictions_per_seq
        # Rounded first: 0.15 * 20 is 3, and not a little more.
        return math.ceil(round(self.masked_lm_prob * self.max_seq_length, 6))

    @property
    def passes(self) -> int:
        """`dupe_factor` or its default."""
        if self.dupe_factor is not None:
            return self.dupe_factor
        return 40 if self.masking == "static" else 1

    @property
    def stores_chunks(self) -> bool:
        """Whether training draws the sentence pairs, too."""
        return self.masking == "dynamic" and self.sentence_objective == "sop"

    @property
    def features(self) -> dict[str, Feature]:
        """The features of the records."""
        if self.stores_chunks:
            return chunk_features()
        return pretraining_features(self.max_seq_length, self.predictions if self.masking == "static" else 0)

    @property
    def uncounted(self) -> set[str]:
        """The counts that are unknown before training."""
        names = {"masked_tokens"} if self.masking == "dynamic" else set()
        return names | ({"swapped_examples"} if self.stores_chunks else set())

    @property
    def masking_settings(self) -> MaskingSettings:
        """How many tokens are masked, and in which spans."""
        return MaskingSettings(
            self.predictions,
            self.masked_lm_prob,
            self.ngram,
            self.favor_shorter_ngram,
            self.do_whole_word_mask,
        )

    @property
    def output_settings(self) -> dict[str, Any]:
        """The flags that decide the output, by name, with the defaults filled in."""
        defaults = {"max_predictions_per_seq": self.predictions, "dupe_factor": self.passes}
        values = {**dataclasses.asdict(self), **defaults}
        return {name: value for name, value in values.items() if name not in _NOT_IN_THE_OUTPUT}


# Who does the work; and the vocabulary's facts hold the normalization.
_NOT_IN_THE_OUTPUT = ("overwrite", "strict", "workers", "runner", "pipeline_options", "do_lower_case")


def check_settings(settings: PrepareSettings) -> None:
    """Checks every setting that is a number, and that one vocabulary is named.

    Raises:
      InputError: a setting is out of range, or two contradict each other.
    """
    for name, minimum in (("num_shards", 1), ("max_seq_length", 5), ("dupe_factor", 1), ("ngram", 1)):
        check_at_least(minimum, settings, name)
    vocabulary_from_flags(settings.spm_model_file, settings.vocab_file)
    check_at_least(1, settings, "workers")
    if settings.workers and settings.runner != "local":
        raise InputError(
            f"--workers is for the local runner. Received --runner={settings.runner}; set the number of a Beam "
            "runner's workers in --pipeline_options, for example --pipeline_options='--direct_num_workers=2 "
            "--direct_running_mode=multi_processing'."
        )
    if settings.pipeline_options and settings.runner == "local":
        raise InputError(
            f"--pipeline_options is for a Beam runner. Received {settings.pipeline_options!r} for the local one; "
            "name another with --runner."
        )
    if not 0 < settings.masked_lm_prob < 1:
        raise InputError(f"--masked_lm_prob must lie between 0 and 1. Received {settings.masked_lm_prob}.")
    if not 0 <= settings.short_seq_prob <= 1:
        raise InputError(f"--short_seq_prob must lie between 0 and 1. Received {settings.short_seq_prob}.")
    if not 1 <= settings.predictions < settings.max_seq_length:
        raise InputError(
            "--max_predictions_per_seq must be at least 1 and below --max_seq_length. "
            f"Received {settings.predictions} and {settings.max_seq_length}."
        )


def shard_names(output_file: str, num_shards: int) -> list[Path]:
    """The files to write.

    >>> shard_names("data/train.tfrecord", 2)
    [PosixPath('data/train.tfrecord-00000-of-00002'), PosixPath('data/train.tfrecord-00001-of-00002')]
    """
    names = [name.strip() for name in output_file.split(",") if name.strip()]
    if not names:
        raise InputError("--output_file must name a file. Received an empty name.")
    if len(names) == 1 and num_shards > 1:
        return [Path(f"{names[0]}-{i:05d}-of-{num_shards:05d}") for i in range(num_shards)]
    if num_shards not in (1, len(names)):
        raise InputError(
            "--num_shards must agree with the names in --output_file. "
            f"Received {num_shards} and {len(names)} names."
        )
    return [Path(name) for name in names]
