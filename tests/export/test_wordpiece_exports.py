"""The kinds that take text, with a WordPiece vocab.txt as the Chinese checkpoints have."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.runtime.pretrained import load_pretrained
from data_prep.tokenizers.vocabulary import Vocabulary
from data_prep.tokenizers.wordpiece_tokenizer import WordPieceTokenizer
from export.write import export_model
from tests.data_prep.nasty import LINES
from tests.export.conftest import write_source
from tests.export.test_finetuned import saved

TEXTS = [
    "我喜欢[MASK]京，在北京。",
    "The captain[MASK]s 300 Cafés [MASK]!",
    "",
    "[MASK]" * 30,
    "我 " * 30,
    *LINES,
]


@pytest.fixture(scope="module")
def tokenizer(vocab_file) -> WordPieceTokenizer:
    return WordPieceTokenizer(vocab_file)


@pytest.fixture(scope="module")
def exported(vocab_file, tmp_path_factory):
    """A function of kind and task: the model, and its SavedModel."""
    folder = tmp_path_factory.mktemp("wordpiece")
    vocabulary = Vocabulary("wordpiece", vocab_file.read_bytes())
    source = write_source(folder / "source", vocabulary=vocabulary)

    def export(kind, task=None, **options):
        model, file = saved(task, vocab_file, folder) if task else (load_pretrained(source).model, source)
        export_model(file, folder / kind, kind, **options)
        card = (folder / kind / "README.md").read_text(encoding="utf-8")
        assert "Vocabulary: a WordPiece vocab.txt of 96 pieces, lower-cased." in card
        assert (folder / kind / "assets" / "vocab.txt").read_bytes() == vocabulary.content
        return model, tf.saved_model.load(folder / kind)

    return export


@pytest.mark.very_slow
def test_preprocessor(exported, tokenizer):
    _, loaded = exported("preprocessor", seq_length=12)
    ids = [line.tolist() for line in tokenizer.encode_batch(TEXTS)]
    assert loaded.tokenize(tf.constant(TEXTS)).to_list() == ids
    for row, expected in zip(loaded(tf.constant(TEXTS))["input_word_ids"].numpy(), ids, strict=True):
        assert row[row > 0].tolist() == [2, *expected[:10], 3]
    assert int(loaded.tokenize.get_special_tokens_dict()["mask_id"]) == tokenizer.mask_id == 4


@pytest.mark.very_slow
def test_fill_mask(exported, tokenizer):
    """Text after a mask is a word of its own."""
    model, loaded = exported("fill-mask", top_k=3)
    text = "我喜[MASK]京s"
    ids = [2, *tokenizer.encode("我喜"), 4, *tokenizer.encode("京s"), 3]
    logits = model({"input_ids": np.array([ids]), "masked_lm_positions": np.array([[3]])})["masked_lm_logits"]
    probabilities = tf.nn.softmax(logits)[0, 0].numpy()
    best = np.argsort(-probabilities[: tokenizer.vocab_size])[:3]
    outputs = loaded(tf.constant([text]))
    np.testing.assert_allclose(outputs["probabilities"][0, 0], probabilities[best], atol=1e-5)
    assert [piece.decode() for piece in outputs["pieces"][0, 0].numpy()] == [
        tokenizer.pieces[i] for i in best
    ]
    assert np.all(loaded(tf.constant([f"{line}[MASK]" for line in TEXTS]))["pieces"].numpy()[:, 0] != b"")


@pytest.mark.very_slow
def test_question_answering(exported):
    """Offsets of pieces in Chinese and accented contexts, over several windows."""
    model, loaded = exported("question-answering", "span")
    contexts = [
        "我喜欢北京。" * 20,
        "Ou\u0301 est Cafe\u0301s? 在北京 300" * 3,
        *[line for line in LINES if line],
    ]
    questions = ["在北京?"] * len(contexts)
    found = model.best_answers(questions, contexts, n_best=20)
    outputs = loaded(tf.constant(questions), tf.constant(contexts))
    texts = list(found.texts().values())
    assert [text.decode() for text in outputs["answer"].numpy()] == texts
    begins = [
        answers[0].answer_start if text else -1
        for answers, text in zip(found.n_best.values(), texts, strict=True)
    ]
    assert outputs["begin"].numpy().tolist() == begins
    assert len(set(texts)) > len(texts) / 2
