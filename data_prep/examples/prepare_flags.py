"""The flags of `albert prepare` and their checks. Imports nothing slow, so that --help is fast."""

import dataclasses
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from data_prep.errors import InputError, check_at_least, check_at_most
from data_prep.files import encodable
from data_prep.text.mixture import Mixture
from data_prep.text.sources import InputFormat
from data_prep.tfrecord.schema import Feature, chunk_features, pretraining_features
from data_prep.tokenizers.vocabulary_flags import WordBoundaries, vocabulary_from_flags


@dataclass(frozen=True)
class PrepareSettings:
    """The flags of `albert prepare`; the original's names keep their meaning.

    Attributes:
      input_file: text to read: text files, .jsonl, .json, .tfrecord or .parquet, all but the last also compressed
        (.gz, .bz2, .xz, .zst). Globs are allowed, and commas separate several inputs. tfds:NAME/CONFIG:SPLIT reads
        a TensorFlow dataset, hf://datasets/OWNER/NAME/CONFIG:SPLIT one of the Hugging Face Hub, and - reads
        standard input.
      input_weights: weights of the patterns of --input_file, separated by commas. With 3,1, files of the first
        pattern make three quarters of the examples' text. The text is read twice.
      input_exponent: weights in place of --input_weights: each pattern's size in characters to this power, from 1
        (the share that it has in the text) to 0 (equal shares); 0.3 is usual for many languages.
      output_file: TFRecord file to write, beside a manifest.json. With --num_shards=N it becomes
        NAME-00000-of-0000N and so on; N names separated by commas are allowed, too.
      spm_model_file: SentencePiece model, from `albert vocab` or a released checkpoint.
      vocab_file: WordPiece vocab.txt in place of --spm_model_file, for example of a Chinese checkpoint.
      input_format: layout of text files: "lines" has one sentence per line and a blank line between documents;
        "prose" has one document per file and a blank line between paragraphs.
      language: language of prose, as an ISO 639 code; it decides how text is split into sentences.
      text_field: field that holds the text in JSON lines, TFRecords, Parquet tables and datasets.
      num_shards: number of files to write.
      max_seq_length: length of an example in tokens, T, including [CLS] and [SEP].
      max_predictions_per_seq: maximum number of masked tokens in an example, P. Default: --masked_lm_prob times
        --max_seq_length, rounded up, which is 77 for 512 tokens. (The original's default of 20 masks at most
        3.9% of 512 tokens.)
      masked_lm_prob: share of the tokens to mask.
      dupe_factor: number of passes over the text, each with new pairs and masks; in a mixture, the mean number.
        Default: 40 with --masking=static and 1 with dynamic, where more passes only group the sentences
        differently.
      short_seq_prob: share of examples that get a random shorter length.
      ngram: maximum number of words in a masked span.
      favor_shorter_ngram: choose a span of n words with a probability proportional to 1/n;
        --nofavor_shorter_ngram reverses the weights, so that longer spans are more probable.
      do_whole_word_mask: mask all pieces of a word together.
      word_boundaries: where words begin. "unicode": at spaces, punctuation marks and symbols; in scripts without
        spaces, such as Chinese and Thai, every piece is a word. "original": pieces of the letters a to z are
        joined into words, and every other piece is a word. Default: unicode, but original for the vocabulary of
        Google's English checkpoints. A WordPiece vocabulary marks words itself.
      masking: "static" masks now; "dynamic" leaves masking to training, which draws new masks in every epoch.
        With --sentence_objective=sop, training then also draws where the segments are cut and whether they are
        swapped.
      sentence_objective: what the sentence pairs are for: "sop" predicts whether two segments are swapped
        (ALBERT); "nsp", whether the second comes from another document (BERT); "none" makes single segments.
      random_seed: seed of all random choices.
      drop_duplicates: keep one of each set of equal documents. Documents are equal if their sentences are; the
        parts of a document of more than 1,000,000 characters count as documents.
      overwrite: replace files that were written with other settings.
      strict: stop, instead of warning, when the text looks like another --input_format.
      do_lower_case: --nodo_lower_case declares a cased vocabulary. Default: what the settings file beside the
        vocabulary says, or lower case without one.
      workers: number of processes; it does not change the output. Default: one per core.
      cluster: address of a Dask scheduler, dask://HOST:PORT, whose workers do the work. They must see the
        vocabulary and the output, on a shared disk or at addresses. It does not change the output.
      runner: "local", or the Apache Beam runner of a cluster: DirectRunner, FlinkRunner, SparkRunner or
        DataflowRunner. It does not change the output.
      pipeline_options: options of the Beam runner in one string, for example "--flink_master=host:8081
        --parallelism=64".
    """

    input_file: str
    output_file: str
    spm_model_file: str | None = None
    vocab_file: str | None = None
    input_weights: str | None = None
    input_exponent: float | None = None
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
    word_boundaries: WordBoundaries | None = None
    masking: Literal["static", "dynamic"] = "static"
    sentence_objective: Literal["sop", "nsp", "none"] = "sop"
    random_seed: int = 12345
    drop_duplicates: bool = False
    overwrite: bool = False
    strict: bool = False
    do_lower_case: bool | None = None
    workers: int | None = None
    cluster: str | None = None
    runner: str = "local"
    pipeline_options: str = ""

    @property
    def vocabulary_file(self) -> str:
        """The vocabulary of either kind."""
        return vocabulary_from_flags(self.spm_model_file, self.vocab_file)

    @property
    def mixture(self) -> Mixture:
        """The corpora of `input_file` and their weights."""
        return Mixture.of(self.input_file, self.input_weights, self.input_exponent)

    @property
    def predictions(self) -> int:
        """P: `max_predictions_per_seq` or its default."""
        if self.max_predictions_per_seq is not None:
            return self.max_predictions_per_seq
        # Rounded first, so that 0.15 * 20 is 3 and not a little more.
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
    def padded_bytes(self) -> int:
        """The smallest size of a record in bytes: one for an integer, four for a float; chunks are not padded."""
        sizes = {"int64": 1, "float32": 4}
        return sum((feature.length or 0) * sizes[feature.dtype] for feature in self.features.values())

    @property
    def uncounted(self) -> set[str]:
        """The counts that are unknown before training."""
        names = {"masked_tokens"} if self.masking == "dynamic" else set()
        return names | ({"swapped_examples"} if self.stores_chunks else set())

    @property
    def output_settings(self) -> dict[str, Any]:
        """The flags that decide the output, by name, with the defaults filled in, as JSON can hold them."""
        defaults = {"max_predictions_per_seq": self.predictions, "dupe_factor": self.passes}
        values = {**dataclasses.asdict(self), **defaults}
        return {
            name: encodable(value) if isinstance(value, str) else value  # a file's name need not be UTF-8
            for name, value in values.items()
            if name not in _NOT_IN_THE_OUTPUT
        }


# Flags that do not change the output, and do_lower_case, which `VocabularyFacts` records.
_NOT_IN_THE_OUTPUT = (
    "overwrite",
    "strict",
    "workers",
    "cluster",
    "runner",
    "pipeline_options",
    "do_lower_case",
)


def check_settings(settings: PrepareSettings) -> None:
    """Checks all numbers and the mixture, and that one vocabulary is named."""
    check_at_least(1, settings, "num_shards", "dupe_factor", "ngram", "workers")
    check_at_least(5, settings, "max_seq_length")
    _ = settings.mixture
    vocabulary_from_flags(settings.spm_model_file, settings.vocab_file)
    check_at_most(99_999, settings, "num_shards")  # names have five digits
    check_at_most(1 << 16, settings, "max_seq_length")
    if settings.cluster and not re.fullmatch(r"dask://[^/\s]+:\d+", settings.cluster):
        raise InputError(f"--cluster must be written dask://HOST:PORT. Received {settings.cluster}.")
    if settings.cluster and (settings.workers or settings.runner != "local"):
        other = f"--workers={settings.workers}" if settings.workers else f"--runner={settings.runner}"
        raise InputError(f"--cluster decides where the work is done. Received {other}, too; leave one out.")
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
    if folder := next((name for name in names if name.endswith("/")), None):
        raise InputError(f"--output_file must be a file. {folder} is a folder; name a file in it.")
    if len(names) == 1 and num_shards > 1:
        return [Path(f"{names[0]}-{i:05d}-of-{num_shards:05d}") for i in range(num_shards)]
    if num_shards not in (1, len(names)):
        raise InputError(
            "--num_shards must agree with the names in --output_file. "
            f"Received {num_shards} and {len(names)} names."
        )
    return [Path(name) for name in names]
