"""The check of fine-tuning for a model that learns nothing, as a callback of `fit`."""

import math

import keras

from albert_tf.checkpoints.checkpoint_files import say_on_stderr
from albert_tf.tasks.collapse import SHARE_OF_LOSS
from albert_tf.tasks.kinds import find_kind


class CollapseCheck(keras.callbacks.Callback):
    """Says after an epoch if a task model predicts the same for nearly all texts, or has the loss of a guess.

    Where labels are nearly all the same, predictions may be. A loss of your own is not checked.

    Args:
      x: strings that the model is not trained on, as for `fit`.
      y: their labels.
      batch_size: for predictions.

    Attributes:
      seen: what was seen after the last epoch, such as "872 of 872 predictions are 'bad'"; "" if all is well.

    >>> model = TextClassifier.from_pretrained("runs/base", labels=("bad", "good"))
    >>> model.compile(AdamW(2e-5))
    >>> check = CollapseCheck(["Well made.", "A bore."] * 10, ["good", "bad"] * 10)
    >>> history = model.fit(["What a film!", "Wasted."], ["good", "bad"], callbacks=[check], verbose=0)
    >>> fails = bool(check.seen)  # then another seed, or a lower rate
    """

    def __init__(self, x, y, batch_size: int = 32):
        super().__init__()
        self.seen = ""
        self._x, self._y, self._batch_size = x, y, batch_size

    def set_model(self, model):
        super().set_model(model)
        preprocessor, classes = model._needed_preprocessor(), model.labels
        examples = preprocessor.examples(self._x, self._y, classes)
        self._split = preprocessor.split("dev", examples, classes)  # the arrays that every epoch takes

    def on_epoch_end(self, epoch, logs=None):
        model, kind = self.model, find_kind(self.model.kind)
        rows = model._rows_of(self._split.features, self._batch_size, verbose=0)
        self.seen = kind.collapse([self._split], [kind.predictions(self._split, rows, model)])
        # Of an even number of each class, since those of the training data are not known here.
        of_guess = kind.loss_of_guess(model.labels)
        loss = (logs or {}).get("loss", 0.0)
        if not self.seen and of_guess < math.inf and model.loss is None and not model.losses:
            self.seen = (
                f"the loss, {loss:.3f}, is that of a guess" if loss >= SHARE_OF_LOSS * of_guess else ""
            )
        if self.seen:
            advice = "try a lower learning rate, a longer warm-up or another seed"
            say_on_stderr(f"warning: epoch {epoch + 1}: {self.seen}; {advice}")
