"""Tokenization by the literal rules of the originals: slow, but obviously correct."""

import unicodedata

from tests.reference.masking import digit_comma


def preprocess(
    text: str, lower: bool = True, keep_accents: bool = False, remove_space: bool = True, quotes: bool = False
) -> str:
    """ALBERT's preprocess_text; `quotes` that only XLNet and Hugging Face replace."""
    outputs = " ".join(text.strip().split()) if remove_space else text
    if quotes:
        outputs = outputs.replace("``", '"').replace("''", '"')
    if not keep_accents:
        outputs = unicodedata.normalize("NFKD", outputs)
        outputs = "".join([c for c in outputs if not unicodedata.combining(c)])
    return outputs.lower() if lower else outputs


def encode(model, text: str, *rules: bool) -> list[int]:
    """ALBERT's encode_ids; replaces what UTF-8 cannot encode first."""
    text = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in preprocess(text, *rules))
    pieces = digit_comma(model.encode_as_pieces(text), model.encode_as_pieces)
    return [model.piece_to_id(piece) for piece in pieces]


def is_visible(model, character: str) -> bool:
    """Whether normalization leaves more than white space of a character."""
    if "\ud800" <= character <= "\udfff":
        return False
    return bool(model.normalize(preprocess(character)).replace("▁", "").strip())


def wordpieces(vocabulary: set[str], text: str, lower: bool = True) -> list[str]:
    """BERT's FullTokenizer: clean, space out Chinese, split, strip accents, split, longest piece first."""
    cleaned = ""
    for c in text:
        if is_control(c) or c in "\0\ufffd":
            continue
        cleaned += " " if is_white(c) else f" {c} " if is_chinese(ord(c)) else c
    words = []
    for token in cleaned.strip().split():
        if lower:
            token = unicodedata.normalize("NFD", token.lower())
            token = "".join(c for c in token if unicodedata.category(c) != "Mn")
        words += "".join(f" {c} " if is_punctuation(c) else c for c in token).split()
    return [piece for word in words for piece in longest_pieces(vocabulary, word)]


def longest_pieces(vocabulary: set[str], word: str) -> list[str]:
    if len(word) > 200:
        return ["[UNK]"]
    pieces, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = word[start:end] if start == 0 else "##" + word[start:end]
            if piece in vocabulary:
                break
        else:
            return ["[UNK]"]
        pieces.append(piece)
        start = end
    return pieces


def is_control(c: str) -> bool:
    return c not in "\t\n\r" and unicodedata.category(c) in ("Cc", "Cf")


def is_white(c: str) -> bool:
    return c in " \t\n\r" or unicodedata.category(c) == "Zs"


def is_punctuation(c: str) -> bool:
    code = ord(c)
    if 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126:
        return True
    return unicodedata.category(c).startswith("P")


def is_chinese(code: int) -> bool:
    return (
        0x4E00 <= code <= 0x9FFF
        or 0x3400 <= code <= 0x4DBF
        or 0x20000 <= code <= 0x2A6DF
        or 0x2A700 <= code <= 0x2B73F
        or 0x2B740 <= code <= 0x2B81F
        or 0x2B820 <= code <= 0x2CEAF
        or 0xF900 <= code <= 0xFAFF
        or 0x2F800 <= code <= 0x2FA1F
    )
