"""What a refusal says, as far as it is written down: a field, what is wrong, and after a semicolon the fix."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def refusals() -> Iterator[tuple[str, ast.expr]]:
    """Where each `SpectraError` is made, and the expression of its problem."""
    for path in sorted(file for room in ("spectra", "visual", "assets/hub") for file in (ROOT / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            if node.func.id == "SpectraError" and len(node.args) == 2:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node.args[1]


def written(problem: ast.expr) -> str:
    """The text of a problem that ends in text. What ends in a value quotes a problem that is written elsewhere."""
    parts = problem.values if isinstance(problem, ast.JoinedStr) else [problem]
    ends_in_text = isinstance(parts[-1], ast.Constant)
    return "".join(str(one.value) for one in parts if isinstance(one, ast.Constant)) if ends_in_text else ""


REFUSALS = dict(refusals())


def test_there_are_many() -> None:
    assert sum(map(bool, map(written, REFUSALS.values()))) > 200


@pytest.mark.parametrize("place", [place for place, problem in REFUSALS.items() if written(problem)])
def test_a_refusal_says_the_fix(place: str) -> None:
    _, semicolon, fix = written(REFUSALS[place]).rpartition(";")
    assert semicolon and fix.strip(), ast.unparse(REFUSALS[place])
