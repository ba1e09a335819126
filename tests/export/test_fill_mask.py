import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.heads import MaskedLMHead
from albert_tf.runtime.pretrained import load_pretrained
from data_prep.errors import InputError
from data_prep.tokenizers.masked_texts import glued_ids
from data_prep.tokenizers.vocabulary import Vocabulary
from export.fill_mask import build_fill_mask, cut_around
from export.write import export_model
from tests.data_prep.nasty import LINES
from tests.export.conftest import write_source

pytestmark = pytest.mark.slow

TEXTS = [
    "The captain [MASK] past",
    "[MASK]",
    "",
    "no mask at all",
    "Our [MASK]s, [MASK]. And\u3000[MASK]\u00a0, 300[MASK]",
    "[MASK][MASK] [mask] [ MASK ] [CLS]",
    "a " * 50 + "[MASK]" + " b" * 50,
    "[MASK] " * 40,
]


@pytest.fixture(scope="module")
def folder(exported):
    return exported("fill-mask", top_k=3)


@pytest.fixture(scope="module")
def loaded(folder):
    return tf.saved_model.load(folder)


def with_masks(tokenizer, text: str) -> list[int]:
    """The ids of a text in which [MASK] is the symbol, one part after the other."""
    first, *others = text.split("[MASK]")
    ids = tokenizer.encode(first)
    for part in others:
        pieces = [tokenizer.pieces[i] for i in tokenizer.encode(part)]
        if pieces and not part[0].isspace():
            shorter = pieces[0].removeprefix("▁")
            pieces[:1] = [shorter] if shorter in tokenizer.pieces else [] if not shorter else pieces[:1]
        ids += [tokenizer.mask_id, *map(tokenizer.pieces.index, pieces)]
    return ids


def expected(model, tokenizer, text: str, k: int) -> list[list[tuple[str, float]]]:
    """Pieces and probabilities of each mask that is not cut off, from a model that runs on this text alone."""
    ids = with_masks(tokenizer, text)
    places = [i for i, piece in enumerate(ids) if piece == tokenizer.mask_id]
    room = model.config.max_position_embeddings - 2
    if len(ids) > room:
        middle = (places[0] + places[-1]) // 2
        begin = min(max(middle - room // 2, places[-1] - room + 1), places[0], len(ids) - room)
        ids = ids[max(begin, 0) :][:room]
        places = [i for i, piece in enumerate(ids) if piece == tokenizer.mask_id]
    if not places:
        return []
    batch = {"input_ids": np.array([[2, *ids, 3]]), "masked_lm_positions": np.array([places]) + 1}
    logits = np.array(model(batch)["masked_lm_logits"][0], np.float64)
    probs = np.exp(logits - logits.max(-1, keepdims=True))
    probs = (probs / probs.sum(-1, keepdims=True))[:, : tokenizer.vocab_size]
    best = np.argsort(-probs)[:, :k]
    return [[(tokenizer.pieces[i], row[i]) for i in ids] for row, ids in zip(probs, best, strict=True)]


def assert_filled(outputs, model, tokenizer, texts, k: int) -> None:
    wanted = [expected(model, tokenizer, text, k) for text in texts]
    most = max(1, *map(len, wanted))
    assert outputs["pieces"].shape == outputs["probabilities"].shape == (len(texts), most, k)
    assert outputs["probabilities"].dtype == tf.float32
    for row, masks in enumerate(wanted):
        for column in range(most):
            guesses = masks[column] if column < len(masks) else [("", 0.0)] * k
            pieces = [piece.decode() for piece in outputs["pieces"][row, column].numpy()]
            assert pieces == [piece for piece, _ in guesses], texts[row]
            probabilities = [probability for _, probability in guesses]
            np.testing.assert_allclose(outputs["probabilities"][row, column], probabilities, atol=1e-5)


@pytest.mark.parametrize("in_memory", [True, False])
def test_the_head_computes_masks_only(source, monkeypatch, in_memory):
    """Not as many for each text as the text with the most masks has."""
    pretrained, computed = load_pretrained(source), []
    head = MaskedLMHead.call

    def call(layer, hidden, *others):
        computed.append(tuple(hidden.shape[:2]))
        return head(layer, hidden, *others)

    monkeypatch.setattr(MaskedLMHead, "call", call)
    export = build_fill_mask(pretrained, pretrained.tokenizer)
    tf.config.run_functions_eagerly(True)
    try:
        if in_memory:
            pretrained.fill_mask(["[MASK] a", "[MASK] [MASK] [MASK]", "a"])
        else:
            export.signatures["serving_default"](tf.constant(["[MASK] a", "[MASK] [MASK] [MASK]", "a"]))
    finally:
        tf.config.run_functions_eagerly(False)
    assert computed == [(1, 4)]


def test_equals_the_model_on_single_texts(loaded, source, tokenizer):
    pretrained = load_pretrained(source)
    assert_filled(loaded(tf.constant(TEXTS)), pretrained.model, tokenizer, TEXTS, 3)
    for text in TEXTS[:3]:
        assert_filled(loaded(tf.constant([text])), pretrained.model, tokenizer, [text], 3)
    for text, row in zip(TEXTS, pretrained.fill_mask(TEXTS, top_k=3), strict=True):
        wanted = expected(pretrained.model, tokenizer, text, 3)
        assert [[piece for piece, _ in guesses] for guesses in row] == [
            [piece for piece, _ in guesses] for guesses in wanted
        ]
        for guesses, right in zip(row, wanted, strict=True):
            np.testing.assert_allclose([p for _, p in guesses], [p for _, p in right], atol=1e-5)


def test_mistakes_in_memory(source):
    pretrained = load_pretrained(source)
    assert pretrained.fill_mask([]) == []
    for other in ("<mask>", "[mask]"):
        with pytest.raises(InputError, match=r"The mask is \[MASK\], .* Received .* in text 1"):
            pretrained.fill_mask(["a [MASK]", f"The {other}."])
    with pytest.raises(InputError, match="`top_k` must be from 1 to the number of pieces"):
        pretrained.fill_mask(["[MASK]"], top_k=0)


def test_tokenization_equals_the_class_without_masks(source, tokenizer, loaded):
    texts = [line for line in LINES if "[MASK]" not in line]
    ids = loaded.tokenizer.tokenize(tf.constant(texts)).to_list()
    assert ids == [line.tolist() for line in tokenizer.encode_batch(texts)]


def test_accepts_any_line(loaded):
    outputs = loaded(tf.constant([f"{line}[MASK]{line}" for line in LINES]))
    assert np.all(outputs["pieces"].numpy()[:, 0] != b"")
    assert loaded(tf.zeros([0], tf.string))["pieces"].shape == (0, 1, 3)


@pytest.mark.very_slow
def test_serving_signature(loaded, folder):
    """TensorFlow Serving's REST formats need a named input, and outputs whose first dimension is the batch."""
    served = loaded.signatures["serving_default"](text=tf.constant(TEXTS))
    called = loaded(tf.constant(TEXTS))
    assert set(served) == {"pieces", "probabilities"}
    for name, array in called.items():
        np.testing.assert_array_equal(served[name], array)
    assert (folder / "assets.extra" / "tf_serving_warmup_requests").is_file()


@pytest.mark.very_slow
def test_cut_around():
    rng = np.random.default_rng(0)
    for _ in range(100):
        T, room = rng.integers(0, 12), int(rng.integers(1, 8))
        row = np.where(rng.random(T) < 0.2, 4, 10 + np.arange(T))
        (kept,) = cut_around(tf.RaggedTensor.from_row_lengths(row, [T]), 4, room).to_list()
        slices = [row[i : i + room].tolist() for i in range(max(1, T - room + 1))]
        assert kept in slices
        masks = np.flatnonzero(row == 4)
        if not len(masks):
            assert kept == row[:room].tolist()
        elif masks[-1] - masks[0] < room:
            assert kept.count(4) == len(masks)
        else:
            assert kept == row[masks[0] :][:room].tolist() or kept == row[-room:].tolist()


def test_glued_ids():
    pieces = ("<unk>", "▁", "s", "▁s", "▁sat", ".", "▁.")
    assert glued_ids(pieces).tolist() == [0, -1, 2, 2, 4, 5, 5]


def test_needs_the_head(tmp_path, model_file):
    vocabulary = Vocabulary("sentencepiece", model_file.read_bytes())
    source = write_source(tmp_path / "source", "masked_lm", vocabulary=vocabulary)
    with pytest.raises(InputError, match="--kind=fill-mask needs a masked-LM head"):
        export_model(source, tmp_path / "saved", "fill-mask")
    assert [path.name for path in tmp_path.iterdir()] == ["source"]
