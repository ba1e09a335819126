import bz2
import gzip
import lzma

import pytest
import sentencex
from hypothesis import given
from hypothesis import strategies as st

from data_prep.errors import InputError
from data_prep.text.documents import (
    MAX_SENTENCE_CHARACTERS,
    read_documents,
    split_paragraphs,
    split_sentences,
)
from data_prep.text.sources import expand_files


def read(tmp_path, raw: bytes, input_format="lines"):
    path = tmp_path / "text.txt"
    path.write_bytes(raw)
    return [document.sentences for document in read_documents([path], input_format)]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"One.\nTwo.\n\n\n \t\nThree.\n", [("One.", "Two."), ("Three.",)]),
        (b"\n\nOne.\nTwo.", [("One.", "Two.")]),
        (b"\xef\xbb\xbfOne.\r\nTwo.\r\n\r\nThree.\r\n", [("One.", "Two."), ("Three.",)]),  # of Windows
        *(
            (f"One{odd}two.\nThree.\n".encode(), [(f"One{odd}two.", "Three.")])  # only line feeds end lines
            for odd in "\x0b\x0c\x1c\x85\u2028\u2029\x00"
        ),
    ],
)
def test_lines_are_sentences_and_blank_lines_end_documents(tmp_path, raw, expected):
    assert read(tmp_path, raw) == expected


def test_the_end_of_a_file_ends_a_document(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"{name} one.\n{name} two.\n")
    documents = list(read_documents([tmp_path / "a", tmp_path / "b"]))
    assert [document.sentences[0] for document in documents] == ["a one.", "b one."]


@pytest.mark.parametrize("input_format", ["lines", "prose"])
def test_a_very_long_sentence_is_cut_between_words(tmp_path, input_format):
    words = " ".join(f"word{i}" for i in range(30_000))
    ((*sentences,),) = read(tmp_path, words.encode(), input_format)
    assert max(map(len, sentences)) <= MAX_SENTENCE_CHARACTERS < len(words) / 2
    assert " ".join(sentences) == words
    ((*sentences,),) = read(tmp_path, b"a" * 250_000, input_format)
    assert list(map(len, sentences)) == [100_000, 100_000, 50_000]


def test_sources_and_sizes(tmp_path):
    raw = b"\nOne.\nTwo.\n\nThree.\n"
    (tmp_path / "t").write_bytes(raw)
    documents = list(read_documents([tmp_path / "t"]))
    assert [document.source for document in documents] == [f"{tmp_path}/t, line 2", f"{tmp_path}/t, line 5"]
    assert sum(document.num_bytes for document in documents) == len(raw)


def test_reading_is_streaming(tmp_path):
    (tmp_path / "t").write_bytes(b"One.\nTwo.\n\n\xff\n")
    documents = read_documents([tmp_path / "t"])
    assert next(documents).sentences == ("One.", "Two.")
    with pytest.raises(InputError, match="offset 11"):
        next(documents)


def test_prose_joins_wrapped_lines_and_keeps_headings(tmp_path):
    text = b"# Emma ##\nBy J. Austen. A\nnovel, e.g. this.\n\n------\n## I\n\nIt was 3.5 miles. It rained!\n"
    expected = ("Emma", "By J. Austen.", "A novel, e.g. this.", "I", "It was 3.5 miles.", "It rained!")
    assert read(tmp_path, text, "prose") == [expected]
    text = b"\xef\xbb\xbf# One\r\n\r\nTwo is\r\nwrapped."
    assert read(tmp_path, text, "prose") == [("One", "Two is wrapped.")]
    # A heading needs a space, and so does the number sign that closes one.
    lines = ["#hashtag", "and more", "", "# ", "", "***", "# C#", "## F# and C# ##", "# Emma #  "]
    assert list(split_paragraphs(lines)) == ["#hashtag and more", "C#", "F# and C#", "Emma"]


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "Mr. Smith came. He stayed.", ["Mr. Smith came.", "He stayed."]),
        ("de", "Das ist z.B. gut. Ja.", ["Das ist z.B. gut.", "Ja."]),
        ("de-AT", "Er kam am 3. Mai. Ja.", ["Er kam am 3. Mai.", "Ja."]),
        ("es-419", "Se fue la Sra. López. Sí.", ["Se fue la Sra. López.", "Sí."]),
        ("zh", "你好。我是。", ["你好。", "我是。"]),
        ("en", " ", []),
        ("en", 'He said: "I know. It is late." He left.', ['He said: "I know. It is late."', "He left."]),
    ],
)
def test_sentences(language, text, expected):
    assert split_sentences(text, language) == expected


@pytest.mark.parametrize(
    ("language", "begin", "sentences", "end"),
    [
        ("en", 'He said: "', ["I know.", "It is late!"], 'So I left."'),
        ("en", '"Yes. ', ["It rained.", "‘We stayed.’", "(So did they.)"], 'Then we left."'),
        ("en", 'It was 5" long.', ["We saw it.", "It was green."], 'The other was 6" long.'),
        ("de", "Er sagte: „", ["Ich weiß.", "Es ist z.B. spät."], "So ging ich.“"),
        ("zh", "他说：「", ["我知道。", "他走了。"], "你好。」"),
    ],
    ids=["speech", "several", "inches", "German", "Chinese"],
)
def test_long_quotations_are_split(language, begin, sentences, end):
    space = "" if language == "zh" else " "
    found = split_sentences(begin + space.join(sentences * 200) + space + end, language)
    assert all(len(sentence) < 50 for sentence in found)
    assert found[-3:] == [*sentences[-2:], end]


@pytest.mark.parametrize(
    "text",
    ["彼は来た。「そう。はい。」" * 600, "あ" * 9000 + "。" + "彼は来た。" * 900, "彼は来た。 " * 900],
    ids=["quotations", "a long sentence", "spaces"],
)
def test_long_text_without_spaces_is_split_in_windows(monkeypatch, text):
    """The splitter's time grows with their square."""
    whole = sentencex.segment
    sizes = []

    def watched(language, text):
        sizes.append(max(map(len, text.split())))
        return whole(language, text)

    monkeypatch.setattr(sentencex, "segment", watched)
    assert split_sentences(text, "ja") == [sentence.strip() for sentence in whole("ja", text)]
    assert sum(sizes) < 4 * len(text)
    assert max(sizes) <= (16_000 if "ああ" in text else 4000)


@given(
    st.text(st.characters(exclude_categories=["Cs"]))
    | st.text(st.sampled_from("Ab.?! \"“”()' 。」"), min_size=1100, max_size=1500).map('"{}"'.format)
)
def test_splitting_loses_nothing(text):
    for paragraph in split_paragraphs(text.split("\n")):
        sentences = split_sentences(paragraph)
        assert all(sentences)
        assert "".join("".join(sentences).split()) == "".join(paragraph.split())


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "is empty"),
        (b"One.\nTw\xff.\n", "must be UTF-8.*text.txt has the byte 0xff at offset 7"),
        (b"One.\nTwo.\xc3", "0xc3 at offset 9.*`iconv -f LATIN1 -t UTF-8`"),
        ("One.\n".encode("utf-16"), "0xff at offset 0.*`iconv -f UTF-16 -t UTF-8`"),
        ("One.\n".encode("utf-32"), "0xff at offset 0.*`iconv -f UTF-32 -t UTF-8`"),
        ("One.\n".encode("utf-16-le"), "null character.*`iconv -f UTF-16LE -t UTF-8`"),
        ("One.\n".encode("utf-16-be"), "null character.*`iconv -f UTF-16BE -t UTF-8`"),
        (gzip.compress(b"One.\n", mtime=0), "must have a name that ends in .gz. .*text.txt is compressed;"),
        (bz2.compress(b"One.\n"), "must have a name that ends in .bz2"),
        (lzma.compress(b"One.\n"), "must have a name that ends in .xz"),
        (b"\x28\xb5\x2f\xfd\x20\x05\x29\0\0One.\n", "must have a name that ends in .zst"),
    ],
)
def test_bad_files(tmp_path, raw, message):
    for input_format in ("lines", "prose"):
        with pytest.raises(InputError, match=message):
            read(tmp_path, raw, input_format)


def test_bad_arguments(tmp_path):
    with pytest.raises(InputError, match="no input file"):
        list(read_documents([tmp_path / "none"]))
    with pytest.raises(InputError, match="is a folder"):
        list(read_documents([tmp_path]))
    with pytest.raises(InputError, match="--input_format must be one of"):
        list(read_documents([tmp_path], "poems"))
    with pytest.raises(InputError, match="`language` must be"):
        split_sentences("One.", "../en")


def test_expand_files(tmp_path):
    for name in ("b.txt", "a.txt", "c.md", "d,e.txt", "[f].txt"):
        (tmp_path / name).write_text("x")
    (tmp_path / "folder.txt").mkdir()

    def names(patterns):
        return [path.name for path in expand_files(patterns)]

    assert names(f"{tmp_path}/[ab].txt") == ["a.txt", "b.txt"]
    assert names(f"{tmp_path}/c.md, {tmp_path}/?.txt,{tmp_path}/a.txt,") == ["c.md", "a.txt", "b.txt"]
    assert names(f"{tmp_path}/d,e.txt") == ["d,e.txt"]
    assert names(f"{tmp_path}/[f].txt") == ["[f].txt"]
    assert names(",".join([f"{tmp_path}/a.txt"] * 500)) == ["a.txt"]  # too long for the name of a file
    for patterns, message in [
        (f"{tmp_path}/a.txt,{tmp_path}/*.csv", r"No file matches '.*\*.csv'"),
        (f"{tmp_path}/none", "no input file .*none"),
        (f"{tmp_path}", "is a folder"),
        ("x" * 300, "no input file xxx"),
        (" ,", "at least one|At least one"),
    ]:
        with pytest.raises(InputError, match=message):
            expand_files(patterns)
