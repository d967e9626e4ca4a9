"""Advisory locks have their numbers in one place."""

import re
from pathlib import Path

import surefoot
from surefoot.database import locks

PACKAGE = Path(str(surefoot.__file__)).parent
NUMBER = re.compile(r"\b19370768\d\d\b")
IN_FUNCTIONS = {"tables/outbox.py": locks.OUTBOX_KEY, "tables/audit.py": locks.AUDIT_LOG}
"""Functions in the database are text that has been installed somewhere: the number is spelled out in it."""


def numbers() -> dict[str, int]:
    return {name: value for name, value in vars(locks).items() if NUMBER.fullmatch(str(value))}


def test_no_two_locks_have_the_same_number() -> None:
    assert len(set(numbers().values())) == len(numbers()) == 7


def test_no_other_module_spells_a_number_out() -> None:
    found = {
        str(path.relative_to(PACKAGE / "database")): set(map(int, NUMBER.findall(text)))
        for path in PACKAGE.rglob("*.py")
        if NUMBER.search(text := path.read_text()) and path.name != "locks.py" and "migrations" not in path.parts
    }
    assert found == {name: {number} for name, number in IN_FUNCTIONS.items()}
