"""The client: makes one key and one body for each logical call, and has it sent as often as it takes."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from json import dumps
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack

import httpx
from pydantic_core import to_jsonable_python

from surefoot.client.answer import Answer
from surefoot.client.call import Call, Waiting
from surefoot.client.keys import header_line, new_key
from surefoot.client.patience import Patience
from surefoot.errors import ConfigurationError
from surefoot.http.idempotency_key import HEADER

READING = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that need no key: reading twice is reading."""


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
