"""The plan of a run without files: sizes and data are given, as if read from them."""

from pathlib import Path

from albert_tf.config import AlbertConfig
from albert_tf.finetuning.flags import FinetuningFlags
from albert_tf.finetuning.plan import FinetuningPlan, complete, find_recipe
from albert_tf.finetuning.task_data import TaskData
from albert_tf.tasks.splits import EncodedSplit
from albert_tf.tasks.task import find_task


def plan_of(
    task: str,
    config: AlbertConfig | None = None,
    data: TaskData | None = None,
    rows: int = 1000,
    replicas: int = 1,
    **flags,
) -> FinetuningPlan:
    """The plan of a run with these flags and so many training examples."""
    found, config = find_task(task), config or AlbertConfig(hidden_dropout_prob=0.1)
    given = FinetuningFlags(task, "run", "data", do_train=True, init_checkpoint="base", **flags)
    length = given.max_seq_length or find_recipe(found, config).max_seq_length
    return FinetuningPlan(
        **complete(given, found, config, {"max_seq_length": length}, rows, replicas),
        definition=found,
        folder=Path("run"),
        seed_numbers=range(1),
        initial=None,
        config=config,
        preprocessor=None,
        data=data or TaskData({"train": [EncodedSplit("train", (), [{}] * rows)]}, ()),
    )
