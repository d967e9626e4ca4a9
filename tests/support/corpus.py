"""Checks every case of a table in one test, and lists all that failed."""

from collections.abc import Callable, Iterable

import pytest

MOST_SHOWN = 30


def check_each(cases: Iterable[tuple[str, Callable[[], None]]]) -> None:
    """Run each case. One AssertionError lists every case that failed, one line each.

    cases: the name of a case, and a function that raises if the case fails.
    """
    failures = []
    for name, check in cases:
        try:
            check()
        except (Exception, pytest.fail.Exception) as error:
            said = str(error).strip().splitlines()
            failures.append(f"{name}: {type(error).__name__}: {said[0] if said else 'no message'}")
    if failures:
        shown = failures[:MOST_SHOWN]
        if len(failures) > MOST_SHOWN:
            shown.append(f"and {len(failures) - MOST_SHOWN} more")
        raise AssertionError("\n".join([f"{len(failures)} cases failed:", *shown]))
