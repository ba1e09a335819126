"""Paragraphs to sentences, by an existing library (sentencex, a rule-based breaker for some 300 languages)."""

import re

from data_prep.errors import InputError

_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]+)*")


def split_paragraph(paragraph: str, language: str = "en") -> list[str]:
    """Splits one paragraph, given as one line, into sentences.

    Args:
      paragraph: text without line breaks; the breaker would take one for the end of a sentence.
      language: ISO 639 code; a language without rules of its own gets English ones.

    Returns:
      Sentences without white space at their ends; none is empty.

    Raises:
      InputError: `language` is not a language code.

    >>> split_paragraph("Mr. Smith came. He stayed for 3.5 days.")
    ['Mr. Smith came.', 'He stayed for 3.5 days.']
    """
    if not _LANGUAGE.fullmatch(language):
        raise InputError(f'`language` must be an ISO 639 code such as "en" or "de". Received {language!r}.')
    # Here, so that reading one sentence a line needs no such library.
    import sentencex

    return [sentence for piece in sentencex.segment(language, paragraph) if (sentence := piece.strip())]
