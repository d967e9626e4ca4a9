"""What must have evidence: each failpoint of the product, each protection that a test takes out.

Both are read from the sources, so that a new one is missed in docs/testing.md as soon as it is written.
"""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
PRODUCT = ("surefoot", "orchestrator", "consumers", "outbox_publisher", "dlq", "services")
MADE_UP = {"dlq.{}.taken": ("intake", "outcomes"), "dlq.{}.committed": ("intake", "outcomes")}
"""Names that the product puts together, with the words that it puts in."""
WEAKENED = ("relay", "consumer", "orchestrator", "dlq", "idempotency", "platform")
"""The programs of tests/support/weakened."""


def failpoints(root: Path = ROOT) -> list[str]:
    """The name of each failpoint of the product, sorted."""
    return sorted({name for folder in PRODUCT for name in _names(root / folder, "failpoint")})


def protections(root: Path = ROOT) -> list[str]:
    """The name of each protection that some test takes out, sorted: by a weakened program, or in the test itself."""
    by_programs = {
        f"{part}.{name}"
        for part in WEAKENED
        for name in importlib.import_module(f"tests.support.weakened.{part}").PROTECTIONS
    }
    return sorted(by_programs | set(_names(root / "tests", "removed")))


def _names(folder: Path, function: str) -> Iterator[str]:
    """The first argument of each call of `function`."""
    for file in folder.rglob("*.py"):
        text = file.read_text()
        for node in ast.walk(ast.parse(text)) if f"{function}(" in text else ():
            match node:
                case ast.Call(func=ast.Name(id=called), args=[name, *_]) if called == function:
                    yield from _expanded(name, file)


def _expanded(argument: ast.expr, file: Path) -> tuple[str, ...]:
    match argument:
        case ast.Constant(str(name)):
            return (name,)
        case ast.JoinedStr(values):
            pattern = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in values)
            if pattern in MADE_UP:
                return tuple(pattern.format(word) for word in MADE_UP[pattern])
    raise AssertionError(
        f"{file.name}:{argument.lineno}: the name is put together. Write it as a literal, or add it to MADE_UP in "
        "tests/support/evidence/places.py."
    )
