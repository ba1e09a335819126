"""Whether text that is read as one sentence per line looks like prose."""

import itertools
import re
from collections import Counter
from collections.abc import Mapping

from data_prep.text.documents import Document

# Where a sentence ends and another one begins, in scripts with and without spaces.
_BOUNDARY = re.compile(r"[.!?…।॥۔؟።፧။។։]['\"”’»)\]]*\s+['\"“‘«(\[]*[^\W\d_a-z]|[。！？][^」』”’）]")
_SENTENCE_END = re.compile(r"[.!?…।॥۔؟።፧။។։。！？:;：；]['\"“”‘’«»)\]」』）*_]*$")
_NARROWEST = 30  # characters; hard-wrapped text is not narrower, not even Chinese
_WIDEST_WORD = 12  # characters that may be missing at the end of a line, since the next word did not fit


def count_layout(document: Document, counts: Counter) -> None:
    """Adds the signs of prose in a document that was read as one sentence per line to three of the counts."""
    counts["documents_of_one_line"] += len(document.sentences) == 1
    counts["lines_of_prose"] += sum(map(is_prose, document.sentences))
    counts["wrapped_lines"] += wrapped_lines(document.sentences)


def prose_warning(counts: Mapping[str, int], makes_pairs: bool) -> str | None:
    """A warning if text that was read as one sentence per line looks like prose.

    Documents of one line are a sign only if the text should make pairs.
    """
    documents, lines, lone = counts["documents"], counts["sentences"], counts["documents_of_one_line"]
    prose, wrapped = counts["lines_of_prose"], counts["wrapped_lines"]
    signs = []
    if makes_pairs and lone > documents / 2:
        signs.append(f"{lone:,} of {documents:,} documents have one line, which makes no pair")
    if prose > lines / 4:
        signs.append(f"{prose:,} of {lines:,} lines hold several sentences")
    if wrapped > lines / 3:
        signs.append(f"{wrapped:,} of {lines:,} lines break off inside a sentence, like hard-wrapped text")
    if not signs:
        return None
    return (
        f"{', and '.join(signs)}. With --input_format=lines, a line is a sentence and "
        "a blank line ends a document; for books and articles use --input_format=prose."
    )


def is_prose(line: str) -> bool:
    """Whether a line that should be one sentence looks like three or more.

    >>> is_prose("It rained. Mr. Knightley came. Nobody spoke."), is_prose("It rained, said Mr. Knightley.")
    (True, False)
    """
    return len(_BOUNDARY.findall(line)) >= 2


def wrapped_lines(lines: tuple[str, ...]) -> int:
    """The number of lines, of those between two blank ones, that seem to be cut at a width inside a sentence.

    Such a line has no room for the first word of the next one, if the longest line is as long as a line may be.

    >>> wrapped_lines(("The interest aroused in the public by what", "was known at the time has subsided."))
    1
    """
    width = max(map(len, lines), default=0)
    return sum(
        len(line) >= _NARROWEST
        and len(line) + 1 + min(len(following.split(maxsplit=1)[0]), _WIDEST_WORD) > width
        and not _SENTENCE_END.search(line)
        for line, following in itertools.pairwise(lines)
    )
