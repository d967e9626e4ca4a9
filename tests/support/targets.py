"""Which tests belong to which target of the Makefile: decided by markers, and a marker says why a test is deep."""

from typing import Literal, get_args

import pytest

Target = Literal["fast", "test", "deep", "alone", "drills"]

DEEP = {
    "mutation": "takes a protection out of the product, and expects a checker to notice",
    "twin": "tells a story that `make test` tells, once more on the other log or with another verb",
    "proof": "goes through very many states, seeds or interleavings",
    "crowd": "has very many clients or events, or an outage of several seconds",
}
"""Why a test is left to `make test-deep`."""

OTHERS = {
    "kafka": "needs a real Kafka broker, which the tests start",
    "slow": "takes a second or more; left out of `make test-fast`",
    "alone": "measures what other tests would disturb; `make test-alone` runs it, after the others in `make test-deep`",
    "drill": "takes minutes; runs in `make drills` alone",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--target",
        choices=get_args(Target),
        help="Run the tests of one target of the Makefile; all but drills if unset.",
    )


def pytest_configure(config: pytest.Config) -> None:
    for name, why in {**DEEP, **OTHERS}.items():
        config.addinivalue_line("markers", f"{name}: {why}")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        for name in implied(item):
            item.add_marker(name)
    target = config.getoption("--target")
    chosen = [item for item in items if belongs(target, {mark.name for mark in item.iter_markers()})]
    if left_out := list(set(items) - set(chosen)):
        config.hook.pytest_deselected(items=left_out)
        items[:] = chosen


def implied(item: pytest.Item) -> list[str]:
    """The marks that a test has by what it asks for: the broker, or a process with a protection taken out."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    brokers = {"kafka", "own_broker"} & set(getattr(item, "fixturenames", ()))
    marks = {"kafka": bool(brokers), "mutation": bool(parameters.get("weakened"))}
    return [name for name, applies in marks.items() if applies]


def belongs(target: Target | None, marks: set[str]) -> bool:
    """Whether a test with these marks is part of a target."""
    if "drill" in marks:
        return target == "drills"
    if "alone" in marks:
        return target in ("alone", None)
    if marks & DEEP.keys():
        return target in ("deep", None)
    if marks & {"kafka", "slow"}:
        return target in ("test", None)
    return target in ("fast", "test", None)


def is_whole(config: pytest.Config) -> bool:
    """Whether a run is of all tests of its target, not of some that were chosen by hand."""
    chosen = ("keyword", "markexpr", "deselect", "ignore", "ignore_glob", "lf", "stepwise", "maxfail", "collectonly")
    return config.args == config.getini("testpaths") and not any(config.getoption(name, None) for name in chosen)
