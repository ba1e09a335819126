"""What a run does, with nothing left open: its flags, completed once from the files that they name."""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from albert_tf.checkpoints.checkpoint_files import steps_in
from albert_tf.checkpoints.open_model import read_config
from albert_tf.checkpoints.run_files import CHECKPOINTS, SETTINGS_FILE
from albert_tf.checkpoints.stored import find_vocabulary
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.flops import training_flops
from albert_tf.optimizers import WarmupPolynomialDecay
from albert_tf.pretraining.flags import PretrainingFlags
from albert_tf.pretraining.phase_data import PhaseData, read_phases
from albert_tf.pretraining.phases import Phase, phases_in
from albert_tf.training.device_flags import NOT_STORED
from albert_tf.training.run import Timetable
from albert_tf.training.run_place import working_folder
from data_prep.errors import InputError
from data_prep.examples.manifest import Manifest, manifests_of
from data_prep.files import read_json_object
from data_prep.storage.paths import file_size
from data_prep.text.sources import expand_files, split_patterns
from data_prep.tokenizers.vocabulary import Vocabulary

_PAPER_WARMUP = 3_125
_MASKED = 0.15  # share of the tokens, the paper's section 4.1
# (rate, batch that it was published for, source): the paper, section 4.1; Devlin et al. 2019, appendix A.2.
_PUBLISHED_RATES = {"lamb": (0.00176, 4096, "the paper's"), "adamw": (0.0001, 256, "BERT's")}


@dataclass(frozen=True, kw_only=True)
class PretrainingPlan(PretrainingFlags):
    """The flags with every default filled in, which settings.json holds, and what they stand for.

    Attributes:
      phases: at least one; a run without --phase is one phase.
      num_train_steps: the sum over the phases.
      max_seq_length: T of the longest phase.
      max_predictions_per_seq: P of that phase.
      folder: the run's folder.
      config: the model.
      data: the files of each phase.
      manifest: that of the last phase's training files, None if they have none.
      vocabulary: the vocabulary that the files were made with, None if it is unknown or no longer there.
      timetable: when to log and save.
      notes: what the user should know before the first step, a line each.
    """

    num_train_steps: int = field()  # without it, the field would have the flag's default
    max_seq_length: int = field()
    max_predictions_per_seq: int = field()
    learning_rate: float = field()
    num_warmup_steps: int = field()
    phases: tuple[Phase, ...]
    folder: Path = field(metadata=NOT_STORED)
    config: AlbertConfig = field(metadata=NOT_STORED)
    data: tuple[PhaseData, ...] = field(metadata=NOT_STORED)
    manifest: Manifest | None = field(metadata=NOT_STORED)
    vocabulary: Vocabulary | None = field(metadata=NOT_STORED)
    timetable: Timetable = field(metadata=NOT_STORED)
    notes: tuple[str, ...] = field(default=(), metadata=NOT_STORED)

    def __post_init__(self):
        """Checks nothing: the flags were checked."""

    def schedule(self) -> WarmupPolynomialDecay:
        """The learning rate over the run."""
        return WarmupPolynomialDecay(
            self.learning_rate,
            self.num_train_steps,
            self.num_warmup_steps,
            self.poly_power,
            self.start_warmup_step,
            self.num_decay_steps,
        )


def make_plan(flags: PretrainingFlags) -> PretrainingPlan:
    """Resolves the flags, before TensorFlow starts.

    Raises:
      InputError: flags, files and configuration do not fit together, or there is no model to evaluate.
    """
    folder = working_folder(flags.output_dir, flags)
    if any(folder.glob("seed_*")):  # their files have the same names
        raise InputError(
            f"--output_dir must be a new folder or a run of `albert pretrain`. Received {folder}, a run of "
            "`albert finetune`; name another one."
        )
    if not flags.do_train and not flags.init_checkpoint and not steps_in(folder / CHECKPOINTS):
        raise InputError(
            "--do_eval without --do_train needs a model: --init_checkpoint, or a run with checkpoints in "
            f"--output_dir. {folder} has none."
        )
    config = _find_config(flags)
    return complete(flags, config, read_phases(flags, config))


def complete(flags: PretrainingFlags, config: AlbertConfig, data: tuple[PhaseData, ...]) -> PretrainingPlan:
    """The plan of a run with these phases."""
    phases = tuple(each.phase for each in data)
    if flags.early_stopping_patience and not (flags.do_eval and phases[-1].eval_file):
        raise InputError(
            "--early_stopping_patience needs evaluations of the last phase: --do_eval and its eval_file (without "
            "--phase, --eval_file). Received it without; add both."
        )
    longest, steps = max(phases, key=lambda phase: phase.max_seq_length), phases[-1].end_step
    if (flags.num_decay_steps or 0) > steps:
        raise InputError(
            "--num_decay_steps must be at most the number of training steps. Received "
            f"{flags.num_decay_steps} of {steps}."
        )
    warmup = min(_PAPER_WARMUP, steps // 10) if flags.num_warmup_steps is None else flags.num_warmup_steps
    resolved = {
        "backend": flags.chosen_backend,
        "optimizer": _optimizer(flags),
        "num_train_steps": steps,
        "max_seq_length": longest.max_seq_length,
        "max_predictions_per_seq": longest.max_predictions_per_seq,
        "learning_rate": flags.learning_rate or _default_learning_rate(flags.optimizer, phases[0]),
        "num_warmup_steps": warmup,
    }
    manifest, ends = data[-1].train.manifest, [phase.end_step for phase in phases]
    plan = PretrainingPlan(
        **{**vars(flags), **resolved},
        phases=phases,
        folder=working_folder(flags.output_dir, flags),
        config=config,
        data=data,
        manifest=manifest,
        vocabulary=_find_vocabulary(flags, manifest),
        timetable=Timetable(
            flags.log_steps,
            flags.save_checkpoints_steps,
            ends,
            kept=[steps - flags.num_decay_steps] if flags.num_decay_steps else [],
        ),
    )
    return dataclasses.replace(plan, notes=tuple(_notes(flags, plan))) if plan.do_train else plan


def _find_config(flags: PretrainingFlags) -> AlbertConfig:
    """The configuration that is given, or that of the run in --output_dir, or of --init_checkpoint."""
    run_config = working_folder(flags.output_dir, flags) / CONFIG_FILE
    if flags.albert_config_file:
        return AlbertConfig.from_json_file(flags.albert_config_file)
    if run_config.is_file():
        return AlbertConfig.from_json_file(run_config)
    if flags.init_checkpoint:
        return _with_all_pieces(read_config(flags.init_checkpoint), flags)
    raise InputError(
        "A new model needs its sizes. Received neither --albert_config_file nor --init_checkpoint; name a model "
        "to train further, or a configuration. `AlbertConfig.from_preset('albert_base_v2', vocab_size=30000)"
        ".to_json_file('albert_config.json')` writes one."
    )


def _with_all_pieces(config: AlbertConfig, flags: PretrainingFlags) -> AlbertConfig:
    """A model's configuration, with a row for each piece of the examples' vocabulary."""
    first = expand_files(phases_in(flags)[0]["input_file"])[:1]
    sizes = [manifest.vocabulary.size for manifest in manifests_of(first).values()]
    return dataclasses.replace(config, vocab_size=max([config.vocab_size, *sizes]))


def _optimizer(flags: PretrainingFlags) -> str:
    """The optimizer; for an evaluation alone the one whose moments are in the run's checkpoints."""
    stored = working_folder(flags.output_dir, flags) / SETTINGS_FILE
    if flags.do_train or not stored.is_file():
        return flags.optimizer
    optimizer = read_json_object(stored).get("optimizer")
    return optimizer if optimizer in _PUBLISHED_RATES else flags.optimizer


def _default_learning_rate(optimizer: str, first: Phase) -> float:
    """The published rate of the optimizer, scaled by the square root of the batch of the first phase."""
    rate, batch, _ = _PUBLISHED_RATES[optimizer]
    return float(f"{rate * math.sqrt(first.train_batch_size / batch):.3g}")


def _find_vocabulary(flags: PretrainingFlags, manifest: Manifest | None) -> Vocabulary | None:
    """The vocabulary of --spm_model_file, or the one that the manifest names if that file is still there."""
    if flags.spm_model_file:
        path = Path(flags.spm_model_file)
        if file_size(path) is None:
            raise InputError(
                f"--spm_model_file must name a SentencePiece model or a vocab.txt. There is no file {path}."
            )
        return manifest.vocabulary.read(path) if manifest else Vocabulary.read(path)
    if manifest and file_size(Path(manifest.vocabulary_here.file)) is not None:
        return manifest.vocabulary_here.read()
    return None


def _notes(flags: PretrainingFlags, plan: PretrainingPlan) -> Iterator[str]:
    """What the run goes without, what the defaults stand for, and settings that are wrong."""
    for values, phase in zip(phases_in(flags), plan.phases, strict=True):
        if (batch := values["train_batch_size"]) > phase.train_batch_size:
            yield (
                f"train_batch_size={batch}: a batch has all {phase.num_examples:,} examples of {phase.input_file}"
            )
    for each in plan.data:
        if shares := each.train.shares:
            parts = zip(shares, split_patterns(each.phase.input_file), strict=True)
            yield "mixture: " + ", ".join(
                f"{share:.1%} of the examples from {files}" for share, files in parts
            )
    has_eval_file = any(phase.eval_file for phase in plan.phases)
    if plan.do_eval and not has_eval_file:
        yield "no evaluation: --do_eval needs --eval_file, since it never reads the training files"
    if has_eval_file and not plan.do_eval:
        yield "no evaluation: --eval_file is read only with --do_eval"
    if plan.manifest and not plan.vocabulary and not find_vocabulary(plan.folder, ["spm.model"]):
        yield (
            f"no vocabulary: {plan.manifest.vocabulary_here.file}, which the examples were prepared with, is no "
            "longer there; name its new place with --spm_model_file, since fine-tuning and export need it"
        )
    if len(plan.phases) > 1:
        yield _cost(plan.phases, plan.config)
    if flags.learning_rate is None:
        rate, batch, source = _PUBLISHED_RATES[plan.optimizer]
        yield (
            f"learning rate {plan.learning_rate:g} = {source} {rate:g} for batches of {batch}, times "
            f"sqrt({plan.phases[0].train_batch_size} / {batch}); --learning_rate sets another"
        )
    for each in plan.data:
        T, P = each.phase.max_seq_length, each.phase.max_predictions_per_seq
        share = each.train.manifest.settings.masked_lm_prob if each.train.manifest else _MASKED
        if P < 0.9 * share * T:
            yield (
                f"warning: {P} predictions are at most {P / T:.1%} of {T} tokens, but {share:.0%} should be "
                f"masked: {P / (share * T):.0%} of the predictions fit. Prepare the examples with "
                f"--max_predictions_per_seq={math.ceil(share * T)}"
            )
    if plan.num_warmup_steps >= plan.num_train_steps:
        yield (
            f"warning: the warm-up of {plan.num_warmup_steps:,} steps is not shorter than the training of "
            f"{plan.num_train_steps:,}; the paper's is 2.5% of the steps (--num_warmup_steps)"
        )


def _cost(phases: Sequence[Phase], config: AlbertConfig) -> str:
    """The phases of a run, and their cost beside that of as many steps like those of the longest phase."""

    def step_flops(phase: Phase) -> int:
        flops = training_flops(config, phase.max_seq_length, phase.max_predictions_per_seq)
        return phase.train_batch_size * flops

    longest = max(phases, key=lambda phase: phase.max_seq_length)
    steps = phases[-1].end_step
    share = sum(phase.num_train_steps * step_flops(phase) for phase in phases) / (steps * step_flops(longest))
    return (
        f"{len(phases)} phases, {', then '.join(map(str, phases))}: {share:.0%} of the FLOPs of {steps:,} steps "
        f"of {longest.train_batch_size} at T={longest.max_seq_length}"
    )
