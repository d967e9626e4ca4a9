"""What must have evidence: each failpoint of the product, each protection that a test takes out.

Both are read from the sources, so that a new one is missed in docs/testing.md as soon as it is written.
"""

import ast
import importlib
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
MADE_UP = {"dlq.{}.taken": ("intake", "outcomes"), "dlq.{}.committed": ("intake", "outcomes")}
"""Names that the product puts together, with the words that it puts in."""


def failpoints(root: Path = ROOT) -> list[str]:
    """The name of each failpoint of the product, sorted."""
    return sorted({name for package in _packages() for name in _names(root / package, "failpoint")})


def protections(root: Path = ROOT) -> list[str]:
    """The name of each protection that some test takes out, sorted: by a weakened program, or in the test itself."""
    return sorted(weakened() | set(_names(root / "tests", "removed")))


def weakened() -> set[str]:
    """The protections that the programs of tests/support/weakened do without."""
    folder = ROOT / "tests" / "support" / "weakened"
    modules = {
        file.stem: importlib.import_module(f"tests.support.weakened.{file.stem}")
        for file in folder.glob("*.py")
        if "PROTECTIONS" in file.read_text() and file.stem != "__main__"
    }
    return {f"{part}.{name}" for part, module in modules.items() for name in module.PROTECTIONS}


def _packages() -> list[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages: list[str] = settings["tool"]["importlinter"]["root_packages"]
    return packages


def _names(folder: Path, function: str) -> Iterator[str]:
    """The argument of each call of `function`, however it was imported."""
    for file in folder.rglob("*.py"):
        text = file.read_text()
        for node in ast.walk(ast.parse(text)) if f"{function}(" in text else ():
            if isinstance(node, ast.Call) and _called(node.func) == function:
                yield from _literal(node, file)


def _called(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _literal(call: ast.Call, file: Path) -> tuple[str, ...]:
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    match arguments:
        case [ast.Constant(str(name))]:
            return (name,)
        case [ast.JoinedStr(values)]:
            pattern = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in values)
            if pattern in MADE_UP:
                return tuple(pattern.format(word) for word in MADE_UP[pattern])
    raise AssertionError(
        f"{file.name}:{call.lineno}: the name is put together. Write it as a literal, or add it to MADE_UP in "
        "tests/support/evidence/places.py."
    )
