"""Runs the scripts in docs/tutorials and writes the notebooks beside them, with their outputs.

    python docs/run_tutorials.py                    # all
    python docs/run_tutorials.py classifier search  # some of them
    python docs/run_tutorials.py pretraining --texts=books

A notebook is replaced once its script has run to the end. Without --texts, the tutorial on pretraining, which
needs a folder of text, is left out.
"""

import argparse
import os
import re
import sys
import tempfile
import time
from pathlib import Path

import jupytext
import nbformat

FOLDER = Path(__file__).parent / "tutorials"
PRETRAINING = "pretraining"
# TensorFlow prints these when it is imported.
_NOISE = re.compile(r"^(WARNING: All log messages before absl|[IWE]0000 ).*\n", re.MULTILINE)
_TIMEOUT = 1800  # seconds per cell


def read_script(path: Path) -> nbformat.NotebookNode:
    """The notebook of a script in the percent format, without outputs."""
    notebook = jupytext.read(path, fmt="py:percent")
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"
    return notebook


def run(name: str, texts: Path | None) -> None:
    """Executes a script in an empty folder, for pretraining beside the texts, and writes its notebook."""
    from nbclient import NotebookClient  # the tests read scripts without it

    notebook = read_script(FOLDER / f"{name}.py")
    with tempfile.TemporaryDirectory() as folder:
        if texts:
            Path(folder, "texts").symlink_to(texts.resolve())
        client = NotebookClient(
            notebook,
            timeout=_TIMEOUT,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
            coalesce_streams=True,
        )
        client.execute()
    for cell in notebook.cells:
        clean(cell)
    nbformat.write(notebook, FOLDER / f"{name}.ipynb")


def clean(cell: nbformat.NotebookNode) -> None:
    """Removes what differs from run to run, and TensorFlow's messages at its import."""
    cell.metadata.pop("execution", None)
    for output in cell.get("outputs", []):
        if output.output_type == "stream":
            output.text = _NOISE.sub("", output.text)
    if cell.cell_type == "code":
        cell.outputs = [output for output in cell.outputs if output.get("text") != ""]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = sorted(path.stem for path in FOLDER.glob("*.py"))
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    parser.add_argument("--texts", type=Path, help="folder of .txt files, for the tutorial on pretraining")
    flags = parser.parse_args()
    if unknown := set(flags.names) - set(names):
        parser.error(f"There is no tutorial {', '.join(sorted(unknown))}. There are {', '.join(names)}.")
    root, programs = str(FOLDER.parents[1]), str(Path(sys.executable).parent)
    for variable, folder in (("PATH", programs), ("PYTHONPATH", root)):
        os.environ[variable] = os.pathsep.join(filter(None, [folder, os.environ.get(variable)]))
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    for name in flags.names or names:
        if name == PRETRAINING and not flags.texts:
            print(f"{name}: left out, because it needs --texts")
            continue
        began = time.monotonic()
        run(name, flags.texts)
        print(f"{name}: {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
