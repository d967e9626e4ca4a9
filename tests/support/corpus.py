"""One test that goes through a whole corpus and lists every case that failed.

A parametrized test per case would bury the other tests of a run, and would say no more when it fails.
"""

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import pytest

MOST_SHOWN = 30
LONGEST_LINE = 200
# What a failed `pytest.raises` raises is no Exception, so that the code under test cannot catch it by accident.
FAILURES = (Exception, pytest.fail.Exception)


def check_each(cases: Iterable[tuple[str, Callable[[], None]]]) -> None:
    """Run every case, also after one has failed.

    cases: the name of each case, and what to call. An empty corpus fails, because it proves nothing.
    """
    verdict = _Verdict()
    for name, check in cases:
        with verdict.about(name):
            check()
    verdict.give()


async def check_each_async(cases: Iterable[tuple[str, Callable[[], Awaitable[None]]]]) -> None:
    """The same for cases that are awaited, one after the other."""
    verdict = _Verdict()
    for name, check in cases:
        with verdict.about(name):
            await check()
    verdict.give()


def each_of(
    names: str | Sequence[str],
    rows: Iterable[Any],
    *,
    named: Callable[..., str] | None = None,
    expected: int | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Parametrize like `pytest.mark.parametrize`, but as one test, whose fixtures all rows share.

    names: the parameters that a row gives.
    rows: for each row a value, a tuple of values, or a `pytest.param` with an id.
    named: makes the name of a row from its values. Without it, the name shows the values.
    expected: how many rows there are, written by hand where rows are generated, so that none is lost unnoticed.
    """
    parameters = [names] if isinstance(names, str) else list(names)
    table = [_row(parameters, row, named) for row in rows]
    assert expected in (None, len(table)), f"There are {len(table)} rows, and {expected} are expected."

    def over(test: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def awaited(**fixtures: Any) -> None:
                await check_each_async((name, functools.partial(test, **cells, **fixtures)) for name, cells in table)

            whole: Callable[..., Any] = awaited
        else:

            @functools.wraps(test)
            def called(**fixtures: Any) -> None:
                check_each((name, functools.partial(test, **cells, **fixtures)) for name, cells in table)

            whole = called
        signature = inspect.signature(test)
        fixtures = [each for each in signature.parameters.values() if each.name not in parameters]
        whole.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return whole

    return over


def _row(parameters: list[str], row: Any, named: Callable[..., str] | None) -> tuple[str, dict[str, Any]]:
    name = None
    if isinstance(row, pytest.ParameterSet):
        name, values = row.id, row.values
    else:
        values = [row] if len(parameters) == 1 else row
    if named is not None:
        name = named(*values)
    return str(name or ", ".join(map(repr, values))), dict(zip(parameters, values, strict=True))


class _Verdict:
    """Counts the cases, and keeps what each that failed says."""

    def __init__(self) -> None:
        self._count = 0
        self._name = ""
        self._failed: list[str] = []
        self._first: BaseException | None = None

    def about(self, name: str) -> "_Verdict":
        self._count, self._name = self._count + 1, name
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> bool:
        if not isinstance(error, FAILURES):
            return False
        first_line = (str(error).splitlines() or [""])[0]
        self._failed.append(f"{self._name[:LONGEST_LINE]}: {type(error).__name__}: {first_line[:LONGEST_LINE]}")
        self._first = self._first or error
        return True

    def give(self) -> None:
        if not self._count:
            raise AssertionError("The corpus is empty, so this test proves nothing.")
        if self._failed:
            shown = self._failed[:MOST_SHOWN]
            if len(self._failed) > MOST_SHOWN:
                shown.append(f"and {len(self._failed) - MOST_SHOWN} more")
            lines = "\n  ".join([f"{len(self._failed)} of {self._count} cases failed:", *shown])
            raise AssertionError(lines) from self._first  # so that its traceback is shown, too
