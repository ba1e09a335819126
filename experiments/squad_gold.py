"""Checks that SQuAD's answers survive preprocessing.

It decodes the gold positions and compares the text as the official script does.

For example:

    python -m experiments.squad_gold --data_file=dev-v1.1.json --spm_model_file=30k-clean.model

Prints one JSON object: exact match in percent over all questions that have an answer, and the lost answers with
the reason.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert_cli import program
from albert_tf.tasks.benchmarks.squad import answer_span
from albert_tf.tasks.examples import Problems, QuestionExample
from albert_tf.tasks.reading import read_examples
from albert_tf.tasks.spans.metrics import exact
from albert_tf.tasks.spans.windows import Window, question_windows
from albert_tf.tasks.task import find_task
from data_prep.tokenizers.vocabulary import Tokenizer, load_tokenizer


@dataclass(frozen=True)
class GoldSettings:
    """What is checked.

    Attributes:
      data_file: SQuAD's JSON file.
      spm_model_file: SentencePiece model of the vocabulary.
      vocab_file: WordPiece vocab.txt in place of --spm_model_file, for example of a Chinese checkpoint.
      do_lower_case: --nodo_lower_case declares a cased vocabulary. Default: what the settings file beside the
        vocabulary says, or lower case without one.
      max_seq_length: maximum length of a window, in tokens.
      max_query_length: maximum length of a question, in tokens.
      doc_stride: number of tokens between the starts of successive windows of a long context.
    """

    data_file: Path
    spm_model_file: str | None = None
    vocab_file: str | None = None
    do_lower_case: bool | None = None
    max_seq_length: int = 384
    max_query_length: int = 64
    doc_stride: int = 128


def main(settings: GoldSettings) -> dict[str, Any]:
    """Checks a file and prints the result."""
    problems = Problems()
    # The reader for version 2.0 also reads files of version 1.1.
    examples = read_examples(find_task("squad2.0"), settings.data_file, "dev", problems)
    tokenizer = load_tokenizer(settings.spm_model_file, settings.vocab_file, settings.do_lower_case)
    lengths = settings.max_seq_length, settings.max_query_length, settings.doc_stride
    result = check_gold([e for e in examples if isinstance(e, QuestionExample)], tokenizer, *lengths)
    result = {"file": settings.data_file.name, **result, "problems": problems.lines()}
    print(json.dumps(result, ensure_ascii=False, indent=2))
    return result


def check_gold(examples: Sequence[QuestionExample], tokenizer: Tokenizer, *lengths: int) -> dict[str, Any]:
    """Exact match of the decoded gold positions.

    Args:
      examples: questions; those without an answer do not count.
      tokenizer: the vocabulary and its rules.
      *lengths: max_seq_length, max_query_length and doc_stride of `question_windows`.

    Returns:
      Counts of questions, of those with an answer, and of windows; exact_match in percent, where a question counts
      if every window that holds its answer decodes to an accepted one; and `lost`, the others.
    """
    windows = question_windows(examples, tokenizer, *lengths)
    holding: dict[str, list[Window]] = defaultdict(list)
    for window in windows:
        if not window.is_impossible:
            holding[window.example_id].append(window)
    answerable = [example for example in examples if example.answers and not example.is_impossible]
    lost = []
    for example in answerable:
        texts = [
            window.text(example.context, window.start_position, window.end_position)
            for window in holding[example.id]
        ]
        if not texts or not all(any(exact(text, answer) for answer in example.answers) for text in texts):
            lost.append(_lost(example, texts))
    return {
        "questions": len(examples),
        "with_answer": len(answerable),
        "windows": len(windows),
        "windows_with_answer": sum(map(len, holding.values())),
        "exact_match": 100.0 * (1 - len(lost) / max(1, len(answerable))),
        "lost": lost,
    }


def _lost(example: QuestionExample, texts: list[str]) -> dict[str, Any]:
    spans = [
        answer_span(example.context, answer, start)
        for answer, start in zip(example.answers, example.answer_starts, strict=True)
    ]
    if not any(spans):
        why = "no answer is at its offset"
    elif not texts:
        why = "no window holds the whole answer"
    else:
        why = "every answer begins or ends inside a piece"
    return {"id": example.id, "why": why, "answers": sorted(set(example.answers)), "decoded": texts}


if __name__ == "__main__":
    sys.exit(program.run_with_settings(main, GoldSettings, __doc__))
