"""A small client of the admin service: what `surefoot dlq …` speaks through.

with Client("http://127.0.0.1:8090", token) as client:
    made = client.post("/replay", {"filter": {"fingerprint": "…"}, "reason": "the price list is there"})

A problem that the service tells of becomes an error with its sentence; a service that is away is a sentence, too. Every
command has an Idempotency-Key of its own, so one whose answer was lost on the way is sent once more and done once.
"""

import ipaddress
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote, urlsplit
from uuid import uuid4

import httpx
from pydantic import BaseModel, ValidationError

from surefoot.errors import ConfigurationError, SurefootError
from surefoot.events.text import printable

PREFIX = "/admin/dlq"
TIMEOUT_S = 30.0
TRIES = 3
"""So often a command is sent whose answer got lost. Its key makes a repeat harmless."""
MOST_ON_A_PAGE = 200
_LONGEST_SENTENCE = 4_000

Body = Mapping[str, Any]
V = TypeVar("V", bound=BaseModel)


class ServiceAway(SurefootError):
    """The dead-letter service cannot be reached."""


class ServiceRefused(SurefootError):
    """The dead-letter service answered with a problem. `status` is HTTP's."""

    def __init__(self, status: int, sentence: str) -> None:
        self.status = status
        super().__init__(sentence)


class Client:
    def __init__(self, url: str, token: str | None = None) -> None:
        self._url = _checked(url)
        headers = {"Authorization": f"Bearer {_sendable(token)}"} if token else {}
        # A proxy from the environment has no business between us and our own machine.
        self._http = httpx.Client(
            base_url=self._url + PREFIX, headers=headers, timeout=TIMEOUT_S, trust_env=not _is_here(self._url)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def get(self, path: str, asked: Mapping[str, object] | None = None) -> dict[str, Any]:
        return self._answer("GET", path, params=_params(asked or {}))

    def post(self, path: str, body: Body) -> dict[str, Any]:
        return self._answer("POST", path, json=body, headers={"Idempotency-Key": str(uuid4())})

    def rows(self, path: str, name: str, asked: Mapping[str, object], limit: int) -> Iterator[dict[str, Any]]:
        """The rows of as many pages as `limit` needs."""
        after: object = None
        while limit > 0:
            page = self.get(path, {**asked, "after": after, "limit": min(limit, MOST_ON_A_PAGE)})
            yield from page[name]
            limit -= len(page[name])
            after = page["next"]
            if after is None:
                return

    def download(self, path: str, asked: Mapping[str, object]) -> Iterator[bytes]:
        """An answer as it comes, however long."""
        try:
            with self._http.stream("GET", path, params=_params(asked)) as response:
                if response.is_error:
                    response.read()
                    raise _refused(response)
                yield from response.iter_bytes()
        except httpx.TransportError as error:
            raise self._away(error) from error

    def _answer(self, method: str, path: str, **what: Any) -> dict[str, Any]:
        for left in reversed(range(TRIES)):
            try:
                response = self._http.request(method, path, **what)
                break
            except httpx.TransportError as error:
                if left == 0 or isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
                    raise self._away(error) from error
        if response.is_error:
            raise _refused(response)
        found = _json(response)
        if found is None:
            raise ServiceRefused(
                response.status_code,
                f"What answers at {self._url} is not the dead-letter service: look at --url, or SUREFOOT_DLQ_URL.",
            )
        return found

    def _away(self, error: httpx.TransportError) -> ServiceAway:
        said = str(error) or type(error).__name__
        return ServiceAway(
            f"The dead-letter service at {self._url} does not answer: {said}. Start it with `surefoot dlq serve`, or "
            "say where it is with --url, or SUREFOOT_DLQ_URL."
        )


def as_view(view: type[V], found: object) -> V:
    """What the service answered, as the value it stands for."""
    try:
        return view.model_validate(found)
    except ValidationError as error:
        raise ServiceRefused(
            200,
            "The service's answer cannot be read: it is of another version than this command, or another service. "
            f"({error.error_count()} member(s) of its {view.__name__} do not fit.) Update the older of the two.",
        ) from None


def path_to(*parts: str) -> str:
    """A path from names that people gave: none of them can lead elsewhere."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def _refused(response: httpx.Response) -> ServiceRefused:
    told = _json(response) or {}
    sentence = told.get("detail") or told.get("title") or f"It answered with {response.status_code}, and said no more."
    said = printable(str(sentence), _LONGEST_SENTENCE)
    if response.status_code == 401:
        said += " Say who you are with SUREFOOT_DLQ_TOKEN, or --token; `surefoot dlq token create` makes one."
    retry_after = response.headers.get("Retry-After")
    if response.status_code in (429, 503) and retry_after is not None:
        said += f" Try again in {printable(retry_after, 20)} s."
    return ServiceRefused(response.status_code, said)


def _json(response: httpx.Response) -> dict[str, Any] | None:
    """None if it is none, or no object: somebody else has answered."""
    try:
        found = response.json()
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _params(asked: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in asked.items() if value is not None}


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_right = False
    if not is_right:
        raise ConfigurationError(
            f"{url!r} is not where a service can be: write --url, or SUREFOOT_DLQ_URL, as http://127.0.0.1:8090."
        )
    return url.rstrip("/")


def _is_here(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _sendable(token: str) -> str:
    token = token.strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigurationError(
            "The token has characters in it that no token has: look at SUREFOOT_DLQ_TOKEN, or --token."
        )
    return token
