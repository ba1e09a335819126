from collections import Counter
from textwrap import wrap

import pytest

from data_prep.text.documents import Document, split_sentences
from data_prep.text.layout import count_layout, is_prose, prose_warning

STORY = (
    "The old house stood at the end of a street that nobody used after the bridge had fallen. A man came once a "
    "week, looked at its windows, wrote something into a book, and went away without a word to anyone. We called "
    "him the surveyor. What he surveyed we did not know, although my brother, who was braver than I, followed "
    "him as far as the station one evening in the rain. He never told us what he had seen there! "
)


def warning_of(documents):
    counts = Counter(documents=len(documents), sentences=sum(map(len, documents)))
    for lines in documents:
        count_layout(Document(tuple(lines)), counts)
    return prose_warning(counts, makes_pairs=True)


@pytest.mark.parametrize(
    "line",
    [
        "It rained. Mr. Knightley came. Nobody spoke.",
        "他来了。她走了！为什么？",
        "राम घर गया। सीता आई। वह चला गया।",
        "وہ آیا۔ وہ گئی۔ پھر چلا گیا۔",
        "لماذا؟ ثم عاد؟ وانتهى.",
        "እሱ መጣ። እሷ ሄደች። ተመለሰ።",
        "သူလာသည်။ သူမသွားသည်။ သူ။",
        "Նա եկավ։ Նա գնաց։ Եկավ։",
    ],
)
def test_lines_of_prose(line):
    assert is_prose(line)
    assert not any(map(is_prose, split_sentences(line, "hi")))


CHINESE = "他每个星期来一次，看看窗户，在本子上写些什么，然后一句话也不说就走了。我们叫他测量员。" * 5
WRAPPED = [[wrap(STORY, width)] * 20 for width in (50, 60, 72, 80, 100)]
WRAPPED.append(
    [wrap(STORY[begin : begin + 110].strip(), 70) for begin in range(0, 400, 20)]
)  # mostly two lines
WRAPPED.append([[CHINESE[i : i + 38] for i in range(0, len(CHINESE), 38)]] * 9)


@pytest.mark.parametrize("documents", WRAPPED)
def test_hard_wrapped_text(documents):
    assert "break off inside a sentence" in warning_of(documents)


def test_one_sentence_per_line_does_not_look_like_prose():
    sentences = split_sentences(STORY)
    assert warning_of([sentences] * 20) is None
    # As in transcripts of speech, whose lines have no punctuation.
    assert warning_of([[line.strip(".!").lower() for line in sentences]] * 20) is None
    words = STORY.split()
    assert warning_of([[" ".join(words[i : i + 3 + i % 7]) for i in range(0, 60, 5)]] * 20) is None
