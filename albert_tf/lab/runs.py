"""The pretraining runs of a laboratory, DIR/runs/VARIANT/seed-N; experiments share a variant's."""

import json
from dataclasses import dataclass
from pathlib import Path

from albert_tf.config import AlbertConfig
from albert_tf.lab.text import LabText, Part
from albert_tf.lab.variants import Variant
from albert_tf.pretraining.settings import PretrainingSettings
from albert_tf.training.metrics_file import read_metrics
from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer

SAVES = 10  # checkpoints, and evaluations, of a run
_KEPT = 6  # from the middle of the run on, where another may fork
_LOGS = 50
CONFIG_FILE = "albert_config.json"


@dataclass(frozen=True)
class LabRuns:
    """Trains what is not trained yet.

    Attributes:
      text: of the laboratory.
    """

    text: LabText

    def folder(self, variant: Variant, seed: int) -> Path:
        """Where a run is."""
        return self.text.settings.folder / "runs" / variant.name / f"seed-{seed}"

    def config(self, variant: Variant) -> AlbertConfig:
        """The model of a run."""
        settings = self.text.settings
        assert settings.vocab_size and settings.max_seq_length, "they are resolved"
        size = settings.vocab_size
        if settings.spm_model_file:
            size = AlbertTokenizer(settings.spm_model_file).vocab_size
        return variant.config(self.text.scale, size, settings.max_seq_length)

    def steps(self, variant: Variant) -> int:
        """How many steps a run takes: the laboratory's, or as many as take as long as another run."""
        steps = self.text.settings.num_train_steps
        assert steps, "it is resolved"
        if variant.equal_time_with is None:
            return steps
        # Of the first seed for all, since the learning rate's schedule depends on it.
        wanted = training_seconds(self.folder(variant.equal_time_with, 1))
        taken = training_seconds(self.folder(variant.in_equal_steps, 1))
        return max(1, round(steps * wanted / taken))

    def is_trained(self, variant: Variant, seed: int) -> bool:
        """Whether a run has come to its end, and was evaluated there."""
        lines = evaluations(self.folder(variant, seed))
        return bool(lines) and lines[-1]["step"] == self.steps(variant)

    def check(self, variant: Variant) -> None:
        """Raises InputError where a flag is out of range, before anything is written."""
        self.config(variant)
        self._settings(variant, 1, 1, "examples", "heldout")

    def train(self, variant: Variant, seed: int) -> Path:
        """Starts a run or goes on with it, unless it is at its end. What it starts from must be trained."""
        run = self.folder(variant, seed)
        if self.is_trained(variant, seed):
            return run
        part: Part = "train" if variant.text == "all" else "part"
        examples = self.text.examples(variant.objective, part)
        heldout = self.text.examples(variant.objective, "heldout")
        config = run.parent / CONFIG_FILE
        config.parent.mkdir(parents=True, exist_ok=True)
        self.config(variant).to_json_file(config)
        self.text.programs.albert(
            "pretrain", self._settings(variant, seed, self.steps(variant), examples, heldout)
        )
        return run

    def _settings(
        self, variant: Variant, seed: int, steps: int, examples: str, heldout: str
    ) -> PretrainingSettings:
        of_lab, run = self.text.settings, self.folder(variant, seed)
        assert of_lab.num_train_steps and of_lab.num_warmup_steps is not None, "they are resolved"
        assert of_lab.train_batch_size, "it is resolved"
        return PretrainingSettings(
            examples,
            str(run.parent / CONFIG_FILE),
            str(run),
            eval_file=heldout,
            spm_model_file=str(self.text.vocabulary_file),
            init_checkpoint=self._start(variant, seed),
            init_optimizer=variant.fork,
            do_train=True,
            do_eval=True,
            seed=seed,
            train_batch_size=of_lab.train_batch_size,
            learning_rate=of_lab.learning_rate,
            optimizer=self.text.scale.optimizer,
            num_train_steps=steps,
            num_warmup_steps=round(of_lab.num_warmup_steps * steps / of_lab.num_train_steps),
            save_checkpoints_steps=save_interval(steps),
            keep_checkpoint_max=_KEPT,
            log_steps=-(-steps // _LOGS),
            max_eval_steps=self.text.scale.max_eval_steps,
            tpu=of_lab.tpu,
            strategy=of_lab.strategy,
            num_devices=of_lab.num_devices,
            gradient_accumulation_steps=of_lab.gradient_accumulation_steps,
            mixed_precision=of_lab.mixed_precision,
        )

    def _start(self, variant: Variant, seed: int) -> str | None:
        """The checkpoint to start from: the last one of another run, or that of its middle."""
        if variant.start is None:
            return None
        run = self.folder(variant.start, seed)
        step = fork_step(self.steps(variant.start)) if variant.fork else self.steps(variant.start)
        return str(run / "checkpoints" / f"ckpt-{step}")


def save_interval(steps: int) -> int:
    """Steps between checkpoints.

    >>> save_interval(2000), save_interval(4)
    (200, 1)
    """
    return -(-steps // SAVES)


def fork_step(steps: int) -> int:
    """The checkpoint in the middle of a run, which is still there at its end.

    >>> fork_step(2000), fork_step(4), fork_step(19)
    (1000, 2, 10)
    """
    return -(-steps // (2 * save_interval(steps))) * save_interval(steps)


def evaluations(run: Path) -> list[dict]:
    """The lines of a run's metrics that are evaluations, in order."""
    return [line for line in read_metrics(run) if "eval_masked_lm_accuracy" in line]


def training_seconds(run: Path) -> float:
    """How long the steps of a run took, without starts and evaluations."""
    settings = json.loads((run / "settings.json").read_text(encoding="utf-8"))
    tokens = settings["train_batch_size"] * settings["max_seq_length"]
    lines = [line for line in read_metrics(run) if "tokens_per_second" in line]
    # A run that forked begins in the middle.
    before = [line["step"] for line in lines[:-1]]
    first = fork_step(settings["num_train_steps"]) if settings["init_optimizer"] else 0
    return sum(
        (line["step"] - last) * tokens / line["tokens_per_second"]
        for line, last in zip(lines, [first, *before], strict=True)
    )
