"""English that every installation has: the docstrings of the installed packages, a document a module.

.py files --ast--> docstrings, each kept once --prose_paragraphs--> paragraphs --> sentences --> Document
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
from examples.demo.corpus import Corpus, write_corpus

STANDARD_LIBRARY = "stdlib"
# What requirements.txt brings along, as far as it has prose.
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

_SKIPPED_FOLDERS = frozenset({"test", "tests", "idle_test", "site-packages", "dist-packages"})
_FENCE = re.compile(r"\s*(```|~~~)")
_PROMPT = re.compile(r"\s*(>>>|\.\.\. |In \[\d+\]:|\$ )")
# "Args: x: What it is", "Parameters ---------- x : int", "- item": a list, whose items are no sentences.
_LIST = re.compile(r"\w[\w ]{0,30}(:\s| -{3,})|`?\w+`? : |[-*•]\s")
_WORD = re.compile(r"[^\W\d_]{2,}")


def write_docstring_corpus(
    directory: str | Path,
    packages: Sequence[str] = PACKAGES,
    heldout_share: float = 0.05,
    workers: int = 2,
    show_progress: bool = True,
) -> Corpus:
    """Writes DIRECTORY/train.txt and DIRECTORY/heldout.txt from the docstrings of installed packages.

    Args:
      directory: where the two files go.
      packages: names of packages, found without importing them; "stdlib" is the standard library.
      heldout_share: share of the modules that is held out from training.
      workers: processes that parse.
      show_progress: a progress bar on the terminal.

    Returns:
      What was written; no docstring occurs twice in it, and no held-out sentence of 40 characters or more
      is in the training file.

    Raises:
      InputError: a package is not installed.
    """
    return write_corpus(docstring_documents(packages, workers, show_progress), directory, heldout_share)


def docstring_documents(
    packages: Sequence[str] = PACKAGES, workers: int = 2, show_progress: bool = False, min_sentences: int = 4
) -> Iterator[Document]:
    """The prose of each module's docstrings; a docstring that occurs again in any module is left out.

    Args:
      packages: names of packages; "stdlib" is the standard library.
      workers: processes that parse.
      show_progress: a progress bar on the terminal.
      min_sentences: docstrings with fewer are left out; a module's one-liners do not follow from each other.

    Yields:
      Documents; their source is the module's name: "numpy/linalg/_linalg.py".
    """
    modules = [module for package in packages for module in _python_files(package)]
    seen: set[bytes] = set()
    # spawn: the caller may have TensorFlow's threads running, which do not survive a fork.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        texts = pool.map(module_docstrings, [path for _, path in modules], chunksize=32)
        shown = track(texts, "reading docstrings", len(modules), disable=not show_progress, transient=True)
        for (name, _), found in zip(modules, shown, strict=True):
            docstrings = (sentences_of(docstring) for docstring in found if _is_new(docstring, seen))
            sentences = [s for docstring in docstrings if len(docstring) >= min_sentences for s in docstring]
            if sentences:
                yield Document(tuple(sentences), name)


def sentences_of(docstring: list[str]) -> list[str]:
    """The sentences of a docstring's paragraphs; a list, such as the arguments, stays in one piece.

    >>> sentences_of(["Adds. Twice.", "Args: x: The first. y: The second."])
    ['Adds.', 'Twice.', 'Args: x: The first. y: The second.']
    """
    pieces = ([p] if _LIST.match(p) else split_sentences(p) for p in docstring)
    return [piece for paragraph in pieces for piece in paragraph if is_prose(piece)]


def module_docstrings(path: Path) -> list[list[str]]:
    """The paragraphs of each docstring of a Python file, from top to bottom."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # other people's escapes
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return []  # a template, or written for another Python
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [node for node in ast.walk(tree) if isinstance(node, owners)]
    found.sort(key=lambda node: getattr(node, "lineno", 0))
    docstrings = (ast.get_docstring(node, clean=False) for node in found)
    return [list(prose_paragraphs(text)) for text in docstrings if text]


def prose_paragraphs(docstring: str) -> Iterator[str]:
    """Takes a docstring apart into paragraphs, without code and doctests.

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
        # What a doctest prints goes on to the next blank line.
        skipping = bool(line.strip()) and (skipping or bool(_PROMPT.match(line)))
        if paragraph:
            yield " ".join(" ".join(paragraph).split())
            paragraph = []


def is_prose(sentence: str) -> bool:
    """Whether a sentence reads like one: a word or more, and mostly letters.

    >>> is_prose("Returns: A `Tensor`."), is_prose("y = f(x[0], 2) + 1")
    (True, False)
    """
    letters = sum(character.isalpha() or character == " " for character in sentence)
    return bool(_WORD.search(sentence)) and letters >= 0.7 * len(sentence)


def _is_new(docstring: list[str], seen: set[bytes]) -> bool:
    """Whether a docstring was not seen before, apart from case, spaces and punctuation."""
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
