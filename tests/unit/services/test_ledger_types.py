"""A float is no amount of money for the type checker, either."""

import re
from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parents[3]
PROGRAM = """
from decimal import Decimal
from services.ledger.move import Move
from services.ledger.statements import Statement
from surefoot.events import Money
Move("op", "a", "b", Money(Decimal("5.00"), "EUR"))
Money(5.0, "EUR")  # wrong
Money.minor(5.0, "EUR")  # wrong
Move("op", "a", "b", 5.0)  # wrong
Statement("SELECT :amount", {"amount": 5.0})  # wrong
"""


@pytest.mark.slow
def test_a_float_is_refused_by_its_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    program = tmp_path / "floats.py"
    program.write_text(PROGRAM)
    found, said, _ = api.run(["--config-file", "pyproject.toml", str(program)])
    assert said == ""
    wrong = [number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# wrong")]
    refused = [line for line in found.splitlines() if ": error: " in line]
    assert [int(number) for line in refused for number in re.findall(r"floats\.py:(\d+):", line)] == wrong
    assert all('"float"' in line for line in refused)
