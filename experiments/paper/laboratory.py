"""A laboratory: a folder whose experiments share text, vocabulary, examples and pretraining runs.

files --> train, part, heldout --albert vocab--> vocabulary --albert prepare--> examples per objective
--albert pretrain--> runs/MODEL/seed-N

Everything is made on first use; what is there is not made again.
"""

import dataclasses
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from albert_tf.checkpoints.run_files import CHECKPOINTS
from albert_tf.config import CONFIG_FILE, AlbertConfig
from benchmarks.processes import albert
from data_prep.errors import InputError, check_at_least
from data_prep.examples.manifest import MANIFEST
from data_prep.text.sources import InputFormat, expand_files
from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer
from experiments.conditions import check_conditions, facts_of
from experiments.metrics import evaluations, training_seconds
from experiments.paper.models import SCALES, Scale, SentenceObjective, Variant
from experiments.texts import by_hash, link_files, split_files

TextPart = Literal["train", "part", "heldout"]
_PART = 4  # "part" is a quarter of the training files
_SAVES = 10  # checkpoints, and evaluations, per run
_KEPT = 10**9  # all checkpoints: another run may fork from the middle, and an interrupted run saves more
_LOGS = 50  # training lines in metrics.jsonl per run


@dataclass(frozen=True)
class LabSettings:
    """The flags of an experiment; by default the scale decides.

    Attributes:
      output: folder of the laboratory; all experiments share its data and runs. The same command resumes an
        interrupted experiment.
      input_file: text to pretrain on, as for `albert prepare`; not needed with --seeds=0.
      heldout_file: text to evaluate on. Default: one in 20 files of --input_file, at least two, chosen
        by their names.
      input_format: layout of text files: "lines" has one sentence per line and a blank line between documents;
        "prose" has one document per file and a blank line between paragraphs.
      language: language of prose, as an ISO 639 code; it decides how text is split into sentences.
      spm_model_file: SentencePiece model to use. Default: one is trained on the text.
      scale: size of the models and length of the runs: "tiny" takes minutes per run on two cores; "small", hours
        on a GPU; "paper", days on a TPU pod with the paper's own settings.
      seeds: number of runs of each model, with seeds from 1; 0 trains nothing and measures only the training
        speed, in experiments that do so.
      glue_dir: folder of GLUE as downloaded; adds fine-tuning on SST-2 and MNLI.
      squad_dir: folder with train-v1.1.json, dev-v1.1.json, train-v2.0.json and dev-v2.0.json; adds fine-tuning
        on SQuAD.
      race_dir: folder of RACE as downloaded; adds fine-tuning on RACE.
      num_train_steps: number of training steps in each run. Default: set by --scale; the warm-up follows.
      train_batch_size: number of examples per step, over all devices. Default: set by --scale.
      learning_rate: peak learning rate, reached at the end of the warm-up. Default: set by --scale.
      max_seq_length: length of an example in tokens, T, including [CLS] and [SEP]. Default: set by --scale.
      vocab_size: number of pieces of a vocabulary that is trained, including the symbols. Default: set by
        --scale.
      speed_sizes: models whose training speed is measured: those of --scale, or the paper's.
      speed_workers: number of worker processes. With 2 or more, speed is also measured with that many workers on
        this machine, which share its cores and exchange gradients over loopback. Models of which that many copies
        do not fit into memory are left out.
      tpu: TPU to train on: its name, its grpc:// address, or "local" on the TPU's own machine.
      num_devices: number of GPUs to use; without GPUs, number of virtual devices to divide the CPU into.
        Default: all GPUs, or one CPU device.
      gradient_accumulation_steps: number of micro-batches that each device divides its share of a batch into.
        More need less memory and give the same result.
      mixed_precision: "bfloat16" computes in bfloat16 and keeps weights, losses, LayerNorm and optimizer in
        float32. Use it on TPUs, recent GPUs, and CPUs with AMX or AVX512-BF16.
    """

    output: Path
    input_file: str | None = None
    heldout_file: str | None = None
    input_format: InputFormat = "prose"
    language: str = "en"
    spm_model_file: Path | None = None
    scale: Literal["tiny", "small", "paper"] = "tiny"
    seeds: int = 3
    glue_dir: Path | None = None
    squad_dir: Path | None = None
    race_dir: Path | None = None
    num_train_steps: int | None = None
    train_batch_size: int | None = None
    learning_rate: float | None = None
    max_seq_length: int | None = None
    vocab_size: int | None = None
    speed_sizes: Literal["scale", "paper"] = "scale"
    speed_workers: int = 1
    tpu: str | None = None
    num_devices: int | None = None
    gradient_accumulation_steps: int | None = None
    mixed_precision: Literal["bfloat16"] | None = None

    def __post_init__(self):
        check_at_least(1, self, "num_train_steps", "train_batch_size", "speed_workers")
        check_at_least(5, self, "max_seq_length")
        check_at_least(0, self, "seeds")
        if any(character in str(self.output) for character in ",*?["):
            raise InputError(
                "--output must have none of the characters , * ? and [, because they make a name a pattern. "
                f"Received {self.output}; use another name."
            )
        if self.spm_model_file and self.vocab_size is not None:
            raise InputError(
                "--vocab_size is for a vocabulary that is trained. Received it with --spm_model_file; omit one."
            )

    def scaled(self, scale: Scale | None = None) -> Scale:
        """The scale, with the flags' values in place of its own."""
        scale = scale or SCALES[self.scale]
        given = {field.name: getattr(self, field.name, None) for field in dataclasses.fields(Scale)}
        changed = dataclasses.replace(
            scale, **{name: value for name, value in given.items() if value is not None}
        )
        warmup = changed.num_train_steps * scale.num_warmup_steps / scale.num_train_steps
        return dataclasses.replace(changed, num_warmup_steps=round(warmup))


@dataclass(frozen=True)
class Laboratory:
    """The folder of `settings.output`; its models have the sizes of `scale`."""

    settings: LabSettings
    scale: Scale

    @property
    def folder(self) -> Path:
        """The laboratory's folder."""
        return self.settings.output

    @property
    def devices(self) -> dict[str, Any]:
        """The flags for devices that `albert pretrain` and `albert finetune` have in common."""
        names = ("tpu", "num_devices", "mixed_precision")
        return {name: getattr(self.settings, name) for name in names}

    def open(self, part_of_text: bool) -> None:
        """Creates the folder, or checks that what it holds was made with the same text and settings.

        Args:
          part_of_text: whether the experiment also trains on a part of the text.
        """
        if part_of_text and len(self.paths("train")) < _PART:
            raise InputError(
                "This experiment also trains on a quarter of the files, so there must be at least "
                f"{_PART} to train on. Received {len(self.paths('train'))}; split the text into more files."
            )
        check_conditions(self.folder, "laboratory", self.conditions())

    def conditions(self) -> dict[str, Any]:
        """What determines the numbers of all experiments."""
        files = {"input_file": "train", "heldout_file": "heldout"}
        names = ("num_train_steps", "train_batch_size", "learning_rate", "max_seq_length", "vocab_size")
        vocabulary = self.settings.spm_model_file
        return {
            **{flag: facts_of(self.paths(part)) for flag, part in files.items() if self.settings.seeds},
            **{name: getattr(self.settings, name) for name in ("input_format", "language", "scale")},
            **{name: getattr(self.scale, name) for name in names},
            "spm_model_file": facts_of([vocabulary]) if vocabulary else None,
            "mixed_precision": self.settings.mixed_precision,
        }

    def paths(self, part: TextPart) -> list[Path]:
        """The files of a part of the text."""
        settings = self.settings
        if not settings.input_file:
            raise InputError("This experiment trains models, so --input_file must name text. Received none.")
        paths = expand_files(settings.input_file)
        if settings.heldout_file:
            heldout = expand_files(settings.heldout_file)
            held_out = {path.resolve() for path in heldout}
            train = [path for path in paths if path.resolve() not in held_out]
        else:
            train, heldout = split_files(paths)
        if not train:
            raise InputError(
                "--input_file must name files to train on beside those of --heldout_file. Received "
                f"{settings.input_file}, of which all are held out."
            )
        if part == "part":
            return by_hash(train)[: -(-len(train) // _PART)]
        return heldout if part == "heldout" else train

    def vocabulary(self) -> Path:
        """The SentencePiece model: the given one, or one trained on the training files."""
        model = self.settings.spm_model_file or self.folder / "data" / "vocabulary.model"
        if not model.is_file():
            albert(
                "vocab",
                input_file=self._linked("train"),
                output_prefix=model.with_suffix(""),
                vocab_size=self.scale.vocab_size,
                input_format=self.settings.input_format,
                language=self.settings.language,
            )
        return model

    def examples(self, objective: SentenceObjective, part: TextPart, T: int) -> str:
        """The glob of an objective's examples of T tokens, prepared if they do not exist."""
        folder = self.folder / "data" / objective / f"{part}-{T}"
        if not (folder / MANIFEST).is_file():
            vocabulary, held_out = self.vocabulary(), part == "heldout"
            albert(
                "prepare",
                input_file=self._linked(part),
                output_file=folder / "examples.tfrecord",
                spm_model_file=vocabulary,
                input_format=self.settings.input_format,
                language=self.settings.language,
                max_seq_length=T,
                sentence_objective=objective,
                # Training: other chunks in each pass, new pairs and masks in each epoch.
                dupe_factor=1 if held_out else self.scale.dupe_factor,
                masking="static" if held_out else "dynamic",
            )
        return f"{folder}/examples.tfrecord*"

    def _linked(self, part: TextPart) -> str:
        return link_files(self.paths(part), self.folder / "data" / "text" / part)

    def config(self, variant: Variant) -> AlbertConfig:
        """The model of a run."""
        given = self.settings.spm_model_file
        vocab_size = AlbertTokenizer(str(given)).vocab_size if given else self.scale.vocab_size
        return variant.config(self.scale, vocab_size, self.scale.max_seq_length)

    def run(self, variant: Variant, seed: int) -> Path:
        """The folder of a run."""
        return self.folder / "runs" / variant.name / f"seed-{seed}"

    def checkpoint(self, variant: Variant, seed: int, step: int | None = None) -> Path:
        """A run's checkpoint, by default the last, which is measured; the run's folder stands for its best one."""
        return self.run(variant, seed) / CHECKPOINTS / f"ckpt-{step or self.steps(variant)}"

    def steps(self, variant: Variant) -> int:
        """The number of steps of a run: the laboratory's, or as many as fit into another run's time."""
        steps = self.scale.num_train_steps
        if variant.equal_time_with is None:
            return steps
        # The first seed's times count for all seeds, because the learning-rate schedule depends on the result.
        wanted = training_seconds(self.run(variant.equal_time_with, 1))
        taken = training_seconds(self.run(variant.in_equal_steps, 1))
        return max(2, round(steps * wanted / taken))

    def train(self, variant: Variant, seed: int) -> None:
        """Starts or resumes a run unless it is finished. The run that it starts from must be finished."""
        run, steps, scale = self.run(variant, seed), self.steps(variant), self.scale
        evaluated = evaluations(run)
        if evaluated and evaluated[-1]["step"] == steps:
            return
        config, start = run.parent / CONFIG_FILE, variant.start
        config.parent.mkdir(parents=True, exist_ok=True)
        self.config(variant).to_json_file(config)
        middle = fork_step(self.steps(start)) if start and variant.fork else None
        albert(
            "pretrain",
            "--do_train",
            "--do_eval",
            output_dir=run,
            albert_config_file=config,
            phase=self._phases(variant, steps),
            spm_model_file=self.vocabulary(),
            init_checkpoint=self.checkpoint(start, seed, middle) if start else None,
            init_optimizer=True if variant.fork else None,
            seed=seed,
            learning_rate=scale.learning_rate,
            poly_power=scale.poly_power,
            num_warmup_steps=round(scale.num_warmup_steps * steps / scale.num_train_steps),
            save_checkpoints_steps=save_interval(steps),
            keep_checkpoint_max=_KEPT,
            log_steps=-(-steps // _LOGS),
            max_eval_steps=scale.max_eval_steps,
            gradient_accumulation_steps=self.settings.gradient_accumulation_steps,
            **self.devices,
        )

    def _phases(self, variant: Variant, steps: int) -> list[str]:
        """The values of --phase: short sequences, if there are any, and those of --max_seq_length."""
        scale, part = self.scale, "train" if variant.text == "all" else "part"
        T = scale.max_seq_length
        lengths = [(T, steps)]
        if scale.short_phase and scale.short_phase[0] < T and steps > 1:
            short_steps = max(1, int(scale.short_phase[1] * steps))
            lengths = [(scale.short_phase[0], short_steps), (T, steps - short_steps)]
        return [
            shlex.join(
                f"{name}={value}"
                for name, value in {
                    "input_file": self.examples(variant.objective, part, length),
                    "eval_file": self.examples(variant.objective, "heldout", length),
                    "num_train_steps": of_phase,
                    # As many tokens per step in both phases.
                    "train_batch_size": scale.train_batch_size * T // length,
                }.items()
            )
            for length, of_phase in lengths
        ]


def save_interval(steps: int) -> int:
    """Steps between checkpoints.

    >>> save_interval(2000), save_interval(4)
    (200, 1)
    """
    return -(-steps // _SAVES)


def fork_step(steps: int) -> int:
    """The step of the checkpoint in the middle of a run, from which another run may fork.

    >>> fork_step(2000), fork_step(4), fork_step(19)
    (1000, 2, 10)
    """
    return -(-steps // (2 * save_interval(steps))) * save_interval(steps)
