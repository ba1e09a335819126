"""The lines that a run prints."""

import pytest

from albert_tf.pretraining.figures import WORDING
from albert_tf.training.run_log import TrainingProgress

SKIPPED = {"skipped_steps": 5, "tokens_per_second": 1234.5}
TAKEN = {"loss": 4.5, "masked_lm_accuracy": 0.25, "sentence_order_accuracy": 0.5, "tokens_per_second": 1234.5}


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (TAKEN, "step  5/20  loss 4.500  MLM 0.250  SOP 0.500  1,234 tokens/s  1:05 left"),
        (
            SKIPPED,
            "step  5/20  all 5 steps skipped: the loss or gradient is not finite  1,234 tokens/s  1:05 left",
        ),
    ],
)
def test_a_logged_step(capfd, values, line):
    with TrainingProgress(20, 0, WORDING) as progress:
        progress.update(5, values, 65.0)
    assert capfd.readouterr().err == f"{line}\n"


def test_names_in_brackets_are_not_markup(capfd):
    with TrainingProgress(20, 0, WORDING) as progress:
        progress.say("resuming the run in runs/[bold]a[/b]")
    assert capfd.readouterr().err == "resuming the run in runs/[bold]a[/b]\n"
