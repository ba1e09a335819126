"""What a user should know before a run starts: the learning rate that was chosen, and settings that look wrong."""

import math

from albert_tf.pretraining.settings import PretrainingSettings
from data_prep.examples.manifest import Manifest

# (rate, batch it was published for, where): the paper, section 4.1; Devlin et al. 2019, appendix A.2.
_PUBLISHED = {"lamb": (0.00176, 4096, "the paper's"), "adamw": (0.0001, 256, "BERT's")}
_MASKED = 0.15  # of the tokens, the paper's section 4.1
# The paper's 125,000 steps of 4096 x 512 tokens go about 60 times through its 16 GB of text.
_PAPER_PASSES, _MANY_PASSES = 60, 200


def learning_rate(settings: PretrainingSettings) -> float:
    """The rate that was asked for, or the published one scaled by the square root of the batch."""
    if settings.learning_rate is not None:
        return settings.learning_rate
    rate, batch, _ = _PUBLISHED[settings.optimizer]
    return float(f"{rate * math.sqrt(settings.train_batch_size / batch):.3g}")


def learning_rate_line(settings: PretrainingSettings) -> str:
    """Why the rate is what it is, for a run without --learning_rate."""
    rate, batch, whose = _PUBLISHED[settings.optimizer]
    return (
        f"learning rate {learning_rate(settings):g} = {whose} {rate:g} for batches of {batch}, times "
        f"sqrt({settings.train_batch_size} / {batch}); --learning_rate sets another"
    )


def warnings(settings: PretrainingSettings, examples: int, manifest: Manifest | None) -> list[str]:
    """A line for each known trap that a run is in.

    Args:
      settings: with the lengths of the files.
      examples: how many there are to train on.
      manifest: the examples' manifest, if there is one.
    """
    lines = (
        _few_predictions(settings, manifest),
        _many_passes(settings, examples, manifest),
        _long_warmup(settings),
    )
    return [f"warning: {line}" for line in lines if line]


def _few_predictions(settings: PretrainingSettings, manifest: Manifest | None) -> str | None:
    T, P = settings.max_seq_length, settings.max_predictions_per_seq
    assert T and P, "inputs.py has read them from the files"
    share = manifest.settings.masked_lm_prob if manifest else _MASKED
    if P >= 0.9 * share * T:
        return None
    return (
        f"{P} predictions are at most {P / T:.1%} of {T} tokens, where {share:.0%} were to be masked: "
        f"{P / (share * T):.0%} of the predictions fit. Prepare the examples with "
        f"--max_predictions_per_seq={math.ceil(share * T)}"
    )


def _many_passes(settings: PretrainingSettings, examples: int, manifest: Manifest | None) -> str | None:
    epochs = settings.num_train_steps * settings.train_batch_size / examples
    copies = manifest.settings.dupe_factor if manifest else 1
    if epochs * copies <= _MANY_PASSES:
        return None
    text = f"the {examples:,} examples {epochs:,.0f} times"
    if manifest and copies > 1:
        text += (
            f", and as --dupe_factor was {copies} each of the {manifest.counts.documents:,} documents "
            f"{epochs * copies:,.0f}"
        )
    return (
        f"this run reads {text}; the paper's reads its text about {_PAPER_PASSES} times. More documents help, "
        "or fewer steps; a larger --dupe_factor only masks the same text anew"
    )


def _long_warmup(settings: PretrainingSettings) -> str | None:
    if settings.num_warmup_steps < settings.num_train_steps:
        return None
    return (
        f"the warm-up of {settings.num_warmup_steps:,} steps is not over when training ends after "
        f"{settings.num_train_steps:,}; the paper's takes 2.5% of the steps (--num_warmup_steps)"
    )
