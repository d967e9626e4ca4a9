"""Options that the commands of the terminal share: where the service is, who asks, why, and which letters are meant."""

import inspect
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefoot.errors import ConfigurationError

if TYPE_CHECKING:
    from surefoot.cli.dlq.client import Client

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
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Most lines to show.")]
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


def connected(url: str, token: str | None) -> "Client":
    from surefoot.cli.dlq.client import Client

    return Client(url or DEFAULT_URL, token)


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

    if not reason.strip():
        raise ConfigurationError("Say why, with --reason: it is kept in the audit log, for whoever asks later.")
    if len(reason) > MAX_REASON:
        raise ConfigurationError(f"--reason has {len(reason)} characters: say it in {MAX_REASON} or fewer.")
    return reason.strip()


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
