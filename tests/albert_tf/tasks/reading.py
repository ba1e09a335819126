"""Reading a split as the programs do."""

from albert_tf.tasks.problems import Problems
from albert_tf.tasks.reading import read_examples
from albert_tf.tasks.splits import Example
from albert_tf.tasks.task import find_task


def read(task: str, data, split: str = "train", **arguments) -> tuple[list[Example], Problems]:
    """The examples of a split, and what was wrong with others."""
    problems = Problems()
    return read_examples(find_task(task), data, split, problems, **arguments), problems
