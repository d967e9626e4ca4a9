"""`surefoot dlq token …`: who may use the service, where there is no issuer of tokens. Straight in the database.

Whoever may write to the database decides who gets in: guard it accordingly. Each of these is in the audit log.
"""

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, TypeVar
from uuid import UUID

import typer
from rich.console import Console

from surefoot.audit.people import ROLES, Role
from surefoot.cli.command import operate, user
from surefoot.cli.dlq.json_shown import print_json
from surefoot.cli.dlq.options import AsJson
from surefoot.cli.options import Database, Schema
from surefoot.cli.running import run
from surefoot.database.schema import DEFAULT_SCHEMA, checked_schema
from surefoot.errors import ConfigurationError

if TYPE_CHECKING:
    from surefoot.audit.tokens import TokenLine, TokenMade, Tokens
    from surefoot.database.connection import Connection

T = TypeVar("T")
MOST_DAYS = 366
Reason = Annotated[str, typer.Option("--reason", help="Why; kept in the audit log.", show_default=False, metavar="WHY")]
By = Annotated[str, typer.Option("--by", help="Who does it; kept in the audit log.", show_default="you")]
app = typer.Typer(
    no_args_is_help=True,
    help="""Make, list and revoke the tokens of people.

    A role may do what those before it may: VIEWER looks, OPERATOR replays and asks for discards, ADMIN sees what is
    masked and edits, SUPER_ADMIN approves what others want to discard.""",
)


@app.command()
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
    wanted = role_of(role)
    who = by.strip() or user()

    async def work(tokens: "Tokens") -> "TokenMade":
        return await tokens.create(person, wanted, lifetime=timedelta(days=days), by=who, reason=reason.strip())

    made = run(_in_transaction(work, database, schema))
    typer.echo(made.token)
    Console(stderr=True, highlight=False, soft_wrap=True, markup=False).print(
        f"{person} is {wanted} with it until {made.expires_at:%Y-%m-%d %H:%MZ}. It is shown this once; "
        f"`surefoot dlq token revoke {made.id}` ends it."
    )


@app.command("list")
def list_(as_json: AsJson = False, database: Database = None, schema: Schema = DEFAULT_SCHEMA) -> None:
    """List the tokens there are: whose, for what, until when. The tokens themselves are nowhere."""
    from surefoot.cli.show import Column, console, print_table

    async def work(tokens: "Tokens") -> "list[TokenLine]":
        return await tokens.list()

    found = run(_in_transaction(work, database, schema))
    if as_json:
        print_json([asdict(token) for token in found])
        return
    if not found:
        console.print("There is no token yet. Make one: surefoot dlq token create --person ana --role OPERATOR")
        return
    columns = [Column("id"), Column("person", wraps=True), Column("role"), Column("until"), Column("state")]
    print_table(columns, [_row(token) for token in found])


@app.command()
def revoke(
    token_id: Annotated[str, typer.Argument(metavar="TOKEN_ID", help="Its id, as `surefoot dlq token list` shows it.")],
    reason: Reason = "",
    by: By = "",
    database: Database = None,
    schema: Schema = DEFAULT_SCHEMA,
) -> None:
    """End a token: from now on it opens nothing. Doing it twice changes nothing."""
    from surefoot.cli.show import console

    wanted, who = _uuid(token_id), by.strip() or user()

    async def work(tokens: "Tokens") -> None:
        await tokens.revoke(wanted, by=who, reason=reason.strip())

    run(_in_transaction(work, database, schema))
    console.print(f"Revoked. {wanted} opens nothing any more.")


def role_of(text: str) -> Role:
    for role in ROLES:
        if text.upper() == role:
            return role
    raise ConfigurationError(f"{text!r} is no role: take one of {', '.join(ROLES)}.")


def _row(token: "TokenLine") -> list[str]:
    state = "revoked" if token.revoked_at is not None else "usable" if token.is_usable else "expired"
    return [str(token.id), token.person, token.role, f"{token.expires_at:%Y-%m-%d %H:%MZ}", state]


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise ConfigurationError(
            f"{text!r} is not a token's id: those are UUIDs, as `surefoot dlq token list` shows them. (The token "
            "itself is not needed, and should not be on a command line.)"
        ) from None


async def _in_transaction(work: "Callable[[Tokens], Awaitable[T]]", database: str | None, schema: str) -> T:
    from surefoot.audit.tokens import Tokens

    async def inside(made: "tuple[Connection, str]") -> T:
        connection, schema = made
        async with connection.transaction():
            return await work(Tokens(connection, schema))

    checked = checked_schema(schema)
    return await operate(lambda *made: made, inside, database=database, schema=checked, name="surefoot-dlq-token")
