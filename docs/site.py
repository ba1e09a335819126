"""A hook of MkDocs: the pages that are made from the program, its docstrings and files outside docs/."""

import contextlib
import importlib
import io
import os
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import griffe
from cyclopts.help import HelpEntry
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from rich.console import Console

import albert_tf
from albert_cli.cli import app
from albert_cli.commands.terminal import import_tensorflow
from albert_cli.help_page import HelpPage, grouped_flags

_ROOT = Path(__file__).parents[1]
# Files outside docs/ -> their pages.
_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "examples/serve/README.md": "serve.md",
    "albert_tf/models/albert_small_en/README.md": "albert_small_en.md",
}
_MODEL_PAGE = "albert_small_en.md"
# The Hub's metadata, whose tags would come first in every search, and the title, which names the format.
_CARD_HEAD = re.compile(r"\A---\n.*?\n---\n\s*# .*?\n", re.DOTALL)
_CODE = re.compile(r"<code>.*?</code>", re.DOTALL)
_LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)")
# Weights of the navigation's sections in a search.
_BOOSTS = {"How to": 4, "Tutorials": 1.5, "Reference": 0.5, "Background": 0.5}
_EXAMPLES = re.compile(r"^>>> ", re.MULTILINE)


class Examples(griffe.Extension):
    """The examples at the end of a docstring become a section of it."""

    def on_object(self, *, obj: griffe.Object, **_) -> None:
        docstring = obj.docstring
        if docstring and (found := _EXAMPLES.search(docstring.value)):
            before, examples = docstring.value[: found.start()], docstring.value[found.start() :]
            docstring.value = f"{before}Examples:\n{textwrap.indent(examples, '    ')}"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    pages = {page: (_ROOT / path).read_text(encoding="utf-8") for path, page in _PAGES.items()}
    pages["index.md"] = f"---\ntitle: ALBERT in TensorFlow and Keras 3\n---\n\n{pages['index.md']}"
    pages[_MODEL_PAGE] = _CARD_HEAD.sub("# albert_small_en\n", pages[_MODEL_PAGE])
    pages |= {"commands.md": _commands(), "api.md": _api()}
    for page, content in pages.items():
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, page, config: MkDocsConfig, files: Files) -> str:
    """Links between files become links between pages, relative to the page's folder."""
    # A search asks how to do something, or what went wrong; the long pages about the library have every word.
    page.meta.setdefault(
        "search", {"boost": _BOOSTS.get(page.ancestors[-1].title if page.ancestors else "", 1)}
    )
    sources = {target: source for source, target in _PAGES.items()}
    folder = _ROOT.joinpath(sources.get(page.file.src_uri, f"docs/{page.file.src_uri}")).parent

    def moved(link: re.Match) -> str:
        path = (folder / link[1]).resolve()
        name = path.relative_to(_ROOT).as_posix() if path.is_relative_to(_ROOT) else link[1]
        target = _PAGES.get(name, name.removeprefix("docs/"))
        if target.startswith("tutorials/") and page.file.src_uri != target.replace(".ipynb", ".md"):
            target = target.replace(".ipynb", ".md")
        return os.path.relpath(target, Path(page.file.src_uri).parent)

    return _LINK.sub(moved, markdown)


def on_page_content(html: str, **_) -> str:
    """A line does not break inside the name of a flag."""
    return _CODE.sub(lambda code: re.sub(r"--\w+", r'<span class="flag">\g<0></span>', code[0]), html)


def on_post_build(config: MkDocsConfig) -> None:
    """Fails if a page loads anything from elsewhere."""
    for path in Path(config.site_dir).rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|img|iframe|source)[^>]*src=\"?(?:https?:)?//[^ >]*", path.read_text()
        )
        loaded += re.findall(r"<link[^>]*stylesheet[^>]*href=\"?(?:https?:)?//[^ >]*", path.read_text())
        if loaded:
            raise PluginError(f"Pages must load nothing from elsewhere. {path} loads {loaded[0]}.")


class _MarkdownHelp(HelpPage):
    """Collects what --help prints as Markdown: a list of flags fits every screen, a box of text does not."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []

    def render_usage(self, console, options, usage) -> None:
        self.parts.append(f"    {str(usage).strip()}")

    def render_description(self, console, options, description) -> None:
        with console.capture() as text:
            console.print(description)
        # The examples are indented by two spaces, and by four where a line goes on.
        self.parts.append(re.sub(r"^(?=  )", "  ", text.get(), flags=re.MULTILINE).strip("\n"))

    def __call__(self, console, options, panel) -> None:
        if panel.format == "command":
            return  # they have sections of their own
        for title, flags in grouped_flags(panel):
            self.parts += [f"**{title}**", *map(_definition, flags)]


def _definition(flag: HelpEntry) -> str:
    """A flag and its text as an item of a definition list."""
    text = _as_markdown(str(getattr(flag.description, "primary_renderable", flag.description)))
    if flag.choices:
        text += f" One of {', '.join(f'`{choice}`' for choice in flag.choices)}."
    if flag.default is not None:
        text += f" Default: `{flag.default}`."
    names = " ".join(f"`{label}`" for label in flag.display_labels_with_metavar)
    return f"{names}{' (required)' if flag.required else ''}\n:   {text}"


def _as_markdown(text: str) -> str:
    """Flags become code, and no other character has a meaning in Markdown or HTML."""

    def safe(found: re.Match) -> str:
        word = found[0]
        if word.startswith("--"):
            return f"`{word}`"
        return {"<": "&lt;"}.get(word, f"\\{word}") if len(word) == 1 else word

    return re.sub(r"`[^`]+`|--\w+(?:=\w[\w:.]*\b)?|[*<\[\]]", safe, text)


def _commands() -> str:
    """What --help prints for every command."""
    parts = [
        "# Commands\n\nAs `albert COMMAND --help` prints them. `albert --install-completion` lets the shell "
        "complete commands and flags."
    ]
    for words in _command_names():
        page = _MarkdownHelp()
        app.help_formatter = page
        app.help_print(words, console=Console(file=io.StringIO(), width=10_000, color_system=None))
        parts += [f"## albert {' '.join(words)}", *page.parts]
    return "\n\n".join(parts)


def _command_names() -> Iterator[list[str]]:
    for name in app.resolved_commands():
        if name.startswith("-"):
            continue
        yield [name]
        with contextlib.suppress(AttributeError):
            yield from ([name, inner] for inner in app[name].resolved_commands() if not inner.startswith("-"))


def _api() -> str:
    """The docstrings of all public names, under the names by which users import them."""
    parts = [
        "# Python\n\nEverything here is imported as `from albert_tf import NAME`. The examples run beside a run "
        "in `runs/base`; they use `np` for NumPy and the other public names.\n"
    ]
    import_tensorflow()  # without its messages
    for name in albert_tf.__all__:
        home = getattr(albert_tf, name)
        importlib.import_module(home.__module__)
        parts.append(f"::: {home.__module__}.{home.__qualname__}\n")
    return "\n".join(parts)
