"""What a command adds to the process that it runs, so that others can ask it for its health.

Parts notice what is away when they need it. A process that has nothing to do needs nothing: so it looks by itself, now
and then. A probe costs nobody anything: it is answered with what was found last.
"""

import asyncio
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from surefoot.database.version import misfit, newest_version, stored_version
from surefoot.service import NO_REST, CutOff, LoopService, Service, Together
from surefoot.telemetry.health import Finding, Health

if TYPE_CHECKING:
    from surefoot.http.server import HttpService

EVERY = timedelta(seconds=10)
AGAIN = timedelta(seconds=1)
"""After a look that failed."""
ANSWER_WITHIN_S = 5.0
Ask = Callable[[], Awaitable[object]]


class Look(LoopService):
    """Asks something that the process needs whether it is there. It logs nothing: the parts that miss it do."""

    def __init__(self, check: str, what: str) -> None:
        super().__init__(f"look at {what}")
        self._check = check
        self._what = what
        self._missed_since: float | None = None
        self._has_answered = False

    async def round(self) -> timedelta:
        try:
            await self.ask()
        except Exception:
            self._missed_since = self._missed_since or time.monotonic()
            return AGAIN
        self._has_answered, self._missed_since = True, None
        return EVERY

    @abstractmethod
    async def ask(self) -> None:
        """Raise if it is not there."""

    def readiness(self) -> Iterable[Finding]:
        missed = self._missed_since
        if missed is not None:
            return [Finding(self._check, False, f"{self._what} has not answered for {time.monotonic() - missed:.0f} s")]
        if not self._has_answered:
            return [Finding(self._check, None, f"{self._what} has not answered yet")]
        return [Finding(self._check, True, f"{self._what} answers")]


class DatabaseLook(Look):
    """The database, and whether this program may run on its tables: you may migrate it at any time."""

    def __init__(self, url: str, schema: str) -> None:
        super().__init__("database", "the database")
        self._url = url
        self._schema = schema
        self._program = newest_version()
        self._fits = Finding("schema", None, f"the version of the schema {schema} has not been read yet")

    async def ask(self) -> None:
        async with asyncio.timeout(ANSWER_WITHIN_S):
            tables = await stored_version(self._url, schema=self._schema)
        found = misfit(tables, self._program)
        if found is None:
            self._fits = Finding(
                "schema", True, f"the schema {self._schema} is at version {tables.version}, which fits"
            )
        else:
            self._fits = Finding("schema", False, f"the schema {self._schema} {found[0]}")

    def readiness(self) -> Iterable[Finding]:
        return [*super().readiness(), self._fits]


class LogLook(Look):
    def __init__(self, ask: Ask) -> None:
        """`ask` has a limit of its own, as every call of an event log has."""
        super().__init__("log", "the event log")
        self._ask = ask

    async def ask(self) -> None:
        await self._ask()


class Watched(Together):
    """A service, and the looks beside it. What it says of its readiness is what the process says."""

    def __init__(self, health: Health, service: Service, *looks: Look, http: "HttpService | None" = None) -> None:
        super().__init__(service, CutOff(*looks, after=NO_REST))
        self._health = health
        self._http = http
        health.watch(self)

    def stop(self) -> None:
        self._health.stopping()
        super().stop()

    async def run(self) -> None:
        self._health.begin()
        await super().run()

    def readiness(self) -> Iterable[Finding]:
        yield from super().readiness()
        if self._http is not None:
            started = self._http.has_started
            yield Finding("http", started, "requests are taken" if started else "requests are not taken yet")


def watched(
    health: Health | None,
    service: Service,
    databases: Mapping[str, str],
    *,
    log: Ask | None = None,
    http: "HttpService | None" = None,
) -> Service:
    """The service to run instead, whose health others can ask for; the service itself where nobody can (None).

    `databases`: by URL, the schema of Surefoot's tables there. `log`: how to ask the event log, if it has one."""
    if health is None:
        return service
    looks: list[Look] = [DatabaseLook(url, schema) for url, schema in databases.items()]
    if log is not None:
        looks.append(LogLook(log))
    return Watched(health, service, *looks, http=http)
