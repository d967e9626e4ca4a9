"""What people do to the saga in a test. What cannot be done now raises NotNow, as it does for them."""

from typing import Any

from surefoot.events import EventData
from surefoot.saga.operating import result_for_skip
from surefoot.saga.stimulus import Operated, Verb
from surefoot.testing.saga_run import Run


class Operator:
    def __init__(self, run: Run) -> None:
        self._run = run

    def pause(self, by: str, why: str) -> None:
        self._act("pause", by, why)

    def resume(self, by: str, why: str) -> None:
        self._act("resume", by, why)

    def retry(self, by: str, why: str) -> None:
        """Send the command awaited once more; or let a wait that was late wait once more."""
        self._act("retry", by, why)

    def skip(self, by: str, why: str, *, result: EventData | None = None) -> None:
        """Take what is awaited as done with this result; or, while the saga is undone, as undone."""
        awaited, stored = self._run.saga.awaited, None
        if awaited is not None and awaited[1] == "do":
            stored = result_for_skip(self._run.definition, awaited[0].name, result)
        self._act("skip", by, why, stored)

    def compensate(self, by: str, why: str) -> None:
        self._act("compensate", by, why)

    def _act(self, verb: Verb, by: str, why: str, result: Any = None) -> None:
        self._run.take(Operated(verb, by, why, result=result))
