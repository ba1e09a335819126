"""`albert lab report`: one page that loads nothing and agrees with the results."""

import base64
import dataclasses
import json
from html.parser import HTMLParser

import pytest

from albert_tf.lab.results import Column, Plot, ResultRow
from tests.albert_tf.lab.samples import lab, results, write_experiment, write_laboratory

# Attributes that load or link to something, in any element.
LINKS = {"src", "href", "srcset", "data", "action", "poster", "background", "xlink:href", "formaction"}


class Page(HTMLParser):
    """Tags with their attributes, and texts with their enclosing tag and its class."""

    def __init__(self, html: str):
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.texts: list[tuple[str, str, str]] = []
        self.commands: list[str] = []
        self._open: list[tuple[str, str]] = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "img"):
            self._open.append((tag, dict(attrs).get("class") or ""))
        if tag == "pre":
            self.commands.append("")

    def handle_endtag(self, tag):
        assert self._open.pop()[0] == tag, "elements are closed in order"

    def handle_data(self, data):
        if any(tag == "pre" for tag, _ in self._open):
            self.commands[-1] += data
        if data.strip():
            self.texts.append((*self._open[-1], data.strip()))

    def of(self, tag: str) -> list[str]:
        return [text for where, _, text in self.texts if where == tag]


@pytest.fixture
def report(tmp_path):
    folder = write_laboratory(tmp_path / "lab & <1>")
    assert lab("report", folder) == 0
    return (folder / "report.html").read_text()


def test_loads_nothing(report):
    page = Page(report)
    anchors = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    links = [value for _, attributes in page.tags for name, value in attributes.items() if name in LINKS]
    assert len(links) >= 5
    for link in links:
        assert link.startswith("data:") or (link[0] == "#" and link[1:] in anchors), link
    assert {"script", "iframe", "object", "embed", "base"}.isdisjoint(tag for tag, _ in page.tags)
    (style,) = page.of("style")
    assert "url(" not in style
    assert "@import" not in style
    (policy,) = (a["content"] for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")


def test_all_text_is_escaped(report):
    page = Page(report)
    assert "NSP <b>& next</b>" in page.of("th")
    assert "Does order teach <i>more</i>?" in page.of("p")
    assert page.commands[0] == "albert lab table5 --text='a & <b>.txt'"
    assert "<script>alert(1)</script>" in page.of("dd")
    assert not any(tag in ("b", "i") for tag, attributes in page.tags if attributes)
    (picture,) = (attributes for tag, attributes in page.tags if tag == "img")
    assert picture["alt"] == 'Curves of "both" & more.'


def test_the_picture_is_the_file(tmp_path):
    folder = write_laboratory(tmp_path / "lab")
    assert lab("report", folder) == 0
    page = Page((folder / "report.html").read_text())
    (picture,) = (attributes["src"] for tag, attributes in page.tags if tag == "img")
    kind, _, content = picture.partition(",")
    assert kind == "data:image/png;base64"
    assert base64.b64decode(content) == (folder / "table5" / "curves.png").read_bytes()


def test_numbers_and_order(report):
    page = Page(report)
    assert [text for text in page.of("b") if text] == ["Table 5", "Table 10", "Figure 1"]
    spans = page.of("span")
    assert "0.805 ± 0.007" in spans  # mean and standard deviation of 0.8 and 0.81
    assert "0.905" in spans  # the paper's
    assert "11,683,584" in spans  # a single value has no spread
    assert "RACE" not in page.of("th")  # no row has a number there
    assert "30 more rows" in page.of("summary")


def verdict_of(tmp_path, **changes) -> str:
    comparison = dataclasses.replace(results().comparisons[0], **changes)
    write_experiment(tmp_path, results(comparisons=[comparison]))
    assert lab("report", tmp_path) == 0
    page = Page((tmp_path / "report.html").read_text())
    (label,) = ((kind, text) for _, kind, text in page.texts if kind.startswith("label"))
    return ": ".join(label)


@pytest.mark.parametrize(
    ("verdict", "paper", "expected"),
    [
        ("higher", "higher", "label agrees: higher, as in the paper"),
        ("lower", "higher", "label differs: lower; the paper: higher"),
        ("can't tell", "higher", "label open: can't tell (the paper: higher)"),
        ("can't tell", None, "label open: can't tell"),
        ("higher", None, "label alone: higher"),
        ("higher", "can't tell", "label alone: higher"),
    ],
)
def test_labels_follow_the_verdicts(tmp_path, verdict, paper, expected):
    assert verdict_of(tmp_path, verdict=verdict, paper=paper) == expected


def test_a_difference_is_shown_with_its_standard_error(report):
    spans = Page(report).of("span")
    text = spans.index("SOP against NSP <b>& next</b> in SOP (accuracy):")
    assert spans[text + 1] == "+0.195 ± 0.018"


def test_medians(tmp_path):
    rows = [ResultRow("a", "a", {}, {"race": [80.0, 70.0, 71.0]})]
    columns = [Column("race", "RACE", "", 1)]
    write_experiment(tmp_path, results(statistic="median", rows=rows, columns=columns, comparisons=()))
    assert lab("report", tmp_path) == 0
    assert "71.0 (70.0 to 80.0)" in Page((tmp_path / "report.html").read_text()).of("span")


def no_laboratory(folder):
    folder.mkdir()


def another_file(folder):
    write_experiment(folder, results())
    (folder / "table5" / "results.json").write_text('{"task": "rte"}')


def no_picture(folder):
    write_experiment(folder, results(plots=[Plot("curves.png", "")]))
    (folder / "table5" / "curves.png").unlink()


def picture_elsewhere(folder):
    write_experiment(folder, results())
    path = folder / "table5" / "results.json"
    path.write_text(
        json.dumps({**json.loads(path.read_text()), "plots": [{"file": "../a.png", "caption": ""}]})
    )


def unknown_row(folder):
    write_experiment(
        folder, results(comparisons=[dataclasses.replace(results().comparisons[0], row="nobody")])
    )


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (no_laboratory, "which holds none; run one with `albert lab`"),
        (another_file, "table5/results.json must be the results.json of an experiment"),
        (no_picture, "table5/curves.png must exist"),
        (picture_elsewhere, "Received '../a.png'"),
        (unknown_row, "compares a row or column that its table does not have"),
    ],
)
def test_mistakes_are_a_sentence(tmp_path, capfd, write, message):
    write(tmp_path / "lab")
    assert lab("report", tmp_path / "lab") == 2
    assert message in capfd.readouterr().err.replace("\n", " ")
    assert not (tmp_path / "lab" / "report.html").exists()
