"""A hook of MkDocs: every notebook in docs/tutorials becomes a page of Markdown, with its outputs and pictures."""

import base64
from collections.abc import Iterator
from pathlib import Path

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

_FOLDER = Path(__file__).parent / "tutorials"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path in sorted(_FOLDER.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        for name, picture in _pictures(notebook, path.stem):
            files.append(File.generated(config, f"tutorials/{name}", content=picture))
        page = _markdown(notebook, path.stem)
        files.append(File.generated(config, f"tutorials/{path.stem}.md", content=page))
    return files


def _pictures(notebook: nbformat.NotebookNode, name: str) -> Iterator[tuple[str, bytes]]:
    """The file name and content of each picture."""
    for number, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            if picture := output.get("data", {}).get("image/png"):
                yield _picture_name(name, number), base64.b64decode(picture)


def _picture_name(name: str, cell: int) -> str:
    return f"{name}-{cell}.png"


def _markdown(notebook: nbformat.NotebookNode, name: str) -> str:
    """The page of a notebook."""
    parts = []
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(_fenced("python", cell.source))
        texts = "".join(output.text for output in cell.outputs if output.output_type == "stream")
        if texts:
            parts.append(_fenced("text", texts.rstrip()))
        if any("image/png" in output.get("data", {}) for output in cell.outputs):
            parts.append(f"![The picture that the code above draws]({_picture_name(name, number)})")
    title, _, rest = "\n\n".join(parts).partition("\n")
    return f"{title}\n\n*A notebook: [download it]({name}.ipynb).*\n{rest}\n"


def _fenced(language: str, text: str) -> str:
    return f"````{language}\n{text}\n````"
