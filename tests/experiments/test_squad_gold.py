"""Answers survive preprocessing, or are listed with the reason."""

import json

import pytest

from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer
from data_prep.tokenizers.vocabulary_training import VocabularySettings, train_vocabulary
from experiments.squad_gold import GoldSettings, main
from tests.story import write_story

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vocabulary")
    story = write_story(folder / "story.txt")
    return train_vocabulary(VocabularySettings(str(story), str(folder / "story"), vocab_size=100))


def write(path, *paragraphs):
    articles = [
        {
            "paragraphs": [
                {
                    "context": context,
                    "qas": [
                        {
                            "id": f"{number}-{answer}",
                            "question": "What?",
                            "answers": [{"text": answer, "answer_start": context.find(answer)}],
                        }
                        for answer in answers
                    ],
                }
            ]
        }
        for number, (context, answers) in enumerate(paragraphs)
    ]
    path.write_text(json.dumps({"data": articles}), encoding="utf-8")
    return path


def test_answers_of_whole_words_survive(tmp_path, model_file, capsys):
    lines = write_story(tmp_path / "other.txt", seed=1).read_text(encoding="utf-8").split("\n")
    contexts = [" ".join(" ".join(lines[i : i + 12]).split()) for i in range(0, len(lines), 12)]
    paragraphs = [(context, [" ".join(context.split()[i : i + 4]) for i in (0, 7)]) for context in contexts]
    path = write(tmp_path / "dev.json", *paragraphs)
    result = main(GoldSettings(path, str(model_file), max_seq_length=64, max_query_length=8, doc_stride=16))
    assert json.loads(capsys.readouterr().out) == result
    assert result["questions"] == result["with_answer"] == 2 * len(contexts)
    assert result["windows"] > result["questions"]
    assert (result["exact_match"], result["lost"], result["problems"]) == (100.0, [], [])


def test_what_is_lost_is_listed(tmp_path, model_file):
    context = "The captain had forgotten 300 apples. " * 3
    pieces = AlbertTokenizer(model_file).encode_with_offsets(context)
    begin, end = next(offset for offset in pieces.offsets.tolist() if offset[1] - offset[0] > 3)
    half, long, far = context[begin : end - 1], context[:-1], "nowhere at all"
    path = write(tmp_path / "dev.json", (context, [half, long, far, "captain"]))
    result = main(GoldSettings(path, str(model_file), max_seq_length=24, max_query_length=8, doc_stride=8))
    assert result["exact_match"] == 25.0
    assert [lost["why"] for lost in result["lost"]] == [
        "every answer begins or ends inside a piece",
        "no window holds the whole answer",
        "no answer is at its offset",
    ]
    assert all(half in text and half != text for text in result["lost"][0]["decoded"])
    assert len(result["problems"]) == 1
