"""The client: one key and one body for each logical call, sent until an answer lasts, or patience ends."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from json import dumps
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack
from uuid import uuid4

import httpx
from pydantic_core import to_jsonable_python

from surefoot.client.answer import Answer, GaveUp
from surefoot.client.retrying import Patience, asked_to_wait, may_change
from surefoot.errors import ConfigurationError, words_of
from surefoot.http.idempotency_key import HEADER, KeyProblem, read_key

READING = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that need no key: reading twice is reading."""
_NEVER_SENT = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)
_NETWORK = (httpx.TransportError, httpx.DecodingError, TimeoutError)


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a test takes the place of."""

    sleep: Callable[[float], Awaitable[object]]
    chance: Callable[[], float]
    clock: Callable[[], float]


class Sent(TypedDict, total=False):
    """What a call sends. `json` may have dates, decimals and pydantic models in it; `content` is sent as it is."""

    json: Any
    content: bytes
    params: Mapping[str, str]
    headers: Mapping[str, str]


class Client:
    """One for each server: it keeps connections open between calls. `sleep`, `chance` and `clock` are for tests."""

    def __init__(
        self,
        base_url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: timedelta = timedelta(seconds=30),
        patience: Patience | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._patience = patience or Patience()
        self._waiting = Waiting(sleep, chance, clock)
        self._http = httpx.AsyncClient(
            base_url=base_url, headers=headers, timeout=timeout.total_seconds(), transport=transport
        )

    async def post(self, path: str, *, key: str | None = None, **sent: Unpack[Sent]) -> Answer:
        return await self.request("POST", path, key=key, **sent)

    async def get(self, path: str, **sent: Unpack[Sent]) -> Answer:
        return await self.request("GET", path, **sent)

    async def request(self, method: str, path: str, *, key: str | None = None, **sent: Unpack[Sent]) -> Answer:
        """One logical call, under a key that is made for it unless one is given. Raises GaveUp."""
        if key is None and method.upper() not in READING:
            key = new_key()
        return await Call(self._http, self._request(method, path, key, sent), key, self._patience, self._waiting).run()

    def _request(self, method: str, path: str, key: str | None, sent: Sent) -> httpx.Request:
        headers = httpx.Headers(sent.get("headers"))
        if HEADER in headers or HEADER in self._http.headers:
            raise ConfigurationError(f"{HEADER} was given among the headers: give it as key=… of the call.")
        if key is not None:
            headers[HEADER] = header_line(key)
        body = sent.get("content")
        if "json" in sent:
            if body is not None:
                raise ConfigurationError("A call was given json and content: give one of them.")
            body = _written(sent["json"])
            headers.setdefault("Content-Type", "application/json")
        return self._http.build_request(method, path, content=body, params=sent.get("params"), headers=headers)

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _written(value: Any) -> bytes:
    try:
        text = dumps(value, default=to_jsonable_python, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode("utf-8")
    except (ValueError, TypeError) as problem:
        raise ConfigurationError(f"What a call was to send cannot be written as JSON: {problem}.") from problem


def new_key() -> str:
    """A key for one logical call. To be able to ask again after a crash, make one first and write it down."""
    return str(uuid4())


def header_line(key: str) -> str:
    """The key as the header is specified: a text in double quotes. One that no server would take is refused here."""
    line = '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'
    found = read_key([line.encode("utf-8", "surrogatepass")], strict=True)
    if isinstance(found, KeyProblem):
        raise ConfigurationError(f"The key {key!r} cannot be sent. {found.sentence}")
    return line


class Call:
    """One logical call: the same bytes under the same key until there is an answer that lasts, or patience ends."""

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
