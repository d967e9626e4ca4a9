"""`surefoot dlq serve|token|report`: the dead-letter service, and what is done straight in the database, without it.

Whoever may write to the database decides who gets in: guard it accordingly. Each change of a token is in the audit log.
"""

import socket
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from surefoot.audit.people import ROLES
from surefoot.cli.command import (
    AsJson,
    Catalogues,
    Database,
    Kafka,
    LogFormatOption,
    Schema,
    choice,
    decider,
    operate,
    required_database,
    required_id,
    run,
)
from surefoot.cli.deployment import settings_of
from surefoot.cli.loading import load_known_catalogue
from surefoot.cli.process import (
    OTHER_ADDRESS,
    Host,
    MetricsPort,
    Port,
    announce,
    places,
    prepared,
    serve_health,
)
from surefoot.cli.process import serve as serve_until_stopped
from surefoot.cli.show import Column, aside, console, print_json, print_table
from surefoot.database.schema import DEFAULT_SCHEMA, checked_schema
from surefoot.errors import ConfigurationError
from surefoot.http.listening import listening, url_of
from surefoot.telemetry.logging import set_up_logging

if TYPE_CHECKING:
    from surefoot.audit.access import TokenLine, TokenMade, Tokens
    from surefoot.audit.settings import AccessSettings
    from surefoot.database.connection import Connection
    from surefoot.dlq.settings import DlqSettings
    from surefoot.events import Catalogue
    from surefoot.telemetry.health import Health

T = TypeVar("T")
MOST_DAYS = 366
Reason = Annotated[str, typer.Option("--reason", help="Why; kept in the audit log.", show_default=False, metavar="WHY")]
By = Annotated[str, typer.Option("--by", help="Who does it; kept in the audit log.", show_default="you")]
tokens = typer.Typer(
    no_args_is_help=True,
    help="""Make, list and revoke the tokens of people.

    A role may do what those before it may: VIEWER looks, OPERATOR replays and asks for discards, ADMIN sees what is
    masked and edits, SUPER_ADMIN approves what others want to discard.""",
)


def serve(
    context: typer.Context,
    host: Host = "127.0.0.1",
    port: Port = 8090,
    open_: Annotated[
        bool, typer.Option("--open", help="Let in whoever reaches it, without a token. Only at 127.0.0.1.")
    ] = False,
    kafka: Kafka = None,
    database: Database = None,
    catalogue: Catalogues = None,
    schema: Schema = DEFAULT_SCHEMA,
    metrics_port: MetricsPort = None,
    log_format: LogFormatOption = "text",
) -> None:
    """Collect dead letters and serve them to operators, until Ctrl-C: groups, replays, discards, and who did what.

    `surefoot dlq serve --database postgresql://… --kafka localhost:9092`. Start as many as you like; they share the
    work. People need a token: `surefoot dlq token create`, or an issuer of JWTs (SUREFOOT_DLQ_JWT_JWKS …). How it runs
    is set by the environment: SUREFOOT_DLQ_RETENTION, SUREFOOT_DLQ_APPROVAL_WINDOW …
    """
    from surefoot.audit.settings import AccessSettings
    from surefoot.dlq.settings import DlqSettings

    set_up_logging(log_format)
    url = required_database(database)
    settings = settings_of(context, DlqSettings)(db_schema=checked_schema(schema))
    people = settings_of(context, AccessSettings)()
    types = load_known_catalogue(catalogue or [])
    health = serve_health(metrics_port)
    with listening(host, port, refusal="Dead letters cannot be served", remedy=OTHER_ADDRESS) as listener:
        run(_serve(url, kafka, Served(listener, host, open_, health), types, settings, people))
    typer.echo("The dead-letter service has stopped; others go on with its jobs.")


@dataclass(frozen=True, slots=True)
class Served:
    """Where it is served, whether to whoever comes, and whom it tells of its health."""

    listener: socket.socket
    host: str
    is_open: bool
    health: "Health | None"


async def _serve(
    url: str,
    kafka: str | None,
    at: Served,
    catalogue: "Catalogue",
    settings: "DlqSettings",
    people: "AccessSettings",
) -> None:
    import structlog

    from surefoot.admin.app import api
    from surefoot.audit.access import check_access
    from surefoot.cli.health import watched
    from surefoot.dlq.runtime import DlqRuntime
    from surefoot.http.server import HttpService
    from surefoot.service import Together

    log = structlog.get_logger("surefoot.dlq")
    schema = settings.db_schema
    async with prepared(url, kafka, schema) as event_log:
        access = await check_access(url, schema, people, host=at.host, open_=at.is_open)
        http = HttpService(api(url, schema, settings, access, catalogue), at.listener)
        runtime = DlqRuntime(url, event_log, settings)
        log.info("dead-letter service starts", **places(url, kafka), open=at.is_open)
        announce(f"Dead letters are at {url_of(at.listener)}/admin/dlq/groups (Ctrl-C stops it)")
        whole = Together(http, runtime)
        await serve_until_stopped(watched(at.health, whole, {url: schema}, log=event_log.topics, http=http))
    if not http.has_started:
        raise ConfigurationError("The dead-letter service could not be started: the log above says why.")


@tokens.command()
def create(
    person: Annotated[str, typer.Option(help="Whose it is: what they decide is kept under this name.")],
    role: Annotated[str, typer.Option(help=f"What they may do: one of {', '.join(ROLES)}.")],
    days: Annotated[int, typer.Option(min=1, max=MOST_DAYS, help="How long it is good for.")] = 30,
    reason: Reason = "",
    by: By = "",
    database: Database = None,
    schema: Schema = DEFAULT_SCHEMA,
) -> None:
    """Make a token and print it: once, and nothing else, so that it can be put where it is needed.

    `export SUREFOOT_DLQ_TOKEN=$(surefoot dlq token create --person ana --role OPERATOR)`
    """
    wanted = choice(role, ROLES, "is no role: take")
    who = decider(by)

    async def work(store: "Tokens") -> "TokenMade":
        return await store.create(person, wanted, lifetime=timedelta(days=days), by=who, reason=reason.strip())

    made = _with_tokens(work, database, schema)
    typer.echo(made.token)
    aside.print(
        f"{person} is {wanted} with it until {made.expires_at:%Y-%m-%d %H:%MZ}. It is shown this once; "
        f"`surefoot dlq token revoke {made.id}` ends it."
    )


@tokens.command("list")
def list_(as_json: AsJson = False, database: Database = None, schema: Schema = DEFAULT_SCHEMA) -> None:
    """List the tokens there are: whose, for what, until when. The tokens themselves are nowhere."""

    async def work(store: "Tokens") -> "list[TokenLine]":
        return await store.list()

    found = _with_tokens(work, database, schema)
    if as_json:
        print_json([_json_of(token) for token in found])
        return
    if not found:
        console.print("There is no token yet. Make one: surefoot dlq token create --person ana --role OPERATOR")
        return
    columns = [Column("id"), Column("person", wraps=True), Column("role"), Column("until"), Column("state")]
    print_table(columns, [_row(token) for token in found])


@tokens.command()
def revoke(
    token_id: Annotated[str, typer.Argument(metavar="TOKEN_ID", help="Its id, as `surefoot dlq token list` shows it.")],
    reason: Reason = "",
    by: By = "",
    database: Database = None,
    schema: Schema = DEFAULT_SCHEMA,
) -> None:
    """End a token: from now on it opens nothing. Doing it twice changes nothing."""
    more = " (The token itself is not needed, and should not be on a command line.)"
    wanted = required_id(token_id, "a token's id", "surefoot dlq token list", more)
    who = decider(by)

    async def work(store: "Tokens") -> None:
        await store.revoke(wanted, by=who, reason=reason.strip())

    _with_tokens(work, database, schema)
    console.print(f"Revoked. {wanted} opens nothing any more.")


def _row(token: "TokenLine") -> list[str]:
    state = "revoked" if token.revoked_at is not None else "usable" if token.is_usable else "expired"
    return [str(token.id), token.person, token.role, f"{token.expires_at:%Y-%m-%d %H:%MZ}", state]


def _json_of(token: "TokenLine") -> dict[str, object]:
    """Times as `str` writes them, with a space between date and time: programs read them so."""
    return {name: str(value) if isinstance(value, datetime) else value for name, value in asdict(token).items()}


def _with_tokens(work: "Callable[[Tokens], Awaitable[T]]", database: str | None, schema: str) -> T:
    """Do `work` in one transaction: what is changed and its record in the audit log."""
    from surefoot.audit.access import Tokens

    checked_schema(schema)

    async def inside(connection: "Connection") -> T:
        async with connection.transaction():
            return await work(Tokens(connection, schema))

    return operate(inside, database, name="surefoot-dlq-token")


def report(
    days: Annotated[int, typer.Option(min=1, max=366, help="So many days back from now.")] = 7,
    last_week: Annotated[
        bool, typer.Option("--last-week", help="The last whole week instead, from Monday to Monday in UTC.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write. Without it: what is printed.")
    ] = None,
    database: Database = None,
    schema: Schema = DEFAULT_SCHEMA,
) -> None:
    """Write what died, what became of it, and what is still open, for each consumer, as Markdown.

    `surefoot dlq report --last-week --output report.md`. The service writes one each week by itself, if
    SUREFOOT_DLQ_REPORT_DIRECTORY says where.
    """
    from surefoot.dlq.upkeep import report as reporting

    now = datetime.now(UTC)
    since, until = reporting.last_week(now) if last_week else (now - timedelta(days=days), now)

    checked_schema(schema)

    async def work(connection: "Connection") -> str:
        return await reporting.report(connection, schema, since=since, until=until)

    text = operate(work, database, name="surefoot-dlq-report")
    if output is None:
        typer.echo(text, nl=not text.endswith("\n"))
        return
    try:
        reporting.write_report(output, text)
    except OSError as error:
        raise ConfigurationError(f"{output} cannot be written: {error}. Choose another --output.") from error
    console.print(f"The report is in {output}.")
