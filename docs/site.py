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
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from rich.console import Console

import albert_tf
from albert_cli.cli import app

_ROOT = Path(__file__).parents[1]
# Files outside docs/ -> their pages.
_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "examples/serve/README.md": "serve.md",
}
_LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)")
_EXAMPLES = re.compile(r"^>>> ", re.MULTILINE)
_WIDTH = 100


class Examples(griffe.Extension):
    """The examples at the end of a docstring become a section of it."""

    def on_object(self, *, obj: griffe.Object, **_) -> None:
        docstring = obj.docstring
        if docstring and (found := _EXAMPLES.search(docstring.value)):
            before, examples = docstring.value[: found.start()], docstring.value[found.start() :]
            docstring.value = f"{before}Examples:\n{textwrap.indent(examples, '    ')}"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    pages = {page: (_ROOT / path).read_text(encoding="utf-8") for path, page in _PAGES.items()}
    pages |= {"commands.md": _commands(), "api.md": _api()}
    for page, content in pages.items():
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, page, config: MkDocsConfig, files: Files) -> str:
    """Links between files become links between pages, relative to the page's folder."""
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


def on_post_build(config: MkDocsConfig) -> None:
    """Fails if a page loads anything from elsewhere."""
    for path in Path(config.site_dir).rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|img|iframe|source)[^>]*src=\"?(?:https?:)?//[^ >]*", path.read_text()
        )
        loaded += re.findall(r"<link[^>]*stylesheet[^>]*href=\"?(?:https?:)?//[^ >]*", path.read_text())
        if loaded:
            raise PluginError(f"Pages must load nothing from elsewhere. {path} loads {loaded[0]}.")


def _commands() -> str:
    """What --help prints for every command."""
    parts = [
        "# Commands\n\nAs `albert COMMAND --help` prints them. `albert --install-completion` lets the shell "
        "complete commands and flags.\n"
    ]
    for words in _command_names():
        help_text = io.StringIO()
        app.help_print(words, console=Console(file=help_text, width=_WIDTH, color_system=None))
        parts.append(f"## albert {' '.join(words)}\n\n```text\n{help_text.getvalue().strip()}\n```\n")
    return "\n".join(parts)


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
    for name in albert_tf.__all__:
        home = getattr(albert_tf, name)
        importlib.import_module(home.__module__)
        parts.append(f"::: {home.__module__}.{home.__qualname__}\n")
    return "\n".join(parts)
