"""What the target answered, and whether two answers are the same."""

import json
from dataclasses import dataclass
from typing import Any, Self

import httpx

OF_THE_MOMENT = frozenset(
    {"connection", "date", "keep-alive", "server", "set-cookie", "traceparent", "tracestate", "transfer-encoding"}
)
"""Headers that belong to the sending of an answer, and not to the answer."""


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: tuple[tuple[str, str], ...]
    """Names in lower case, in the order of the wire, without those of the moment and the one that marks a replay."""
    body: bytes
    replayed: str | None
    """What the header says that marks a replay."""
    cookies: tuple[str, ...] = ()

    @classmethod
    def of(cls, response: httpx.Response, replay_header: str) -> Self:
        lines = [(name.decode().lower(), value.decode("latin-1")) for name, value in response.headers.raw]
        aside = OF_THE_MOMENT | {replay_header.lower()}
        return cls(
            response.status_code,
            tuple((name, value) for name, value in lines if name not in aside),
            response.content,
            response.headers.get(replay_header),
            tuple(value for name, value in lines if name == "set-cookie"),
        )

    def all(self, name: str) -> list[str]:
        return [value for known, value in self.headers if known == name.lower()]

    def header(self, name: str) -> str:
        return ", ".join(self.all(name))

    @property
    def json(self) -> dict[str, Any]:
        try:
            said = json.loads(self.body)
        except ValueError:
            return {}
        return said if isinstance(said, dict) else {}

    def __str__(self) -> str:
        return f"{self.status} {self.body[:60]!r}"
