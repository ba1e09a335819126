"""The plan of a run without files: lengths and sizes are given, as if read from them."""

from types import SimpleNamespace

from albert_tf.config import AlbertConfig
from albert_tf.pretraining.flags import PretrainingFlags
from albert_tf.pretraining.phase_data import PhaseData
from albert_tf.pretraining.phases import Phase, phases_in
from albert_tf.pretraining.plan import PretrainingPlan, complete
from data_prep.examples.manifest import Manifest

NUM_EXAMPLES = 1000


def plan_of(
    *lengths: tuple[int, int],
    config: AlbertConfig | None = None,
    manifest: Manifest | None = None,
    **flags,
) -> PretrainingPlan:
    """The plan of a run with these flags, and T and P of each phase."""
    flags = {
        "output_dir": "run",
        "do_train": True,
        "input_file": None if "phase" in flags else "data",
        **flags,
    }
    given = PretrainingFlags(albert_config_file="config", **flags)
    data: list[PhaseData] = []
    for values, (T, P) in zip(phases_in(given), lengths, strict=True):
        sizes = {"num_examples": NUM_EXAMPLES, "num_bytes": 100_000}
        start_step = data[-1].phase.end_step if data else 0
        phase = Phase(**values, max_seq_length=T, max_predictions_per_seq=P, start_step=start_step, **sizes)
        data.append(PhaseData(phase, SimpleNamespace(manifest=manifest, shares=()), None))
    return complete(given, config or AlbertConfig(), tuple(data))
