"""One logical call: the same bytes under the same key until there is an answer that lasts, or patience ends."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import httpx

from surefoot.client.answer import Answer
from surefoot.client.errors import GaveUp
from surefoot.client.patience import Patience
from surefoot.client.retrying import asked_to_wait, may_change
from surefoot.errors import words_of

_NEVER_SENT = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)
_NETWORK = (httpx.TransportError, httpx.DecodingError, TimeoutError)


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a test takes the place of."""

    sleep: Callable[[float], Awaitable[object]]
    chance: Callable[[], float]
    clock: Callable[[], float]


class Call:
    def __init__(
        self, http: httpx.AsyncClient, request: httpx.Request, key: str | None, patience: Patience, waiting: Waiting
    ) -> None:
        self._http, self._request, self._key, self._patience, self._waiting = http, request, key, patience, waiting
        self._began = waiting.clock()
        self._attempts = 0
        self._answer: Answer | None = None
        self._error: Exception | None = None

    async def run(self) -> Answer:
        while True:
            answer = await self._attempt()
            if answer is not None and not may_change(answer):
                return answer
            rest = self._rest(answer)
            # A rest that would end after the last moment is not taken: whoever asked can use the time.
            if self._attempts >= self._patience.attempts or rest >= self._left():
                raise self._given_up() from self._error
            await self._waiting.sleep(rest.total_seconds())

    async def _attempt(self) -> Answer | None:
        """None if the network failed: then nobody knows whether the server has seen it."""
        self._attempts += 1
        try:
            async with asyncio.timeout(self._left().total_seconds()):
                response = await self._http.send(self._request)
        except _NEVER_SENT:
            raise
        except _NETWORK as error:
            self._error = error
            return None
        headers = {name.lower(): value for name, value in response.headers.items()}
        self._error = None
        self._answer = Answer(response.status_code, headers, response.content, self._key, self._attempts)
        return self._answer

    def _rest(self, answer: Answer | None) -> timedelta:
        rest = self._patience.rest(self._attempts - 1, self._waiting.chance())
        return rest if answer is None else max(rest, asked_to_wait(answer.headers, datetime.now(UTC)))

    def _left(self) -> timedelta:
        return self._patience.within - timedelta(seconds=self._waiting.clock() - self._began)

    def _given_up(self) -> GaveUp:
        times = "once" if self._attempts == 1 else f"{self._attempts} times"
        said = f"{self._request.method} {self._where()} was sent {times} and {self._last_words()}"
        if self._key is None:
            said += "."
        else:
            said += f": whether it took effect is not known. Ask again later with key={self._key!r}: that is safe."
        return GaveUp(said, key=self._key, answer=self._answer, attempts=self._attempts)

    def _where(self) -> str:
        """The address without what may be secret or personal."""
        return str(self._request.url.copy_with(userinfo=b"", query=None, fragment=None))

    def _last_words(self) -> str:
        if self._error is not None:
            words = words_of(self._error)
            return f"it ended with {type(self._error).__name__}" + (f" ({words.rstrip('.')})" if words else "")
        assert self._answer is not None
        return f"the last answer was {self._answer.status} {self._answer.problem or ''}".rstrip()
