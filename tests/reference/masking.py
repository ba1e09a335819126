"""ALBERT's rules for training data in plain Python: slow, but obviously correct.

Random numbers are drawn in the same order as in data_prep, so that equal generators give equal examples.
"""

import numpy as np

ENGLISH = set("abcdefghijklmnopqrstuvwxyz")
PUNCTUATION = set('!"#$%&()*+,-./:;?@[\\]^_`{|}~£€')
SYMBOLS = ("[CLS]", "[SEP]")


def starts_word(piece: str) -> bool:
    if piece.startswith("▁") or piece.startswith("<"):
        return True
    if piece in PUNCTUATION:
        return True
    return any(character.lower() not in ENGLISH | PUNCTUATION for character in piece)


def words(pieces: list[str]) -> list[list[list[int]]]:
    """The positions of the pieces of each word, by segment; symbols separate the segments."""
    segments: list[list[list[int]]] = []
    for i, piece in enumerate(pieces):
        if piece in SYMBOLS:
            segments.append([])
        elif starts_word(piece) or not segments[-1]:
            segments[-1].append([i])
        else:
            segments[-1][-1].append(i)
    return segments


def positions_of(some_words: list[list[int]]) -> list[int]:
    return [position for word in some_words for position in word]


def token_boundary(pieces: list[str]) -> list[int]:
    first = [word[0] for segment in words(pieces) for word in segment]
    return [int(piece in SYMBOLS or i in first) for i, piece in enumerate(pieces)]


def mask(
    pieces: list[str],
    vocabulary: list[str],
    masked_lm_prob: float,
    max_predictions_per_seq: int,
    ngram: int,
    rng: np.random.Generator,
) -> tuple[list[str], list[int], list[list[int]]]:
    """Returns the masked pieces, the masked positions, and the positions of each span in the order of choice."""
    budget = min(max_predictions_per_seq, max(1, round(len(pieces) * masked_lm_prob)))
    starts = [(segment, i) for segment in words(pieces) for i in range(len(segment))]
    order = rng.permutation(len(starts))
    uniform = rng.random(len(starts))

    spans: list[list[int]] = []
    covered: set[int] = set()
    for number in order:
        segment, i = starts[number]
        if segment[i][0] in covered:
            continue
        n = draw_length(uniform[number], ngram, len(segment) - i)
        span = positions_of(segment[i : i + n])
        while n > 1 and len(covered) + len(span) > budget:
            n -= 1
            span = positions_of(segment[i : i + n])
        if len(covered) + len(span) > budget:
            continue
        if any(position in covered for position in span):
            continue
        covered.update(span)
        spans.append(span)

    positions = sorted(covered)
    kinds = rng.random(len(positions))
    masked = list(pieces)
    replaced = [position for position, kind in zip(positions, kinds, strict=True) if kind >= 0.9]
    replacements = rng.choice(len(vocabulary), size=len(replaced))
    for position, kind in zip(positions, kinds, strict=True):
        if kind < 0.8:
            masked[position] = "[MASK]"
    for position, i in zip(replaced, replacements, strict=True):
        masked[position] = vocabulary[i]
    return masked, positions, spans


def draw_length(uniform: float, ngram: int, words_left: int) -> int:
    """n in 1..min(ngram, words_left) with p(n) proportional to 1 / n, by inversion."""
    choices = range(1, min(ngram, words_left) + 1)
    total = sum(1 / n for n in choices)
    cumulative = 0.0
    for n in choices:
        cumulative += 1 / n / total
        if uniform < cumulative:
            return n
    return choices[-1]


def truncate_pair(a: list, b: list, max_tokens: int, rng: np.random.Generator) -> tuple[list, list]:
    """Drops single tokens from the front or back of the longer segment; of equal ones, from the second."""
    a, b = list(a), list(b)
    while len(a) + len(b) > max_tokens:
        longer = a if len(a) > len(b) else b
        if rng.random() < 0.5:
            del longer[0]
        else:
            longer.pop()
    return a, b


def digit_comma(pieces: list[str], encode) -> list[str]:
    """Google's rule, with its comparison of str and bytes corrected."""
    result = []
    for piece in pieces:
        if len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit():
            new = encode(piece[:-1].replace("▁", ""))
            if piece[0] != "▁" and new[0][0] == "▁":
                new = new[1:] if len(new[0]) == 1 else [new[0][1:], *new[1:]]
            result += [*new, ","]
        else:
            result.append(piece)
    return result
