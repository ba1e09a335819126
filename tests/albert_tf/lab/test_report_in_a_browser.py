"""The report in headless Chromium: it requests nothing, fits the screen, and follows the color scheme."""

import pytest

from tests.albert_tf.lab.samples import lab, write_laboratory

DESKTOP, PHONE = (1280, 900), (390, 844)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = write_laboratory(tmp_path_factory.mktemp("lab"))
    assert lab("report", folder) == 0
    return (folder / "report.html").as_uri()


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_as_a_reader_sees_it(browser, report, size, scheme):
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    page = context.new_page()
    requests, complaints = [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(report)
    for summary in page.locator("summary").all():
        summary.click()  # folded rows must fit, too
    assert [url for url in requests if not url.startswith("data:")] == [report]
    assert complaints == []
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert page.evaluate("document.images[0].naturalWidth") > 0
    # A table that is wider than the screen scrolls on its own, with its first column fixed.
    wide = page.locator("#table10 .wide")
    assert wide.evaluate("each => (each.scrollLeft = 100, each.scrollLeft)") == 100
    assert left(wide) == left(wide.locator("tbody th"))
    ink, back = page.evaluate("(s => [s.color, s.backgroundColor])(getComputedStyle(document.body))")
    assert (brightness(back) < brightness(ink)) == (scheme == "dark")
    context.close()


def left(element) -> float:
    return element.bounding_box()["x"]


def brightness(color: str) -> int:
    return sum(int(part) for part in color.removeprefix("rgb(").removesuffix(")").split(",")[:3])
