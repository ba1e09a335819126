"""The task model that finds the answer to a question in a text."""

from collections.abc import Sequence

import keras
from keras import ops

from albert_tf.checkpoints.names import ANSWERS, CONDITIONAL_SPAN_HEAD, SPAN_HEAD
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.tasks.preprocessor import as_texts
from albert_tf.tasks.spans.answers import EVEN_ODDS, Answer, SquadPredictions, predict_answers
from albert_tf.tasks.spans.features import QuestionPreprocessor
from albert_tf.tasks.spans.heads import ConditionalSpanHead, SpanHead
from albert_tf.tasks.task_model import TaskModel, cross_entropy
from data_prep.errors import InputError


@keras.saving.register_keras_serializable(package="albert_tf")
class QuestionAnswering(TaskModel):
    """Finds where the answer starts and ends, with the head of SQuAD 1.1 or of SQuAD 2.0 (paper, section 4.1).

    Args:
      encoder: as for `TaskModel`.
      answerable: True for the head of SQuAD 2.0 (`ConditionalSpanHead`), which finds the end given the start, and
        whether there is an answer; False for two linear outputs (`SpanHead`).
      beam: K, the number of starts in the beam search of SQuAD 2.0.
      end_beam: J, the number of ends for each start. Default: K.
      classifier_dropout: dropout rate before the last layer of the answerability head.
      preprocessor, seed: as for `TaskModel`.

    Call args:
      inputs: a dict of integers (B, T): `input_ids` of [CLS] question [SEP] context [SEP], `input_mask`,
        `token_type_ids` and optionally `p_mask`, 1 for tokens that cannot be part of an answer; padding never can.
        Labels are integers (B,): `start_positions` and `end_positions`, 0 if the window holds no answer, and with
        `answerable` `is_impossible`, 1 if there is no answer.

    Returns:
      A dict of float32 arrays. Without `answerable`: `start_logits` and `end_logits` (B, T). With it:
      `answerable_logits` (B,), above 0 if there is an answer; outside training the results of the beam search,
      `start_top_log_probs` (B, K), `end_top_log_probs` (B, K*J), and int32 `start_top_index` and `end_top_index`
      of the same shapes; and if the dict has `start_positions`, for the loss, `start_logits` and `end_logits`
      (B, T), the latter given these starts.

    >>> model = QuestionAnswering.from_pretrained("runs/base")
    >>> answers = model.answer(["Who sailed?"], ["The captain sailed past the lighthouse."])
    >>> len(answers)
    1
    """

    default_name, kind, use = "question_answering", "question_answering", ANSWERS
    preprocessor_class, head_name, has_windows = QuestionPreprocessor, "span", True
    input_names = (*TaskModel.input_names, "p_mask")
    has_token_outputs = True

    def __init__(
        self,
        encoder: AlbertEncoder,
        *,
        answerable: bool = False,
        beam: int = 5,
        end_beam: int | None = None,
        classifier_dropout: float = 0.1,
        preprocessor=None,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(encoder, preprocessor=preprocessor, seed=seed, **kwargs)
        self.answerable, self.classifier_dropout = answerable, classifier_dropout
        self.beam, self.end_beam = beam, end_beam or beam
        config, dtype = encoder.config, self.dtype_policy
        self.head_part = CONDITIONAL_SPAN_HEAD if answerable else SPAN_HEAD
        self.span = (
            ConditionalSpanHead(config, self.seeds, beam, self.end_beam, classifier_dropout, dtype=dtype)
            if answerable
            else SpanHead(config, self.seeds, dtype=dtype)
        )
        encoder.pooler.trainable = False  # its output is not used
        self.build()

    def build(self, input_shape=None):
        self.span.build((None, None, self.encoder.config.hidden_size))
        self.built = True

    def answer(
        self,
        questions: Sequence[str],
        contexts: Sequence[str],
        *,
        null_threshold: float = EVEN_ODDS,
        **options,
    ) -> list[Answer | None]:
        """The best answer to each question, a part of its context; None if the model finds that there is none.

        Args:
          questions: N questions.
          contexts: N contexts, of any length.
          null_threshold: of a model of SQuAD 2.0, the null odds above which there is no answer; `threshold` in the
            results.json of a run is the best one for its dev set.
          **options: as for `best_answers`.

        Raises:
          InputError: the model has no vocabulary.
        """
        found = self.best_answers(questions, contexts, **options)
        texts = found.texts(null_threshold)
        return [found.n_best[id_][0] if text else None for id_, text in texts.items()]

    def best_answers(
        self,
        questions: Sequence[str],
        contexts: Sequence[str],
        *,
        n_best: int = 1,
        max_answer_length: int = 30,
        batch_size: int = 32,
    ) -> SquadPredictions:
        """The best answers to each question; the questions' ids are their numbers.

        Args:
          questions: N questions.
          contexts: N contexts, of any length.
          n_best: number of answers per question.
          max_answer_length: in tokens.
          batch_size: windows per batch.

        Raises:
          InputError: the model has no vocabulary.
        """
        preprocessor = self._needed_preprocessor()
        examples = preprocessor.examples((as_texts(questions), as_texts(contexts)))
        if not examples:
            return SquadPredictions({})
        windows = preprocessor.windows(examples)
        rows = self._rows_of(preprocessor.inputs(windows), batch_size, verbose=0)
        return predict_answers(examples, windows, rows, n_best=n_best, max_answer_length=max_answer_length)

    def _features(self, x, y, sample_weight):
        if y is not None and not self.answerable:
            examples = self._needed_preprocessor().examples(x, y)
            if without := [example.id for example in examples if example.is_impossible]:
                raise InputError(
                    "The head of SQuAD 1.1 needs an answer to every question. Received "
                    f"{len(without):,} empty ones, first in number {without[0]}: give the model `answerable=True`."
                )
        return super()._features(x, y, sample_weight)

    def call(self, inputs, training=False):
        tokens = self.encoder_outputs(inputs, training)["sequence_output"]
        cannot_answer = ops.zeros_like(inputs["input_ids"])
        if "p_mask" in inputs:
            cannot_answer = ops.cast(inputs["p_mask"], "int32")
        if "input_mask" in inputs:
            cannot_answer = ops.maximum(cannot_answer, 1 - ops.cast(inputs["input_mask"], "int32"))
        if not self.answerable:
            return self.span(tokens, cannot_answer)
        starts = inputs.get("start_positions")
        return self.span(tokens, cannot_answer, starts, search=not training, training=training)

    def labels_of(self, x, y, sample_weight):
        """A dict of labels, `y` or the inputs themselves, and weights."""
        if sample_weight is None and isinstance(x, dict):
            sample_weight = x.get("sample_weight")
        return x if y is None else y, sample_weight

    def task_losses(self, y, outputs):
        start = cross_entropy(y["start_positions"], outputs["start_logits"])
        losses = (start + cross_entropy(y["end_positions"], outputs["end_logits"])) / 2
        if self.answerable:
            has_answer = 1.0 - ops.cast(y["is_impossible"], "float32")
            losses = losses + 0.5 * ops.binary_crossentropy(
                has_answer, outputs["answerable_logits"], from_logits=True
            )
        return losses

    @classmethod
    def _fits(cls, head, arguments):
        if not super()._fits(head, arguments):
            return False
        answerable = head.size.part == CONDITIONAL_SPAN_HEAD
        return arguments.get("answerable", answerable) == answerable

    @classmethod
    def _head_arguments(cls, head, **arguments):
        answerable = head.size.part == CONDITIONAL_SPAN_HEAD
        return super()._head_arguments(head, **{"answerable": answerable, **arguments})

    def get_config(self):
        return {
            **super().get_config(),
            "answerable": self.answerable,
            "beam": self.beam,
            "end_beam": self.end_beam,
            "classifier_dropout": self.classifier_dropout,
        }
