import pytest

from data_prep.errors import InputError
from data_prep.text.documents import Document, read_documents
from examples.demo.corpus import read_user_text, write_corpus
from examples.demo.docstrings import (
    docstring_documents,
    is_prose,
    module_docstrings,
    prose_paragraphs,
    sentences_of,
)

DOCSTRING = """Adds numbers.

    Wrapped over
    two lines. And `more`.

    >>> add(1,
    ...     2)
    3
    printed too

    ```
    code = 1

    more = 2
    ```

    Args:
      x: The first
        number.
      y: The second one.

    Parameters
    ----------
    axis : int
        Where to add.
    """


def corpus_documents(number):
    return [Document((f"First of {i}.", f"Second of {i}."), f"module {i}") for i in range(number)]


def test_write_corpus_splits_by_document(tmp_path):
    corpus = write_corpus(corpus_documents(40), tmp_path / "new", heldout_share=0.1)
    assert (corpus.train_documents, len(corpus.heldout_sources), corpus.sentences) == (36, 4, 80)
    assert corpus.heldout_share == pytest.approx(0.1, abs=0.01)
    train = [document.sentences for document in read_documents([corpus.train])]
    heldout = [document.sentences for document in read_documents([corpus.heldout])]
    assert len(train) == 36
    assert len(heldout) == 4
    assert sorted(train + heldout) == sorted(document.sentences for document in corpus_documents(40))
    again = write_corpus(reversed(corpus_documents(40)), tmp_path / "again", heldout_share=0.1)
    assert again.heldout.read_bytes() == corpus.heldout.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sentences", "share", "passes"),
    [
        pytest.param(1000, 0.05, 1, marks=pytest.mark.very_slow),  # a twentieth of the text is enough
        (200, 0.075, 1),  # enough is more than a twentieth
        (50, 0.1, 3),  # a tenth is not enough, so it is read three times
    ],
)
def test_enough_is_held_out_over_the_whole_text(tmp_path, sentences, share, passes):
    """100 documents, each sentence 100 characters long; 150,000 characters are enough."""
    documents = [
        Document(
            tuple(f"{number:04d} {i:04d}".ljust(100, "x") for i in range(sentences)), f"book, piece {number}"
        )
        for number in range(100)
    ]
    corpus = write_corpus(documents, tmp_path, heldout_share=0.05, enough=150_000)
    assert corpus.heldout_share == pytest.approx(share, abs=0.006)
    assert corpus.heldout_passes == passes
    pieces = {int(source.split()[-1]) for source in corpus.heldout_sources}
    assert len(pieces) == round(100 * corpus.heldout_share)
    assert min(pieces) < 50 < max(pieces)
    assert {line[:4] for line in corpus.heldout.read_text().split("\n") if line} == {
        f"{n:04d}" for n in pieces
    }


def test_held_out_sentences_are_not_in_training(tmp_path):
    """Otherwise evaluation would measure the memorization of texts such as licences."""
    boilerplate = "This sentence, long enough, is repeated in every module."
    documents = [Document((*d.sentences, boilerplate, "See above."), d.source) for d in corpus_documents(20)]
    corpus = write_corpus(documents, tmp_path, enough=1)
    assert boilerplate in corpus.heldout.read_text()
    assert boilerplate not in corpus.train.read_text()
    assert corpus.train.read_text().count("See above.") == 19
    same = [Document((boilerplate, boilerplate), str(i)) for i in range(9)]
    with pytest.raises(InputError, match="only repetitions"):
        write_corpus(same, tmp_path)


def test_write_corpus_needs_two_documents(tmp_path):
    write_corpus(corpus_documents(2), tmp_path)
    for documents in ([], corpus_documents(1), [Document(("One.",), str(i)) for i in range(9)]):
        with pytest.raises(InputError, match="a document each"):
            write_corpus(documents, tmp_path / "bad")
    assert not (tmp_path / "bad").exists()


def test_user_text_in_pieces(tmp_path):
    book = "\n\n".join(f"Paragraph {i} begins.\nIt ends." for i in range(10))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "book.md").write_text(book)
    (tmp_path / "a.txt").write_text("One. Two.")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    documents = list(read_user_text(tmp_path, sentences_per_document=7))
    assert [len(document.sentences) for document in documents] == [2, 8, 8, 4]
    assert documents[1].sentences[:2] == ("Paragraph 0 begins.", "It ends.")
    assert len({document.source for document in documents}) == 4
    assert next(read_user_text(tmp_path / "a.txt")).sentences == ("One.", "Two.")


def test_bad_user_text(tmp_path):
    with pytest.raises(InputError, match=r"must hold .txt or .md files"):
        list(read_user_text(tmp_path))
    with pytest.raises(InputError, match="no input file"):
        list(read_user_text(tmp_path / "none"))
    (tmp_path / "latin.txt").write_bytes("naïve".encode("latin-1"))
    with pytest.raises(InputError, match="offset 2"):
        list(read_user_text(tmp_path))


def test_prose_of_a_docstring():
    assert list(prose_paragraphs(DOCSTRING)) == [
        "Adds numbers.",
        "Wrapped over two lines. And `more`.",
        "Args: x: The first number. y: The second one.",
        "Parameters ---------- axis : int Where to add.",
    ]


def test_a_list_is_not_split_into_sentences():
    paragraphs = ["Adds numbers. Any of them.", "Args: x: The first. y: The second.", "y = f(x[0], 2) + g(1)"]
    assert sentences_of(paragraphs) == [
        "Adds numbers.",
        "Any of them.",
        "Args: x: The first. y: The second.",
    ]


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("Returns the sum of `x` and `y`.", True),
        ("Args: x: The first number.", True),
        ("y = f(x[0], 2) + g(1)", False),
        ("Parameters ----------", False),
        ("3.14, 2.71", False),
    ],
)
def test_is_prose(sentence, expected):
    assert is_prose(sentence) == expected


def test_modules(tmp_path):
    method = '    def f(self):\n        """Method.\n\n        Twice \\d.\n        """\n'
    source = '"""Top."""\nclass A:\n    """Class."""\n' + method
    (tmp_path / "m.py").write_text(source)
    assert module_docstrings(tmp_path / "m.py") == [["Top."], ["Class."], ["Method.", r"Twice \d."]]
    for broken in ("def (:", "\x00"):
        (tmp_path / "m.py").write_text(broken)
        assert module_docstrings(tmp_path / "m.py") == []


@pytest.mark.slow
def test_an_installed_package():
    documents = list(docstring_documents(["sentencepiece", "hypothesis"]))
    assert len(documents) > 20
    assert all(document.source.startswith(("sentencepiece/", "hypothesis/")) for document in documents)
    assert all(len(document.sentences) >= 4 for document in documents)
    with pytest.raises(InputError, match="'no_such_package' is not installed"):
        list(docstring_documents(["no_such_package"]))
