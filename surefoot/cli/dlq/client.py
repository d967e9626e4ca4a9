"""What `surefoot dlq …` speaks through: a client of the admin service, and the options that its commands share.

with Client("http://127.0.0.1:8090", token) as client:
    made = client.post("/replay", {"filter": {"fingerprint": "…"}, "reason": "the price list is there"})

A problem that the service tells of becomes an error with its sentence; a service that is away is a sentence, too. Every
command has an Idempotency-Key of its own, so one whose answer was lost on the way is sent once more and done once.
"""

import inspect
import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar
from urllib.parse import quote, urlsplit
from uuid import uuid4

import typer

from surefoot.cli.command import required_reason
from surefoot.cli.show import clean
from surefoot.errors import ConfigurationError, SurefootError

if TYPE_CHECKING:
    import httpx
    from pydantic import BaseModel

PREFIX = "/admin/dlq"
TIMEOUT_S = 30.0
TRIES = 3
"""So often a command is sent whose answer got lost. Its key makes a repeat harmless."""
MOST_ON_A_PAGE = 200
_LONGEST_SENTENCE = 4_000

Body = Mapping[str, Any]
V = TypeVar("V", bound="BaseModel")
DEFAULT_URL = "http://127.0.0.1:8090"
Url = Annotated[
    str, typer.Option("--url", envvar="SUREFOOT_DLQ_URL", help="Where `surefoot dlq serve` is.", show_default=True)
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar="SUREFOOT_DLQ_TOKEN",
        help="Who you are. Better in the environment: a command line can be read by others on this machine.",
        show_default=False,
        metavar="TOKEN",
    ),
]
Why = Annotated[
    str,
    typer.Option("--reason", help="Why; kept in the audit log. Needed.", show_default=False, metavar="WHY"),
]
Follow = Annotated[
    bool, typer.Option("--follow", help="Watch the job until it ends. Ctrl-C stops watching, not the job.")
]
Ids = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ID…",
        help="Dead letters by their ids, as `surefoot dlq list` shows them; or events by their own.",
        show_default=False,
    ),
]

REASON = '--reason "…"'
"""As it is shown in commands that can be given next."""
_FILTER: dict[str, tuple[str, str]] = {
    "consumer": ("--consumer", "Only of this consumer."),
    "event_type": ("--type", "Only events of this type."),
    "fingerprint": ("--group", "Only of this group, by its fingerprint as `surefoot dlq groups` shows it."),
    "error": ("--error", "Only of this error, by its type: NoSuchArticle, or shop.errors.NoSuchArticle."),
    "reason": ("--dead-because", "Only those dead for this: permanent, out_of_attempts, invalid_data …"),
    "key": ("--key", "Only of this key."),
    "saga_id": ("--saga", "Only of this saga."),
    "correlation_id": ("--flow", "Only of this flow, by its correlation id."),
    "failed_after": ("--failed-after", "Only those that died after: 2h, 3d (ago), or 2026-11-16T12:00:00Z."),
    "failed_before": ("--failed-before", "Only those that died before: 2h, 3d (ago), or 2026-11-16T12:00:00Z."),
    "status": ("--status", "Only OPEN, REPLAYING, REPLAYED, DISCARD_REQUESTED, DISCARDED or SUPERSEDED ones."),
}
_TIMES = ("failed_after", "failed_before")
_AGO = re.compile(r"(\d{1,6})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class ServiceAway(SurefootError):
    """The dead-letter service cannot be reached."""


class ServiceRefused(SurefootError):
    """The dead-letter service answered with a problem. `status` is HTTP's."""

    def __init__(self, status: int, sentence: str) -> None:
        self.status = status
        super().__init__(sentence)


class Client:
    def __init__(self, url: str, token: str | None = None) -> None:
        import httpx

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
        import httpx

        try:
            with self._http.stream("GET", path, params=_params(asked)) as response:
                if response.is_error:
                    response.read()
                    raise _refused(response)
                yield from response.iter_bytes()
        except httpx.TransportError as error:
            raise self._away(error) from error

    def _answer(self, method: str, path: str, **what: Any) -> dict[str, Any]:
        import httpx

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

    def _away(self, error: "httpx.TransportError") -> ServiceAway:
        said = str(error) or type(error).__name__
        return ServiceAway(
            f"The dead-letter service at {self._url} does not answer: {said}. Start it with `surefoot dlq serve`, or "
            "say where it is with --url, or SUREFOOT_DLQ_URL."
        )


def connected(url: str, token: str | None) -> Client:
    return Client(url or DEFAULT_URL, token)


def as_view(view: type[V], found: object) -> V:
    """What the service answered, as the value it stands for."""
    from pydantic import ValidationError

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


def _refused(response: "httpx.Response") -> ServiceRefused:
    told = _json(response) or {}
    sentence = told.get("detail") or told.get("title") or f"It answered with {response.status_code}, and said no more."
    said = clean(str(sentence), _LONGEST_SENTENCE)
    if response.status_code == 401:
        said += " Say who you are with SUREFOOT_DLQ_TOKEN, or --token; `surefoot dlq token create` makes one."
    retry_after = response.headers.get("Retry-After")
    if response.status_code in (429, 503) and retry_after is not None:
        said += f" Try again in {clean(retry_after, 20)} s."
    return ServiceRefused(response.status_code, said)


def _json(response: "httpx.Response") -> dict[str, Any] | None:
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


def filtered(command: Callable[..., None]) -> Callable[..., None]:
    """A command with an option for each part of a filter; it gets those that were given as one value, `wanted`."""
    signature = inspect.signature(command)
    own = [parameter for name, parameter in signature.parameters.items() if name != "wanted"]
    options = [
        inspect.Parameter(
            f"only_{name}",
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[str | None, typer.Option(option, help=meaning, show_default=False)],
        )
        for name, (option, meaning) in _FILTER.items()
    ]

    @wraps(command)
    def with_options(**given: Any) -> None:
        asked = {name: value for name in _FILTER if (value := given.pop(f"only_{name}")) is not None}
        if "status" in asked:
            asked["status"] = asked["status"].upper()
        for name in _TIMES:
            if name in asked:
                asked[name] = _moment(asked[name], _FILTER[name][0])
        command(wanted=asked, **given)

    kept = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    with_options.__signature__ = signature.replace(parameters=[*kept, *options])  # type: ignore[attr-defined]
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in [*kept, *options]}
    return with_options


def meant(ids: list[str] | None, wanted: dict[str, str]) -> dict[str, Any]:
    """The ids or the filter, as the service takes them: one of the two, and never nothing at all."""
    if ids and wanted:
        raise ConfigurationError("Say either which ids, or what they have in common by options: both is not clear.")
    if ids:
        return {"event_id": list(dict.fromkeys(ids))}
    if wanted:
        return {"filter": wanted}
    raise ConfigurationError(
        "Say which dead letters are meant: their ids, or what they have in common, such as --group FINGERPRINT or "
        "--consumer NAME. `surefoot dlq groups` shows what is broken."
    )


def checked_reason(reason: str) -> str:
    from surefoot.dlq.jobs.request import MAX_REASON

    said = required_reason(reason, "in the audit log")
    if len(reason) > MAX_REASON:
        raise ConfigurationError(f"--reason has {len(reason)} characters: say it in {MAX_REASON} or fewer.")
    return said


def _moment(text: str, option: str) -> str:
    """As the service takes it. `2h` is two hours ago."""
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return (datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})).isoformat()
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(
            f"{option} {text!r} is no time: write 90s, 10m, 2h or 3d for so long ago, or 2026-11-16T12:00:00Z."
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()
