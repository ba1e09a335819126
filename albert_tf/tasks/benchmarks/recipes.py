"""What to train the benchmarks' tasks with: the paper's Table 14."""

from dataclasses import dataclass, replace

from albert_tf.tasks.task_batches import batches_per_epoch


@dataclass(frozen=True)
class Recipe:
    """How one task is fine-tuned, by steps or, for data of any size, by epochs.

    Attributes:
      learning_rate: the peak.
      train_batch_size: examples per step.
      dropout: of the encoder ("ALBERT DR"), on hidden vectors and attention probabilities.
      num_train_steps: steps of the whole run; None if `num_train_epochs` determines them.
      num_warmup_steps: steps of linear warm-up; None for a tenth of the steps.
      max_seq_length: longer texts are truncated; longer contexts of questions become several windows.
      num_train_epochs: passes over the training data.
      classifier_dropout: on the input of the task's head; see `FinetuningFlags`.
    """

    learning_rate: float
    train_batch_size: int
    dropout: float
    num_train_steps: int | None
    num_warmup_steps: int | None
    max_seq_length: int = 512
    num_train_epochs: float = 0
    classifier_dropout: float = 0.1

    def steps(self, examples: int, batch_size: int, epochs: float | None) -> int:
        """How many steps to train: `epochs` if given, otherwise the recipe's length."""
        if epochs is None and self.num_train_steps is not None:
            return self.num_train_steps
        # The last batch of an epoch may have fewer examples; it is a step, too.
        per_epoch = batches_per_epoch(examples, batch_size)
        return max(1, round(per_epoch * (epochs or self.num_train_epochs)))

    def warmup(self, steps: int) -> int:
        """Steps of warm-up: the same share of `steps` as in the recipe."""
        if self.num_train_steps is None or self.num_warmup_steps is None:
            return steps // 10
        return round(self.num_warmup_steps * steps / self.num_train_steps)


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


def for_v2(recipe: Recipe, is_multiple_choice: bool) -> Recipe:
    """A recipe for v2 checkpoints, which were pretrained without dropout.

    Their authors took Table 14 for them, too, "except for RACE, where we use a learning rate of 1e-5 and 0 ALBERT
    DR": with the other one, training diverges (the README of google-research/albert). That is the only result
    published for them in multiple choice, so it also holds for multiple choice on own data.
    """
    return replace(recipe, learning_rate=1e-5, dropout=0.0) if is_multiple_choice else recipe
