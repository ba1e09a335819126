"""Mutants of a module: its source with one operator, constant, condition or loop changed."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from cosmic_ray.ast import Visitor, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

# A decorator or an exception's class that goes fails at import or is a matter of taste.
_LEFT_OUT = ("RemoveDecorator", "ExceptionReplacer", "VariableReplacer", "VariableInserter", "NoOp")


@dataclass(frozen=True)
class Mutant:
    """One change of one module; `line` counts from 1."""

    module: str
    operator: str
    occurrence: int
    line: int
    column: int

    def source(self, original: str) -> str:
        """The changed source."""
        return mutate_code(original, get_operator(self.operator)(), self.occurrence)

    def changes_behaviour(self, original: str) -> bool:
        """Whether more than annotations changes."""
        return _behaviour(self.source(original)) != _behaviour(original)


def mutants_of(module: str, source: str) -> Iterator[Mutant]:
    """All mutants, those among them that change annotations only."""
    tree = get_ast(source)
    for operator in operator_names():
        if operator.endswith(_LEFT_OUT):
            continue
        positions = _Positions(get_operator(operator)())
        positions.walk(tree)
        for occurrence, (line, column) in enumerate(positions.found):
            yield Mutant(module, operator, occurrence, line, column)


class _Positions(Visitor):
    """Collects where an operator can change something, in the order in which it counts its occurrences."""

    def __init__(self, operator):
        self.operator, self.found = operator, []

    def visit(self, node):
        self.found += [start for start, _ in self.operator.mutation_positions(node)]
        return node


def _behaviour(source: str) -> str | None:
    """What a module does, without annotations and type aliases; None if it is not Python."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    tree.body = [statement for statement in tree.body if not _is_alias(statement)]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
    return ast.dump(tree)


def _is_alias(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Assign) else None
    return isinstance(value, ast.BinOp | ast.Subscript)
