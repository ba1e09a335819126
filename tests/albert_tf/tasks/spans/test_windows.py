"""Windows over contexts: no token is lost, answers keep their place, each token has one best window."""

import numpy as np
import pytest

from albert_tf.tasks.problems import Problems
from albert_tf.tasks.spans.metrics import exact
from albert_tf.tasks.spans.rows import QuestionExample
from albert_tf.tasks.spans.windows import gold_tokens, question_windows, report_unreachable, window_features
from data_prep.errors import InputError
from tests.story import ENDS, OBJECTS, SUBJECTS, VERBS

LENGTHS = (40, 10, 12)  # max_seq_length, max_query_length, doc_stride


@pytest.fixture(scope="module")
def examples():
    """Questions on contexts of one to a dozen sentences, whose answers are complete words."""
    rng = np.random.default_rng(0)
    made = []
    for number in range(60):
        sentences = [
            " ".join(str(rng.choice(part)) for part in (SUBJECTS, VERBS, OBJECTS)) + str(rng.choice(ENDS))
            for _ in range(rng.integers(1, 12))
        ]
        context = ("  " if number % 3 else "\n").join(sentences)
        words = [i for i, character in enumerate(context) if not i or context[i - 1].isspace()]
        words = [i for i in words if not context[i].isspace()]
        start = int(rng.choice(words))
        answer = " ".join(context[start:].split()[: rng.integers(1, 5)])
        question = f"What of {rng.choice(OBJECTS)}" + " or else" * int(rng.integers(0, 6)) + "?"
        made.append(QuestionExample(f"q{number}", question, context, (answer,), (start,)))
    return made


def by_question(windows):
    found = {}
    for window in windows:
        found.setdefault(window.example_id, []).append(window)
    return found


def test_windows_have_the_question_and_cover_the_context(examples, tokenizer):
    windows = by_question(question_windows(examples, tokenizer, *LENGTHS))
    assert list(windows) == [example.id for example in examples]
    assert max(map(len, windows.values())) > 3
    for example in examples:
        query = tokenizer.encode(example.question)[:10]
        context = tokenizer.encode_with_offsets(example.context)
        seen = np.zeros(len(context.ids), bool)
        for number, window in enumerate(windows[example.id]):
            ids, T = window.input_ids.tolist(), len(window.input_ids)
            begin = 12 * number
            end = min(begin + 40 - len(query) - 3, len(context.ids))
            assert ids == [
                tokenizer.cls_id, *query, tokenizer.sep_id, *context.ids[begin:end], tokenizer.sep_id,
            ]  # fmt: skip
            assert T <= 40
            seen[begin:end] = True
            head = len(query) + 2
            assert window.token_type_ids.tolist() == [0] * head + [1] * (T - head)
            assert window.p_mask.tolist() == [0] + [1] * (head - 1) + [0] * (T - head - 1) + [1]
            assert window.begins.tolist() == [-1] * head + context.offsets[begin:end, 0].tolist() + [-1]
            assert window.ends.tolist() == [-1] * head + context.offsets[begin:end, 1].tolist() + [-1]
        assert seen.all()


@pytest.mark.parametrize("max_seq_length", [40, 41])
def test_each_token_has_most_context_in_one_window(examples, tokenizer, max_seq_length):
    """In windows of an even and of an odd number of tokens."""
    windows = by_question(question_windows(examples, tokenizer, max_seq_length, *LENGTHS[1:]))
    for example in examples:
        spans = []
        for number, window in enumerate(windows[example.id]):
            spans.append((12 * number, 12 * number + len(window.offsets)))
            assert not window.is_max_context[window.begins < 0].any()
        for token in range(spans[-1][1]):
            scores = [
                min(token - begin, end - 1 - token) + 0.01 * (end - begin) if begin <= token < end else -1
                for begin, end in spans
            ]
            flags = [
                bool(window.is_max_context[window.context_begin + token - begin])
                for window, (begin, end) in zip(windows[example.id], spans, strict=True)
                if begin <= token < end
            ]
            assert sum(flags) == 1
            best = scores.index(max(scores))
            holding = [i for i, (begin, end) in enumerate(spans) if begin <= token < end]
            assert holding[flags.index(True)] == best


def test_gold_positions_decode_to_the_answer(examples, tokenizer):
    windows = by_question(question_windows(examples, tokenizer, *LENGTHS))
    for example in examples:
        holding = [window for window in windows[example.id] if not window.is_impossible]
        assert holding
        for window in windows[example.id]:
            start, end = window.start_position, window.end_position
            if window.is_impossible:
                assert (start, end) == (0, 0)
            else:
                assert exact(window.text(example.context, start, end), example.answers[0])
                assert not window.p_mask[[start, end]].any()


def test_an_answer_that_a_window_truncates_is_not_in_it(tokenizer):
    context = " ".join(f"apples {i}" for i in range(30))
    answer = " ".join(context.split()[14:22])
    example = QuestionExample("q", "What?", context, (answer,), (context.index(answer),))
    windows = question_windows([example], tokenizer, *LENGTHS)
    assert {window.is_impossible for window in windows} == {True, False}
    for window in windows:
        begins, ends = window.begins[window.begins >= 0], window.ends[window.ends >= 0]
        whole = begins[0] <= context.index(answer) and context.index(answer) + len(answer) <= ends[-1]
        assert window.is_impossible == (not whole)


def test_the_first_answer_at_piece_boundaries(tokenizer):
    text = "She painted the lighthouse."
    offsets = tokenizer.encode_with_offsets(text).offsets
    assert gold_tokens(QuestionExample("q", "?", text, ("light",), (16,)), offsets) is not None
    for answers, starts in (((("ghth"), "the lighthouse"), (18, 12)), (("the lighthouse", "She"), (12, 0))):
        first, last = gold_tokens(QuestionExample("q", "?", text, answers, starts), offsets)
        assert text[offsets[first, 0] : offsets[last, 1]] == "the lighthouse"


def test_answers_without_a_piece_or_that_end_inside_one():
    """The next answer is used."""
    offsets = np.array([[0, 10], [11, 17]])
    inside = QuestionExample("q", "?", "lighthouse keeper", ("light", "keeper"), (0, 11))
    assert gold_tokens(inside, offsets) == (1, 1)
    without = QuestionExample("q", "?", "lighthouse keeper", ("keeper", "lighthouse"), (11, 0))
    assert gold_tokens(without, offsets[:1]) == (0, 0)


@pytest.mark.parametrize(
    "example",
    [
        QuestionExample("q", "Who?", "Nobody.", (), (), True),
        QuestionExample("q", "Who?", "Nobody.", ("Nobody",), (0,), True),
        QuestionExample("q", "Who?", "Nobody.", ("Ann",), (3,)),
        QuestionExample("q", "Who?", "", (), ()),
    ],
)
def test_no_answer(tokenizer, example):
    [window] = question_windows([example], tokenizer, *LENGTHS)
    assert (window.start_position, window.end_position, window.is_impossible) == (0, 0, True)


def test_arrays(examples, tokenizer):
    windows = question_windows(examples, tokenizer, *LENGTHS)
    for window, arrays in zip(windows, window_features(windows), strict=True):
        assert {name: values.shape for name, values in arrays.items()} == {
            "input_ids": window.input_ids.shape,
            "token_type_ids": window.input_ids.shape,
            "p_mask": window.input_ids.shape,
            "start_positions": (),
            "end_positions": (),
            "is_impossible": (),
        }
        assert {values.dtype for values in arrays.values()} == {np.dtype(np.int32)}
        assert arrays["is_impossible"] == (arrays["end_positions"] == 0)


def test_answers_longer_than_a_window_are_reported(examples, tokenizer):
    context = "The captain painted apples. " * 12
    whole = QuestionExample("whole", "What?", context, (context.strip(),), (0,))
    examples = [*examples, whole, QuestionExample("none", "What?", context, (), (), True)]
    problems = Problems()
    report_unreachable(examples, question_windows(examples, tokenizer, *LENGTHS), problems)
    assert problems.lines() == [
        '1 row: answer in no window, treated as "no answer" (question whole: 335 characters, '
        "'The captain painted apples. The captain painted apples. ...)"
    ]


@pytest.mark.parametrize("lengths", [(40, 10, 28), (40, 10, 0), (13, 10, 1)])
def test_strides_that_skip_tokens(tokenizer, lengths):
    with pytest.raises(InputError, match="`doc_stride` must be between 1 and the room"):
        question_windows([], tokenizer, *lengths)
