"""The pretraining runs of a laboratory, DIR/runs/VARIANT/seed-N, which its experiments share."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from albert_tf.checkpoints.run_files import CHECKPOINTS, SETTINGS_FILE, read_metrics
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.lab.laboratory import Laboratory
from albert_tf.lab.text import LabText, TextPart
from albert_tf.lab.variants import Variant
from albert_tf.pretraining.settings import PretrainingSettings
from albert_tf.training.device_settings import check_batch_divides
from data_prep.errors import check_at_least
from data_prep.files import read_json_object
from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer

_SAVES = 10  # checkpoints, and evaluations, per run
_KEPT = 10**9  # all checkpoints: another run may fork from the middle, and an interrupted run saves more
_LOGS = 50  # training lines in metrics.jsonl per run


@dataclass(frozen=True)
class PretrainingRuns:
    """The pretraining runs of a laboratory, trained on first use."""

    text: LabText

    @property
    def lab(self) -> Laboratory:
        """The laboratory."""
        return self.text.lab

    def folder(self, variant: Variant, seed: int) -> Path:
        """The folder of a run."""
        return self.lab.folder / "runs" / variant.name / f"seed-{seed}"

    def last_checkpoint(self, variant: Variant, seed: int) -> str:
        """A finished run's last checkpoint, which is measured; the run's folder stands for its best one."""
        return str(self.folder(variant, seed) / CHECKPOINTS / f"ckpt-{self.steps(variant)}")

    def config(self, variant: Variant) -> AlbertConfig:
        """The model of a run."""
        settings = self.lab.settings
        vocab_size = settings.vocab_size
        if settings.spm_model_file:
            vocab_size = AlbertTokenizer(settings.spm_model_file).vocab_size
        return variant.config(self.lab.scale, vocab_size, settings.max_seq_length)

    def steps(self, variant: Variant) -> int:
        """The number of steps of a run: the laboratory's, or as many as fit into another run's time."""
        steps = self.lab.settings.num_train_steps
        if variant.equal_time_with is None:
            return steps
        # The first seed's times count for all seeds, because the learning-rate schedule depends on the result.
        wanted = training_seconds(self.folder(variant.equal_time_with, 1))
        taken = training_seconds(self.folder(variant.in_equal_steps, 1))
        return max(self._fewest_steps, round(steps * wanted / taken))

    def is_trained(self, variant: Variant, seed: int) -> bool:
        """Whether a run has reached its last step and was evaluated there."""
        lines = evaluations(self.folder(variant, seed))
        return bool(lines) and lines[-1]["step"] == self.steps(variant)

    def check(self, variant: Variant) -> None:
        """Raises InputError if a flag is out of range, before anything is written."""
        lab, short = self.lab.settings, self._short_phase
        check_at_least(self._fewest_steps, lab, "num_train_steps")
        for T in (lab.max_seq_length, *(short or ())[:1]):
            check_batch_divides(self._batch_size(T), lab.num_devices or 1, lab.gradient_accumulation_steps)
        self.config(variant)
        self._settings(variant, 1, 1, ())

    def train(self, variant: Variant, seed: int) -> None:
        """Starts or resumes a run unless it is finished. The run that it starts from must be finished."""
        if self.is_trained(variant, seed):
            return
        config = self.folder(variant, seed).parent / CONFIG_FILE
        config.parent.mkdir(parents=True, exist_ok=True)
        self.config(variant).to_json_file(config)
        steps = self.steps(variant)
        settings = self._settings(variant, seed, steps, self._phases(variant, steps))
        self.lab.programs.albert("pretrain", settings)

    @property
    def _short_phase(self) -> tuple[int, float] | None:
        """The scale's short sequences and their share of the steps, if they are shorter than --max_seq_length."""
        short = self.lab.scale.short_phase
        return short if short and short[0] < self.lab.settings.max_seq_length else None

    @property
    def _fewest_steps(self) -> int:
        """One for each phase."""
        return 2 if self._short_phase else 1

    def _phases(self, variant: Variant, steps: int) -> tuple[str, ...]:
        """The values of --phase: short sequences, if there are any, and those of --max_seq_length."""
        short = self._short_phase
        part: TextPart = "train" if variant.text == "all" else "part"

        def phase(T: int | None, num_train_steps: int) -> str:
            values = {
                "input_file": self.text.examples(variant.objective, part, T),
                "eval_file": self.text.examples(variant.objective, "heldout", T),
                "num_train_steps": num_train_steps,
                "train_batch_size": self._batch_size(T),
            }
            return shlex.join(f"{name}={value}" for name, value in values.items())

        if short is None:
            return (phase(None, steps),)
        short_steps = max(1, int(short[1] * steps))
        return (phase(short[0], short_steps), phase(None, steps - short_steps))

    def _batch_size(self, T: int | None) -> int:
        """Examples of T tokens per step, as many tokens as --train_batch_size of --max_seq_length."""
        lab = self.lab.settings
        return lab.train_batch_size * lab.max_seq_length // (T or lab.max_seq_length)

    def _settings(
        self, variant: Variant, seed: int, steps: int, phases: tuple[str, ...]
    ) -> PretrainingSettings:
        lab, run = self.lab.settings, self.folder(variant, seed)
        return PretrainingSettings(
            str(run),
            str(run.parent / CONFIG_FILE),
            phase=phases,
            spm_model_file=str(self.text.vocabulary_file),
            init_checkpoint=self._start(variant, seed),
            init_optimizer=variant.fork,
            do_train=True,
            do_eval=True,
            seed=seed,
            learning_rate=lab.learning_rate,
            poly_power=self.lab.scale.poly_power,
            num_warmup_steps=round(lab.num_warmup_steps * steps / lab.num_train_steps),
            save_checkpoints_steps=save_interval(steps),
            keep_checkpoint_max=_KEPT,
            log_steps=-(-steps // _LOGS),
            max_eval_steps=self.lab.scale.max_eval_steps,
            tpu=lab.tpu,
            strategy=lab.strategy,
            num_devices=lab.num_devices,
            gradient_accumulation_steps=lab.gradient_accumulation_steps,
            mixed_precision=lab.mixed_precision,
        )

    def _start(self, variant: Variant, seed: int) -> str | None:
        """The checkpoint to start from: another run's last one, or the one in its middle."""
        if variant.start is None:
            return None
        if not variant.fork:
            return self.last_checkpoint(variant.start, seed)
        middle = fork_step(self.steps(variant.start))
        return str(self.folder(variant.start, seed) / CHECKPOINTS / f"ckpt-{middle}")


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


def evaluations(run: Path) -> list[dict]:
    """The evaluations in a run's metrics, in order; a resumed run may have repeated one, which counts once."""
    lines = {line["step"]: line for line in read_metrics(run) if "eval_masked_lm_accuracy" in line}
    return [*lines.values()]


def training_seconds(run: Path) -> float:
    """The time that a run's steps took, without start-up and evaluations."""
    settings = read_json_object(run / SETTINGS_FILE)
    lines = [line for line in read_metrics(run) if "tokens_per_second" in line]
    # A forked run starts in the middle.
    first = fork_step(settings["num_train_steps"]) if settings["init_optimizer"] else 0
    starts = [first, *(line["step"] for line in lines[:-1])]
    return sum(
        (line["step"] - start)
        * _tokens_per_step(settings["phases"], line["step"])
        / line["tokens_per_second"]
        for line, start in zip(lines, starts, strict=True)
    )


def _tokens_per_step(phases: list[dict], step: int) -> int:
    """The tokens of the step in a run with these phases, as its settings.json lists them."""
    phase = next(phase for phase in phases if step <= phase["start_step"] + phase["num_train_steps"])
    return phase["train_batch_size"] * phase["max_seq_length"]
