"""The settings of a run without files: lengths are given, as if read from them."""

from albert_tf.pretraining.flags import (
    PretrainingFlags,
    PretrainingPlan,
    given_phases,
    with_defaults,
)
from albert_tf.pretraining.phases import ResolvedPhase


def resolved(*lengths: tuple[int, int], **flags) -> PretrainingPlan:
    """The settings of a run with these flags, and T and P of each phase."""
    flags = {
        "output_dir": "run",
        "do_train": True,
        "input_file": None if "phase" in flags else "data",
        **flags,
    }
    settings = PretrainingFlags(albert_config_file="config", **flags)
    phases: list[ResolvedPhase] = []
    for phase, (T, P) in zip(given_phases(settings), lengths, strict=True):
        start_step = phases[-1].end_step if phases else 0
        phases.append(phase.resolve(T, P, start_step, num_examples=1000, num_bytes=100_000))
    return with_defaults(settings, phases)
