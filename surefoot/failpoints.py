"""Named points in the code where a test can kill, freeze or hold the process.

Armed by the environment, so that a test can arm them in a child process it is about to start:

    SUREFOOT_FAILPOINTS="relay.claimed=kill@3,relay.marked=stop"

means: SIGKILL ourselves the third time `relay.claimed` is passed, SIGSTOP the first time `relay.marked` is. The test
waits for the signal itself (waitpid), never for luck. `error` raises instead. Without the variable a failpoint is one
test of an empty dict.
"""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, cast, get_args

VARIABLE = "SUREFOOT_FAILPOINTS"
Action = Literal["kill", "stop", "error"]


class FailpointError(Exception):
    """Raised by a failpoint that was told to: stands for any failure at this place."""


@dataclass
class _Failpoint:
    action: Action
    passes_left: int


def _parse(text: str) -> dict[str, _Failpoint]:
    points: dict[str, _Failpoint] = {}
    for part in filter(None, text.split(",")):
        name, _, what = part.partition("=")
        action, _, times = what.partition("@")
        if action not in get_args(Action):
            raise ValueError(
                f"{VARIABLE}: {part!r} should look like name=kill, name=stop or name=error, with @N for the Nth pass."
            )
        points[name] = _Failpoint(cast(Action, action), int(times or 1))
    return points


_points = _parse(os.environ.get(VARIABLE, ""))
_observers: list[Callable[[Action, str], None]] = []


def arm(text: str) -> None:
    """Arm the points of `text`, written as in the environment, instead of those that were armed before."""
    _points.clear()
    _points.update(_parse(text))


def observe(observer: Callable[[Action, str], None]) -> None:
    """Call `observer` with each action that is about to be taken, and the name of its point."""
    _observers.append(observer)


def armed(name: str) -> bool:
    return name in _points


async def failpoint(name: str) -> None:
    """Pass a named point. Does nothing unless a test armed it."""
    if _points and name in _points:
        _strike(_points[name], name)


def _strike(point: _Failpoint, name: str) -> None:
    point.passes_left -= 1
    if point.passes_left != 0:
        return
    for observer in _observers:
        observer(point.action, name)
    if point.action == "error":
        raise FailpointError(name)
    os.kill(os.getpid(), signal.SIGKILL if point.action == "kill" else signal.SIGSTOP)
