"""Figures on the shape of the source: the number and length of files and functions.

    python -m tests.shape

They guide judgement; the rules are in tests/test_floors.py.
"""

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
LIBRARY = ("albert_tf", "albert_cli", "data_prep", "export")
REST = ("benchmarks", "experiments", "examples", "tests")
SHORT_FILE, LONG_FUNCTION, MANY_PARAMETERS = 50, 60, 7


def source_files(folders: tuple[str, ...]) -> list[Path]:
    """The Python files below some of the top-level folders."""
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All functions and methods of a file, nested ones too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end."""
    assert function.end_lineno
    return function.end_lineno - function.lineno + 1


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The number of a function's named parameters, including `self`."""
    arguments = function.args
    return len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs)


def figures(paths: list[Path]) -> dict[str, float]:
    """The rows of the table for some files."""
    lines = [len(path.read_text(encoding="utf-8").splitlines()) for path in paths]
    defined = [function for path in paths for function in functions(path)]
    lengths = [length(function) for function in defined]
    return {
        "files": len(paths),
        "lines": sum(lines),
        f"files under {SHORT_FILE} lines": sum(number < SHORT_FILE for number in lines),
        "lines of the longest file": max(lines),
        "functions": len(defined),
        "median lines of a function": statistics.median(lengths),
        "95th percentile": statistics.quantiles(lengths, n=20)[-1],
        f"functions over {LONG_FUNCTION} lines": sum(number > LONG_FUNCTION for number in lengths),
        f"functions of over {MANY_PARAMETERS} parameters": sum(
            parameters(function) > MANY_PARAMETERS for function in defined
        ),
    }


def main() -> None:
    """Prints the figures of the library and of what surrounds it."""
    library, rest = (figures(source_files(folders)) for folders in (LIBRARY, REST))
    table = Table("", "library", ", ".join(REST), caption=f"library: {', '.join(LIBRARY)}")
    for name in library:
        table.add_row(name, f"{library[name]:,.0f}", f"{rest[name]:,.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
