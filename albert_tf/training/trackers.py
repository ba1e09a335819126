"""Experiment trackers, which get a copy of what a run logs: MLflow and Weights & Biases."""

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from albert_tf.checkpoints.run_files import SETTINGS_FILE
from albert_tf.checkpoints.stored import read_optional_json
from albert_tf.training.device_flags import Tracker
from data_prep.errors import InputError, needs_extra
from data_prep.files import write_json

# Takes a step and its values.
Log = Callable[[int, dict[str, float]], None]

_IDS_FILE = "trackers.json"  # of the run in each tracker, where a resumed run goes on


@contextlib.contextmanager
def tracked(tracker: Tracker | None, run: Path) -> Iterator[Log]:
    """Within this context, what the function logs goes to a run of the tracker; without a tracker, nowhere.

    Args:
      tracker: its name. Its own environment variables say where it is and who logs.
      run: the run's folder, with its settings.json.

    Raises:
      InputError: the tracker's package is missing, or it does not answer.
    """
    if tracker is None:
        yield lambda step, values: None
        return
    ids, settings = read_optional_json(run / _IDS_FILE), read_optional_json(run / SETTINGS_FILE)
    start = {"mlflow": _start_mlflow, "wandb": _start_wandb}[tracker]
    try:
        identity, log, end = start(ids.get(tracker), run, settings)
    except InputError:
        raise
    except Exception as error:  # of many types
        raise InputError(f"--log_to={tracker} could not begin: {error}") from None
    write_json(run / _IDS_FILE, {**ids, tracker: identity})
    try:
        yield log
    finally:
        end()


def _start_mlflow(identity: str | None, run: Path, settings: Mapping[str, Any]) -> tuple[str, Log, Callable]:
    with needs_extra("--log_to=mlflow", "mlflow-skinny", "mlflow"):
        import mlflow
    if not os.environ.get("MLFLOW_TRACKING_URI"):
        raise InputError(
            "--log_to=mlflow needs the environment variable MLFLOW_TRACKING_URI, the address of the server. "
            "Received none."
        )
    started = mlflow.start_run(run_id=identity, run_name=None if identity else str(run))
    if identity is None:
        mlflow.log_params({name: json.dumps(value)[:500] for name, value in settings.items()})

    def log(step: int, values: dict[str, float]) -> None:
        mlflow.log_metrics(values, step=step)

    return started.info.run_id, log, mlflow.end_run


def _start_wandb(identity: str | None, run: Path, settings: Mapping[str, Any]) -> tuple[str, Log, Callable]:
    with needs_extra("--log_to=wandb", "wandb", "wandb"):
        import wandb
    started = wandb.init(id=identity, name=str(run), config=dict(settings), dir=str(run), resume="allow")

    def log(step: int, values: dict[str, float]) -> None:
        started.log({**values, "step": step})

    started.define_metric("*", step_metric="step")
    return started.id, log, started.finish
