"""The documentation's pages in headless Chromium: on a desktop and a phone, light and dark."""

import functools
import http.server
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WIDTHS = {"desktop": 1280, "phone": 390}
SCHEMES = {"light": "default", "dark": "slate"}  # of the system -> of the page
# What newcomers ask -> where the first answer must be.
QUESTIONS = {
    "out of memory": "troubleshooting.html#out-of-memory",
    "fine-tune on my CSV with three labels": "finetune.html#classify-the-texts-of-a-csv-file",
    "why is my loss flat": "troubleshooting.html#the-loss-does-not-fall",
    "export for a phone": "export.html#on-a-phone-or-another-runtime",
    "use a Hugging Face checkpoint": "convert.html#load-a-model-hugging-face-tf1-kerashub",
    "Chinese": "languages.html#chinese-checkpoints",
    "several GPUs": "devices.html#gpus",
    "resume after a crash": "troubleshooting.html#resume-after-a-crash",
    "serve without TensorFlow": "export.html#serve-without-tensorflow-portable-models",
    "NaN": "troubleshooting.html#nan-or-the-loss-jumps",
    "slow input": "troubleshooting.html#slow-input",
    "use my own vocabulary": "prepare.html#your-own-vocabulary",
    "use another language": "languages.html",
    "train on German text": "languages.html",
    "serve over REST": "serve.html",
    "convert a Hugging Face model": "convert.html#load-a-model-hugging-face-tf1-kerashub",
    "use on a TPU": "devices.html#a-tpu",
    "android": "export.html#on-a-phone-or-another-runtime",
    "--gradient_accumulation_steps": "troubleshooting.html#out-of-memory",
}
SCHEME = "document.body.getAttribute('data-md-color-scheme')"
LINKS = "[...document.links].filter(link => link.protocol.startsWith('http')).map(link => link.href)"
IDS = "[...document.querySelectorAll('[id]')].map(element => element.id)"
RESULTS = "[...document.querySelectorAll('a.md-search-result__link')].map(link => link.href)"
# Signs of Markdown that are left, or that were taken for emphasis inside a formula.
STRAY = """[...document.querySelectorAll('.md-content :is(p, li, td, dd)')].map(each => {
  const text = each.cloneNode(true)
  text.querySelectorAll('code').forEach(code => code.remove())
  const formulas = [...text.querySelectorAll('em')].filter(em => /[(,]/.test(em.textContent))
  return formulas.length || /\\*\\*|`|\\]\\(/.test(text.textContent) ? text.textContent.slice(0, 60) : ''
}).filter(Boolean)"""
# The contrast of text with what is behind it (WCAG 2.2, 1.4.3), of the page, its headings, links, tables and code.
CONTRASTS = """() => {
  const numbers = color => color.match(/[\\d.]+/g).map(Number)
  const over = ([r, g, b, a = 1], below) => [r, g, b].map((each, i) => each * a + below[i] * (1 - a))
  const light = color => color.map(each => each / 255)
    .map(each => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4)
    .reduce((sum, each, i) => sum + each * [0.2126, 0.7152, 0.0722][i], 0)
  const ground = element => element ? over(numbers(getComputedStyle(element).backgroundColor),
    ground(element.parentElement)) : [255, 255, 255]
  const kinds = new Map()  // one element of each kind
  for (const element of document.querySelectorAll(
      '.md-content :is(h1, h2, h3, p, li, td, th, dd, code, a:not(.headerlink), pre span)')) {
    const kind = `${element.parentElement.tagName} ${element.tagName} ${element.className}`
    if (!kinds.has(kind) && element.innerText?.trim() && element.checkVisibility()) kinds.set(kind, element)
  }
  return Array.from(kinds, ([kind, element]) => {
    const below = ground(element), ink = over(numbers(getComputedStyle(element).color), below)
    const [dark, bright] = [light(below), light(ink)].sort((a, b) => a - b)
    return [(bright + 0.05) / (dark + 0.05), `${kind}: ${element.innerText.slice(0, 40)}`]
  }).filter(([contrast]) => contrast < 3)
}"""


class _Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site."""
    for package in ("material", "mkdocstrings"):
        pytest.importorskip(package, reason="pip install '.[docs]' builds the site")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", f"--site-dir={folder}"]
    built = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="module")
def address(site):
    handler = functools.partial(_Silent, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def page(browser, address):
    """A window whose console stays silent and which asks no other host."""
    window = browser.new_page()
    requests, complaints = [], []
    window.on("request", lambda request: requests.append(request.url))
    window.on("console", lambda message: complaints.append(f"{window.url}: {message.text}"))
    window.on("pageerror", lambda error: complaints.append(f"{window.url}: {error}"))
    yield window
    window.close()
    assert complaints == []
    assert requests and not [url for url in requests if not url.startswith(address)]


def test_every_page_fits_every_screen(page, site, address):
    names = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    assert len(names) > 20
    faults: list[str] = []
    ids: dict[str, list[str]] = {}
    links: dict[str, list[str]] = {}
    for name in names:
        page.set_viewport_size({"width": WIDTHS["desktop"], "height": 900})
        page.goto(address + name)
        ids[address + name], links[name] = page.evaluate(IDS), page.evaluate(LINKS)
        if page.locator("h1").count() != 1 or not page.title():
            faults.append(f"{name} has no title or several")
        if stray := page.evaluate(STRAY):
            faults.append(f"{name} shows the signs of Markdown: {stray}")
        for screen, width in WIDTHS.items():
            page.set_viewport_size({"width": width, "height": 900})
            needed = page.evaluate("document.documentElement.scrollWidth")
            if needed > width:
                faults.append(f"{name} is {needed} pixels wide on a {screen}")
            if pictures := page.evaluate("[...document.images].filter(each => !each.naturalWidth).length"):
                faults.append(f"{name} lacks {pictures} pictures on a {screen}")
        for media, scheme in SCHEMES.items():
            page.emulate_media(color_scheme=media)
            page.wait_for_function(f"{SCHEME} === '{scheme}'")
            faint = page.evaluate(CONTRASTS)
            faults += [f"{name}, {media}: contrast {ratio:.1f} of {text}" for ratio, text in faint]
    for name, targets in links.items():
        for target in {target for target in targets if target.startswith(address)}:
            path, _, anchor = target.partition("#")
            path = path.split("?")[0]
            if path == address:
                path += "index.html"
            is_file = (site / path.removeprefix(address)).is_file()  # a page, or a notebook to download
            if not is_file or (anchor and anchor not in ids[path]):
                faults.append(f"{name} links to {target}, which does not exist")
    assert faults == []


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_search_answers_newcomers(page, address, question):
    page.set_viewport_size({"width": WIDTHS["desktop"], "height": 900})
    page.goto(address + "index.html")
    page.click(".md-search__input")
    page.fill(".md-search__input", question)
    page.press(".md-search__input", "End")  # the theme reads the box when a key is released
    page.wait_for_function(f"{RESULTS}.length > 0")
    # The address of a result is PAGE?h=WORDS#SECTION.
    found = [re.sub(r"\?[^#]*", "", url.removeprefix(address)) for url in page.evaluate(RESULTS)]
    assert QUESTIONS[question] in found[:6]


def test_the_reference_has_what_task_models_inherit_from_ours(site):
    ids = set(re.findall(r'id="([\w.]+)"', (site / "api.html").read_text(encoding="utf-8")))
    methods = {id_.rpartition(".")[2] for id_ in ids if ".TextClassifier." in id_}
    assert {"from_pretrained", "compile", "fit", "evaluate", "predict", "predict_labels"} <= methods
    assert not {"summary", "add_loss", "from_stored"} & methods


def test_plots_do_not_glare_in_the_dark(page, address):
    page.goto(address + "results.html")
    picture = page.locator(".md-content img").first
    for media, scheme in SCHEMES.items():
        page.emulate_media(color_scheme=media)
        page.wait_for_function(f"{SCHEME} === '{scheme}'")
        look = picture.evaluate("each => getComputedStyle(each).filter")
        assert ("invert" in look) == (media == "dark")
