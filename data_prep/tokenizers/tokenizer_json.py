"""Hugging Face's tokenizer.json from and to a vocabulary: Unigram for SentencePiece, WordPiece for vocab.txt."""

import base64
import binascii
import math
from pathlib import Path
from typing import Any

import numpy as np
from sentencepiece import sentencepiece_model_pb2

from data_prep.errors import InputError
from data_prep.files import check_file, read_json_object, write_json
from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer
from data_prep.tokenizers.digit_comma import SPACE, is_split
from data_prep.tokenizers.normalization import Normalization
from data_prep.tokenizers.vocabulary import Vocabulary, wordpiece_normalization

TOKENIZER_JSON = "tokenizer.json"
_MOST_BYTES = 1 << 28  # a vocabulary of 30,000 pieces has 2 MB
_PIECE = sentencepiece_model_pb2.ModelProto.SentencePiece
# Applied by transformers, but not by the code that trained ALBERT: quotes; a run of spaces is one anyway.
_LEFT_OUT = ("``", "''", " {2,}")
_NEVER = "\x01"  # begins the names of pieces that no text has


def read_tokenizer_json(path: Path) -> Vocabulary:
    """Reads what transformers 5 saves in place of spiece.model or vocab.txt.

    The ids are those of transformers except for ALBERT's digit-comma rule, quotes (`` and ''), and added symbols
    such as "-", after which transformers starts a new word.

    Raises:
      InputError: the file is damaged, or its rules are not those of an ALBERT tokenizer.
    """
    check_file(path, _MOST_BYTES)
    values = read_json_object(path)
    try:
        kind = values["model"]["type"]
        if kind == "Unigram":
            return _unigram(values, path)
        if kind == "WordPiece":
            return _wordpiece(values, path)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"{path} is not a complete tokenizer of transformers ({reason}).") from None
    raise InputError(f"{path} must have a model of the type Unigram or WordPiece. Received {kind!r}.")


def gives_other_ids(path: Path) -> bool:
    """Whether transformers may compute other ids from a Unigram file than the vocabulary that was read from it.

    A file that `write_tokenizer_json` wrote, or transformers after loading it, gives the same ones.
    """
    values = read_json_object(path)
    has_replacements = any(step["type"] == "Replace" for step in _steps(values["normalizer"], "normalizers"))
    has_added = not all(token["special"] for token in values["added_tokens"])
    pieces = (piece for piece, _ in values["model"]["vocab"])
    has_split = any(is_split(piece) for piece in pieces if not piece.startswith(_NEVER))
    return has_replacements or has_added or has_split


def write_tokenizer_json(vocabulary: Vocabulary, path: Path) -> bool:
    """Writes a SentencePiece vocabulary as a tokenizer.json.

    From it, transformers computes the same ids as this library, unless two segmentations have equal scores.
    transformers' own conversion of spiece.model makes "-", "." and other symbols added tokens, which end a word
    and swallow the space before them; here they are pieces like all others. A piece such as "300,", which ALBERT
    always splits, gets a name that no text has.

    Returns:
      Whether it was written: a model whose rules for white space are not ALBERT's has no such file.
    """
    tokenizer = AlbertTokenizer(vocabulary.file, vocabulary.normalization, vocabulary.content)
    proto = sentencepiece_model_pb2.ModelProto.FromString(tokenizer.serialized_model)
    spec, rules = proto.normalizer_spec, vocabulary.normalization
    usual = (
        spec.add_dummy_prefix,
        spec.remove_extra_whitespaces,
        spec.escape_whitespaces,
        rules.remove_space,
    )
    if not all(usual) or proto.trainer_spec.model_type != proto.trainer_spec.UNIGRAM:
        return False
    specials = {"<pad>": tokenizer.pad_id, "<unk>": tokenizer.unk_id, "[CLS]": tokenizer.cls_id}
    specials |= {"[SEP]": tokenizer.sep_id, "[MASK]": tokenizer.mask_id}
    best = max(piece.score for piece in proto.pieces if piece.type == _PIECE.NORMAL)
    are_split = np.diff(tokenizer.digit_comma.splits) > 1
    pieces = []
    for piece, never in zip(proto.pieces, are_split, strict=True):
        # SentencePiece's score of user-defined pieces.
        score = best * len(piece.piece) - 0.1 if piece.type == _PIECE.USER_DEFINED else piece.score
        pieces.append((f"{_NEVER}{piece.piece}" if never else piece.piece, score))
    metaspace = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": True}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    write_json(
        path,
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [
                {"id": i, "content": name, **flags, "special": True}
                for name, i in sorted(specials.items(), key=lambda item: item[1])
            ],
            "normalizer": {
                "type": "Sequence",
                "normalizers": _normalizer_steps(rules, spec.precompiled_charsmap),
            },
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]},
            "post_processor": _post_processor(specials),
            "decoder": metaspace,
            "model": {"type": "Unigram", "unk_id": tokenizer.unk_id, "vocab": pieces, "byte_fallback": False},
        },
    )
    return True


def _normalizer_steps(rules: Normalization, charsmap: bytes) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    if not rules.keep_accents:
        steps += [{"type": "NFKD"}, {"type": "StripAccents"}]
    if rules.do_lower_case:
        steps.append({"type": "Lowercase"})
    if charsmap:
        content = base64.b64encode(charsmap).decode("ascii")
        steps.append({"type": "Precompiled", "precompiled_charsmap": content})
    return steps


def _post_processor(specials: dict[str, int]) -> dict[str, Any]:
    """[CLS] a [SEP] or [CLS] a [SEP] b [SEP]."""
    first, second = (
        [{"Sequence": {"id": name, "type_id": i}}, {"SpecialToken": {"id": "[SEP]", "type_id": i}}]
        for i, name in enumerate("AB")
    )
    cls = {"SpecialToken": {"id": "[CLS]", "type_id": 0}}
    names = {name: {"id": name, "ids": [specials[name]], "tokens": [name]} for name in ("[CLS]", "[SEP]")}
    return {
        "type": "TemplateProcessing",
        "single": [cls, *first],
        "pair": [cls, *first, *second],
        "special_tokens": names,
    }


def _unigram(values: dict[str, Any], path: Path) -> Vocabulary:
    model = values["model"]
    unknown = model["unk_id"]
    added = {token["content"]: token["special"] for token in values["added_tokens"]}
    proto = sentencepiece_model_pb2.ModelProto()
    for piece, score in _with_added([(piece, score) for piece, score in model["vocab"]], values, path):
        if not isinstance(piece, str) or not isinstance(score, int | float) or not math.isfinite(score):
            raise InputError(
                f"{path}: a piece must be a string with a number. Received {piece!r}, {score!r}."
            )
        kind = _PIECE.NORMAL
        if piece in added:
            kind = _PIECE.CONTROL if added[piece] else _PIECE.USER_DEFINED
        proto.pieces.add(piece=piece, score=score, type=kind)
    if model.get("byte_fallback") or not 0 <= unknown < len(proto.pieces):
        raise InputError(
            f"{path}: an ALBERT vocabulary must have an unknown piece and no byte_fallback. It does not."
        )
    proto.pieces[unknown].type = _PIECE.UNKNOWN

    pieces = [piece.piece for piece in proto.pieces]
    spec = proto.trainer_spec
    spec.model_type, spec.vocab_size = spec.UNIGRAM, len(pieces)
    spec.unk_id, spec.unk_piece = unknown, pieces[unknown]
    spec.pad_id, spec.pad_piece = pieces.index("<pad>"), "<pad>"
    spec.bos_id = spec.eos_id = -1
    normalization, charsmap = _unigram_normalizers(_steps(values["normalizer"], "normalizers"), path)
    proto.normalizer_spec.precompiled_charsmap = charsmap
    proto.normalizer_spec.add_dummy_prefix = _prepends(_steps(values["pre_tokenizer"], "pretokenizers"), path)
    vocabulary = Vocabulary("sentencepiece", proto.SerializeToString(), normalization, str(path))
    vocabulary.count_pieces()  # reads the model
    return vocabulary


def _unigram_normalizers(steps: list[dict[str, Any]], path: Path) -> tuple[Normalization, bytes]:
    """How the text is normalized before SentencePiece, and SentencePiece's own table of characters."""
    names, charsmap = [], b""
    for step in steps:
        if step["type"] == "Replace" and set(step["pattern"].values()) <= set(_LEFT_OUT):
            continue
        if step["type"] == "Precompiled":
            try:
                charsmap = base64.b64decode(step["precompiled_charsmap"], validate=True)
            except binascii.Error:
                raise InputError(f"{path}: `precompiled_charsmap` must be base64. It is not.") from None
        names.append(step["type"])
    accents = ["NFKD", "StripAccents"]
    keep_accents = names[:2] != accents
    rest = names if keep_accents else names[2:]
    expected = ["Lowercase"] * ("Lowercase" in rest) + ["Precompiled"] * ("Precompiled" in rest)
    if rest != expected:
        raise InputError(
            f"{path}: ALBERT's normalizers are NFKD with StripAccents, Lowercase and Precompiled, in this order. "
            f"Received {', '.join(names)}."
        )
    return Normalization("Lowercase" in rest, keep_accents), charsmap


def _prepends(steps: list[dict[str, Any]], path: Path) -> bool:
    """Whether a text begins with a space."""
    names = [step["type"] for step in steps]
    if names not in (["WhitespaceSplit", "Metaspace"], ["Metaspace"]):
        raise InputError(
            f"{path}: ALBERT's pre-tokenizers are WhitespaceSplit and Metaspace. Received {', '.join(names)}."
        )
    return steps[-1].get("prepend_scheme", "always") != "never"


def _wordpiece(values: dict[str, Any], path: Path) -> Vocabulary:
    model, normalizer = values["model"], values["normalizer"]
    rules = (
        normalizer["type"],
        normalizer["clean_text"],
        normalizer["handle_chinese_chars"],
        values["pre_tokenizer"]["type"],
        model["continuing_subword_prefix"],
    )
    if rules != ("BertNormalizer", True, True, "BertPreTokenizer", "##"):
        raise InputError(f"{path}: WordPiece must have BERT's rules for words. Received {rules}.")
    ids = model["vocab"]
    ordered = sorted(ids, key=ids.__getitem__)
    if [ids[piece] for piece in ordered] != list(range(len(ids))):
        raise InputError(f"{path}: the ids of the pieces must be 0, 1, 2, ... Received gaps or repetitions.")
    pieces = [piece for piece, _ in _with_added([(piece, 0.0) for piece in ordered], values, path)]
    if any(piece != piece.strip() or "\n" in piece for piece in pieces):
        raise InputError(f"{path}: a piece of WordPiece must not have white space at its ends.")
    normalization = wordpiece_normalization(
        normalizer["lowercase"], normalizer.get("strip_accents"), str(path)
    )
    return Vocabulary("wordpiece", ("\n".join(pieces) + "\n").encode(), normalization, str(path))


def _with_added(
    pieces: list[tuple[str, float]], values: dict[str, Any], path: Path
) -> list[tuple[str, float]]:
    """The pieces, followed by the added tokens that are not among them."""
    pieces = list(pieces)
    for token in sorted(values["added_tokens"], key=lambda token: token["id"]):
        if token["id"] == len(pieces):
            pieces.append((token["content"], 0.0))
        if not 0 <= token["id"] < len(pieces) or pieces[token["id"]][0] != token["content"]:
            raise InputError(
                f"{path}: an added token must be the piece of its id. Received {token['content']!r} for "
                f"{token['id']}."
            )
    return pieces


def _steps(values: dict[str, Any] | None, name: str) -> list[dict[str, Any]]:
    """The members of a sequence, or a single step."""
    if values is None:
        return []
    return values[name] if values["type"] == "Sequence" else [values]
