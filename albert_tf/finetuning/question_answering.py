"""The span of a text that answers a question."""

from collections.abc import Sequence

import keras
from keras import ops

from albert_tf.evaluation.squad_predictions import Answer, SquadPredictions, predict_answers
from albert_tf.finetuning.heads import ConditionalSpanHead, SpanHead
from albert_tf.finetuning.preprocessor import QuestionPreprocessor
from albert_tf.finetuning.task_model import TaskModel, cross_entropy
from albert_tf.model.encoder import AlbertEncoder


@keras.saving.register_keras_serializable(package="albert_tf")
class QuestionAnswering(TaskModel):
    """Where the answer starts and ends: the linear head of SQuAD 1.1, or that of 2.0 (paper, section 4.1).

    Args:
      encoder: as for `TaskModel`.
      answerable: True for the head of SQuAD 2.0, which finds the end given the start, and whether there is an
        answer (`ConditionalSpanHead`).
      beam: of that head, how many starts are tried and ends for each.
      classifier_dropout: of that head, before the last layer of the answerability.
      preprocessor, seed: as for `TaskModel`.

    Call args:
      inputs: a dict of integers (B, T): `input_ids`, [CLS] question [SEP] context [SEP], `input_mask`,
        `token_type_ids` and, if known, `p_mask`, 1 for tokens that are no part of an answer; padding never is.
        Labels are integers (B,) `start_positions` and `end_positions`, 0 where there is no answer in the window,
        and with `answerable` `is_impossible`, 1 where there is none.

    Returns:
      A dict of float32 arrays. Without `answerable`: `start_logits` and `end_logits` (B, T). With it, K being
      `beam`: `answerable_logits` (B,), above 0 where there is an answer; unless in training, what the beam found:
      `start_top_log_probs` (B, K), `end_top_log_probs` (B, K*K) and int32 `start_top_index` and `end_top_index` of
      the same shapes; and where the dict has `start_positions` `start_logits` and `end_logits` (B, T), the latter
      given these starts, for the loss.
    """

    default_name = "question_answering"
    preprocessor_class = QuestionPreprocessor
    has_token_outputs = True

    def __init__(
        self,
        encoder: AlbertEncoder,
        *,
        answerable: bool = False,
        beam: int = 5,
        classifier_dropout: float = 0.1,
        preprocessor=None,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(encoder, preprocessor=preprocessor, seed=seed, **kwargs)
        self.answerable, self.beam, self.classifier_dropout = answerable, beam, classifier_dropout
        config, dtype = encoder.config, self.dtype_policy
        self.span = (
            ConditionalSpanHead(config, self.seeds, beam, classifier_dropout, dtype=dtype)
            if answerable
            else SpanHead(config, self.seeds, dtype=dtype)
        )
        encoder.pooler.trainable = False  # nothing is made of it
        self.build()

    def build(self, input_shape=None):
        self.span.build()
        self.built = True

    def answer(self, questions: Sequence[str], contexts: Sequence[str], **options) -> list[Answer | None]:
        """The best answer to each question, cut out of its context; None where the model holds that there is none.

        Args:
          questions: N questions.
          contexts: N contexts, of any length.
          **options: of `best_answers`.

        Raises:
          InputError: the model has no vocabulary.
        """
        found = self.best_answers(questions, contexts, **options)
        texts = found.texts(threshold=0.0)
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
        """The best answers to each question.

        Args:
          questions: N questions, whose ids are their numbers.
          contexts: N contexts, of any length.
          n_best: how many.
          max_answer_length: in tokens.
          batch_size: windows at once.

        Raises:
          InputError: the model has no vocabulary.
        """
        preprocessor = self._needed_preprocessor()
        examples = preprocessor.examples((list(questions), list(contexts)))
        windows = preprocessor.windows(examples)
        outputs = self._predict_features(preprocessor.inputs(windows), batch_size, verbose=0)
        scores = [{name: array[i] for name, array in outputs.items()} for i in range(len(windows))]
        return predict_answers(examples, windows, scores, n_best=n_best, max_answer_length=max_answer_length)

    def call(self, inputs, training=False):
        tokens = self.encoder(inputs, training=training)["sequence_output"]
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
        """The labels as a dict: `y`, or the batch's own."""
        if y is None:
            y = x
            sample_weight = x.get("sample_weight") if sample_weight is None else sample_weight
        return y, sample_weight

    def task_losses(self, y, outputs):
        start = cross_entropy(y["start_positions"], outputs["start_logits"])
        losses = (start + cross_entropy(y["end_positions"], outputs["end_logits"])) / 2
        if self.answerable:
            has_answer = 1.0 - ops.cast(y["is_impossible"], "float32")
            losses = losses + 0.5 * ops.binary_crossentropy(
                has_answer, outputs["answerable_logits"], from_logits=True
            )
        return losses

    def get_config(self):
        return {
            **super().get_config(),
            "answerable": self.answerable,
            "beam": self.beam,
            "classifier_dropout": self.classifier_dropout,
        }
