"""What to train each task with, where the user does not say: the paper's Table 14."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Recipe:
    """How one task is fine-tuned.

    Attributes:
      learning_rate: the peak.
      train_batch_size: examples a step.
      dropout: of the encoder ("ALBERT DR"), on hidden vectors and on attention probabilities.
      num_train_steps: steps of the whole run; None where `num_train_epochs` says it.
      num_warmup_steps: steps of linear warm-up; None for a tenth of the steps.
      max_seq_length: longer inputs are cut, or slide.
      num_train_epochs: passes through the training data.
      classifier_dropout: on what the task's head reads.
    """

    learning_rate: float
    train_batch_size: int
    dropout: float
    num_train_steps: int | None
    num_warmup_steps: int | None
    max_seq_length: int = 512
    num_train_epochs: float | None = None
    classifier_dropout: float = 0.1


RECIPES = {
    "cola": Recipe(1e-5, 16, 0.0, 5336, 320),
    "sts-b": Recipe(2e-5, 16, 0.0, 3598, 214),
    "sst-2": Recipe(1e-5, 32, 0.0, 20935, 1256),
    "mnli": Recipe(3e-5, 128, 0.0, 10000, 1000),
    "qnli": Recipe(1e-5, 32, 0.0, 33112, 1986),
    "qqp": Recipe(5e-5, 128, 0.1, 14000, 1000),
    "rte": Recipe(3e-5, 32, 0.1, 800, 200),
    "mrpc": Recipe(2e-5, 32, 0.0, 800, 200),
    "wnli": Recipe(2e-5, 16, 0.1, 2000, 250),
    "squad1.1": Recipe(5e-5, 48, 0.0, 3649, 365, max_seq_length=384),
    "squad2.0": Recipe(3e-5, 48, 0.0, 8144, 814),
    "race": Recipe(2e-5, 32, 0.1, 12000, 1000),
}
# On RACE the recipe diverges for v2 checkpoints (the original's README).
_RACE_V2 = replace(RECIPES["race"], learning_rate=1e-5, dropout=0.0)
# The paper knows no such task: within the ranges of its small tasks.
_OWN_DATA = Recipe(2e-5, 32, 0.0, None, None, max_seq_length=128, num_train_epochs=3)
_OWN_QUESTIONS = replace(_OWN_DATA, max_seq_length=384)


def find_recipe(task: str, kind: str, *, without_dropout: bool) -> Recipe:
    """The recipe of a task.

    Args:
      task: the task's name.
      kind: the task's kind, for own data.
      without_dropout: whether the checkpoint was pretrained without dropout, as all v2 checkpoints were.
    """
    recipe = RECIPES.get(task)
    if recipe is None:
        return _OWN_QUESTIONS if kind in ("question_answering", "multiple_choice") else _OWN_DATA
    return _RACE_V2 if task == "race" and without_dropout else recipe


def steps_of(recipe: Recipe, examples: int, steps: int | None, epochs: float | None) -> int:
    """How many steps a run takes.

    Args:
      recipe: with the batch that is used.
      examples: how many there are to train on.
      steps: what the user asked for, if anything.
      epochs: likewise, in passes through the examples.
    """
    epochs = epochs if epochs is not None else recipe.num_train_epochs
    if steps is not None:
        return steps
    if recipe.num_train_steps is not None and epochs is None:
        return recipe.num_train_steps
    assert epochs is not None
    return max(1, round(examples * epochs / recipe.train_batch_size))


def warmup_of(recipe: Recipe, steps: int, warmup: int | None) -> int:
    """Steps of warm-up: as asked for, else the same share of the run as in the recipe."""
    if warmup is not None:
        return warmup
    if recipe.num_train_steps is None or recipe.num_warmup_steps is None:
        return steps // 10
    return round(recipe.num_warmup_steps * steps / recipe.num_train_steps)
