"""Advice before a run starts: the default learning rate, the cost of phases, and settings that look wrong."""

import math
from collections.abc import Sequence

from albert_tf.config import AlbertConfig
from albert_tf.flops import training_flops
from albert_tf.pretraining.flags import PUBLISHED_RATES, PretrainingPlan
from albert_tf.pretraining.phases import ResolvedPhase
from data_prep.examples.manifest import Manifest

_MASKED = 0.15  # share of the tokens, the paper's section 4.1
# The paper's 125,000 steps of 4096 x 512 tokens read its 16 GB of text about 60 times.
_PAPER_PASSES, _MANY_PASSES = 60, 200
# From runs of small models with AdamW (docs/recipes.md): the steps of warm-up below which they did not leave the
# plateau of frequent pieces, the rate from which they did not, the tokens that did not suffice if sequences were
# long from the start.
_SMALL_WARMUP, _WARMUP = 200, 500
_HIGH_RATE = 0.003
_LONG, _FEW_TOKENS = 128, 10_000_000
_SHORTEST_RUN = 1000  # steps; nobody expects a shorter run to leave it


def learning_rate_line(settings: PretrainingPlan) -> str:
    """The origin of the learning rate, for a run without --learning_rate."""
    rate, batch, source = PUBLISHED_RATES[settings.optimizer]
    return (
        f"learning rate {settings.learning_rate:g} = {source} {rate:g} for batches of {batch}, times "
        f"sqrt({settings.phases[0].train_batch_size} / {batch}); --learning_rate sets another"
    )


def phases_line(phases: Sequence[ResolvedPhase], config: AlbertConfig) -> str:
    """The phases of a run, and their cost beside that of as many steps like those of the longest phase."""

    def step_flops(phase: ResolvedPhase) -> int:
        flops = training_flops(config, phase.max_seq_length, phase.max_predictions_per_seq)
        return phase.train_batch_size * flops

    longest = max(phases, key=lambda phase: phase.max_seq_length)
    steps = phases[-1].end_step
    share = sum(phase.num_train_steps * step_flops(phase) for phase in phases) / (steps * step_flops(longest))
    return (
        f"{len(phases)} phases, {', then '.join(map(str, phases))}: {share:.0%} of the FLOPs of {steps:,} steps "
        f"of {longest.train_batch_size} at T={longest.max_seq_length}"
    )


MEMORIZATION = (
    "warning: the held-out loss has risen for two evaluations while the training loss fell: the model memorizes "
    "its examples. More text helps, or `albert prepare --masking=dynamic`, fewer steps, a smaller model, or "
    "--early_stopping_patience"
)


def warnings(
    settings: PretrainingPlan,
    data: Sequence[tuple[int, Manifest | None]],
    config: AlbertConfig | None = None,
) -> list[str]:
    """A line for each known mistake in the settings.

    Args:
      settings: the run's.
      data: for each phase the number of training examples, and their manifest if there is one.
      config: the model's configuration if the run starts from random weights; None otherwise.
    """
    lines = [
        line
        for phase, (examples, manifest) in zip(settings.phases, data, strict=True)
        for line in (_few_predictions(phase, manifest), _many_passes(phase, examples, manifest))
    ]
    lines += [_long_warmup(settings), _plateau(settings, config) if config else None]
    return [f"warning: {line}" for line in lines if line]


def _few_predictions(phase: ResolvedPhase, manifest: Manifest | None) -> str | None:
    T, P = phase.max_seq_length, phase.max_predictions_per_seq
    share = manifest.settings.masked_lm_prob if manifest else _MASKED
    if P >= 0.9 * share * T:
        return None
    return (
        f"{P} predictions are at most {P / T:.1%} of {T} tokens, but {share:.0%} should be masked: "
        f"{P / (share * T):.0%} of the predictions fit. Prepare the examples with "
        f"--max_predictions_per_seq={math.ceil(share * T)}"
    )


def _many_passes(phase: ResolvedPhase, examples: int, manifest: Manifest | None) -> str | None:
    epochs = phase.num_train_steps * phase.train_batch_size / examples
    copies = manifest.settings.passes if manifest else 1
    if epochs * copies <= _MANY_PASSES:
        return None
    text = f"the {examples:,} examples {epochs:,.0f} times"
    if manifest and copies > 1:
        text += (
            f" and, with --dupe_factor={copies}, each of {manifest.counts.documents:,} documents "
            f"{epochs * copies:,.0f} times"
        )
    return (
        f"this run reads {text}; the paper's run reads its text about {_PAPER_PASSES} times. Use more documents "
        "or fewer steps; a larger --dupe_factor only masks the same text differently"
    )


def _long_warmup(settings: PretrainingPlan) -> str | None:
    if settings.num_warmup_steps < settings.num_train_steps:
        return None
    return (
        f"the warm-up of {settings.num_warmup_steps:,} steps is not shorter than the training of "
        f"{settings.num_train_steps:,}; the paper's is 2.5% of the steps (--num_warmup_steps)"
    )


def _plateau(settings: PretrainingPlan, config: AlbertConfig) -> str | None:
    """Settings with which small models are known to learn no more than how frequent pieces are."""
    first = settings.phases[0]
    if settings.optimizer != "adamw" or settings.num_train_steps < _SHORTEST_RUN:
        return None
    is_small = config.num_hidden_layers <= 3 and config.hidden_size <= 128
    warmup = _SMALL_WARMUP if is_small else _WARMUP
    if settings.num_warmup_steps < warmup:
        half = settings.num_train_steps // 2
        advice = (
            f"{2 * warmup} or more" if 2 * warmup <= half else f"{half}, half of the run, or a longer run"
        )
        return (
            f"with a warm-up of {settings.num_warmup_steps:,} steps, models of this size are known to learn only "
            f"how frequent pieces are. Use --num_warmup_steps={advice}"
        )
    if settings.learning_rate >= _HIGH_RATE:
        return (
            f"with AdamW and a learning rate of {settings.learning_rate:g}, small models are known to learn only "
            "how frequent pieces are. Use --learning_rate=0.002 or less, or --optimizer=lamb"
        )
    tokens = sum(
        phase.num_train_steps * phase.train_batch_size * phase.max_seq_length for phase in settings.phases
    )
    if first.max_seq_length >= _LONG and tokens < _FEW_TOKENS:
        return (
            f"{tokens:,} tokens in sequences of {first.max_seq_length} are known to teach little "
            "more than how frequent pieces are. Begin with a --phase of sequences of 32 tokens"
        )
    return None
