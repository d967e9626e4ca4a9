"""Whether a process lives, and whether it is ready: judged from its pulse and from what its parts say of themselves.

All of this is asked from a thread of its own (see `health_server`), because an event loop that stands still cannot
answer. So a part says what it knows already: it reads a few of its attributes, waits for nothing and asks nobody.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from surefoot.telemetry.pulse import Pulse

STALLED_S = 30.0
"""A loop that has not turned for so long is dead: what runs in it is lost to others, and waiting will not mend it."""
STARTS = "the process starts"
STOPS = "the process was asked to stop, and finishes what is under way"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a part says of one thing that the process needs. Others may speak of the same thing."""

    check: str
    ok: bool | None
    """None if this part does not know it yet. Then the others' word counts; if nobody knows, it is not ok."""
    sentence: str


@runtime_checkable
class TellsReadiness(Protocol):
    def readiness(self) -> Iterable[Finding]:
        """What this part knows now. Called from another thread."""


@dataclass(frozen=True, slots=True)
class Answer:
    ok: bool
    body: dict[str, object]


class Health:
    """The health of this process. A part is watched from `watch` on, the event loop from `begin` on."""

    def __init__(self, stalled_s: float | None = None) -> None:
        self._stalled_s = STALLED_S if stalled_s is None else stalled_s
        self._pulse = Pulse()
        self._beats = False
        self._watched: TellsReadiness | None = None
        self._stopping = False

    def watch(self, part: TellsReadiness) -> None:
        self._watched = part

    def begin(self) -> None:
        """Call it in the event loop."""
        self._pulse.start()
        self._beats = True

    def stopping(self) -> None:
        """No longer ready, whatever the parts say."""
        self._stopping = True

    def look(self) -> None:
        """Call it each beat, from a thread that is frozen only with the whole process."""
        self._pulse.still_s()

    def live(self) -> Answer:
        loop = self._loop()
        if loop.ok:
            return Answer(True, {"status": "ok"})
        return Answer(False, {"status": "stalled", "sentence": loop.sentence})

    def ready(self) -> Answer:
        findings = [Finding("process", not self._stopping, STOPS if self._stopping else "the process runs")]
        findings.append(self._loop())
        if self._watched is None:
            findings.append(Finding("process", False, STARTS))
        else:
            findings += self._watched.readiness()
        checks = merged(findings)
        ok = all(check.ok for check in checks)
        shown = [{"name": one.check, "ok": one.ok, "sentence": one.sentence} for one in checks]
        return Answer(ok, {"status": "ready" if ok else "not ready", "checks": shown})

    def _loop(self) -> Finding:
        still_s = self._pulse.still_s() if self._beats else 0.0
        if still_s > self._stalled_s:
            return Finding("event loop", False, f"the event loop has not turned for {still_s:.0f} s")
        return Finding("event loop", True, "the event loop turns")


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """One finding for each check, in the order in which they came. What one part finds wrong, others do not outweigh;
    what one part does not know yet, another may know."""
    by_check: dict[str, list[Finding]] = {}
    for finding in findings:
        by_check.setdefault(finding.check, []).append(finding)
    return [_together(check, found) for check, found in by_check.items()]


def _together(check: str, found: Sequence[Finding]) -> Finding:
    wrong = _sentences(found, lambda one: one.ok is False)
    if wrong:
        return Finding(check, False, wrong)
    right = _sentences(found, lambda one: one.ok is True)
    return Finding(check, bool(right), right or _sentences(found, lambda _: True))


def _sentences(found: Sequence[Finding], which: Callable[[Finding], bool]) -> str:
    return "; ".join(dict.fromkeys(one.sentence for one in found if which(one)))
