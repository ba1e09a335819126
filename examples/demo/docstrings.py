"""English text that every installation has: the docstrings of installed packages, one document a module.

.py files --ast--> docstrings without repetitions --prose_paragraphs--> paragraphs --> sentences --> Document
"""

import ast
import hashlib
import importlib.util
import inspect
import re
import sysconfig
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from rich.progress import track

from data_prep.errors import InputError
from data_prep.text.documents import Document, split_sentences

STANDARD_LIBRARY = "stdlib"
# The packages of requirements.txt that have prose.
PACKAGES = (
    "tensorflow",
    "keras",
    "numpy",
    "matplotlib",
    "tensorflow_datasets",
    "tensorflow_text",
    "tensorboard",
    "fontTools",
    "rich",
    "absl",
    STANDARD_LIBRARY,
)

_WORKERS = 2  # processes that parse
_FEWEST_SENTENCES = 4  # of a docstring, because a module's one-liners do not form a text
_SKIPPED_FOLDERS = frozenset({"test", "tests", "idle_test", "site-packages", "dist-packages"})
_FENCE = re.compile(r"\s*(```|~~~)")
_PROMPT = re.compile(r"\s*(>>>|\.\.\. |In \[\d+\]:|\$ )")
# "Args: x: Its meaning", "Parameters ---------- x : int", "- item": lists, whose items are not sentences.
_LIST = re.compile(r"\w[\w ]{0,30}(:\s| -{3,})|`?\w+`? : |[-*•]\s")
_WORD = re.compile(r"[^\W\d_]{2,}")


def docstring_documents(
    packages: Sequence[str] = PACKAGES, show_progress: bool = False
) -> Iterator[Document]:
    """The prose of each module's docstrings, without docstrings that an earlier one repeats.

    Args:
      packages: names of packages, which are found without importing them; "stdlib" is the standard library.
      show_progress: whether to show a progress bar.

    Yields:
      Documents; their source is the module's name: "numpy/linalg/_linalg.py".

    Raises:
      InputError: a package is not installed.
    """
    modules = [module for package in packages for module in _python_files(package)]
    seen: set[bytes] = set()
    # spawn: TensorFlow's threads, which the caller may have started, do not survive a fork.
    with ProcessPoolExecutor(_WORKERS, mp_context=get_context("spawn")) as pool:
        texts = pool.map(module_docstrings, [path for _, path in modules], chunksize=32)
        shown = track(texts, "reading docstrings", len(modules), disable=not show_progress, transient=True)
        for (name, _), found in zip(modules, shown, strict=True):
            docstrings = (sentences_of(docstring) for docstring in found if _is_new(docstring, seen))
            sentences = [
                s for docstring in docstrings if len(docstring) >= _FEWEST_SENTENCES for s in docstring
            ]
            if sentences:
                yield Document(tuple(sentences), name)


def sentences_of(docstring: list[str]) -> list[str]:
    """The sentences of a docstring's paragraphs; a list, such as the arguments, stays whole.

    >>> sentences_of(["Adds. Twice.", "Args: x: The first. y: The second."])
    ['Adds.', 'Twice.', 'Args: x: The first. y: The second.']
    """
    pieces = ([p] if _LIST.match(p) else split_sentences(p) for p in docstring)
    return [piece for paragraph in pieces for piece in paragraph if is_prose(piece)]


def module_docstrings(path: Path) -> list[list[str]]:
    """The paragraphs of each docstring of a Python file, from top to bottom."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in the packages
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return []  # a template, or written for another Python
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [node for node in ast.walk(tree) if isinstance(node, owners)]
    found.sort(key=lambda node: getattr(node, "lineno", 0))
    docstrings = (ast.get_docstring(node, clean=False) for node in found)
    return [list(prose_paragraphs(text)) for text in docstrings if text]


def prose_paragraphs(docstring: str) -> Iterator[str]:
    """Splits a docstring into paragraphs, without code and doctests.

    >>> list(prose_paragraphs("Adds.\\n\\n  >>> add(1)\\n  2\\n\\n  Args:\\n    x: The first,\\n      a number."))
    ['Adds.', 'Args: x: The first, a number.']
    """
    paragraph: list[str] = []
    fenced = skipping = False
    for line in [*inspect.cleandoc(docstring).split("\n"), ""]:
        if _FENCE.match(line):
            fenced = not fenced
        if line.strip() and not (fenced or _FENCE.match(line) or skipping or _PROMPT.match(line)):
            paragraph.append(line)
            continue
        # The output of a doctest ends at the next blank line.
        skipping = bool(line.strip()) and (skipping or bool(_PROMPT.match(line)))
        if paragraph:
            yield " ".join(" ".join(paragraph).split())
            paragraph = []


def is_prose(sentence: str) -> bool:
    """Whether a sentence is prose: it has a word, and most characters are letters.

    >>> is_prose("Returns: A `Tensor`."), is_prose("y = f(x[0], 2) + 1")
    (True, False)
    """
    letters = sum(character.isalpha() or character == " " for character in sentence)
    return bool(_WORD.search(sentence)) and letters >= 0.7 * len(sentence)


def _is_new(docstring: list[str], seen: set[bytes]) -> bool:
    """Whether no earlier docstring is equal, apart from case, spaces and punctuation."""
    plain = "".join(filter(str.isalnum, "".join(docstring).lower()))
    digest = hashlib.blake2b(plain.encode("utf-8", "replace"), digest_size=16).digest()
    if digest in seen:
        return False
    seen.add(digest)
    return True


def _python_files(package: str) -> list[tuple[str, Path]]:
    """(name, path) of a package's modules, sorted by name."""
    if package == STANDARD_LIBRARY:
        root = Path(sysconfig.get_path("stdlib"))
    else:
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            raise InputError(f"The package {package!r} is not installed, so it has no docstrings to read.")
        root = Path(spec.origin).parent
    files = ((path.relative_to(root), path) for path in root.rglob("*.py"))
    return sorted(
        (f"{package}/{relative.as_posix()}", path)
        for relative, path in files
        if _SKIPPED_FOLDERS.isdisjoint(relative.parts)
    )
