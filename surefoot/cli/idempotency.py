"""`surefoot idempotency show|list|stuck|verify`: what became of requests that were made under a key.

It reads, and changes nothing. Exit codes: 0 well, 1 the history is not whole, 2 it could not be done.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from surefoot.cli.command import operate
from surefoot.cli.options import Database, Schema, required_database
from surefoot.cli.running import run
from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.errors import ConfigurationError

if TYPE_CHECKING:
    from surefoot.idempotency.looking import KeyLine, Looking, Shown
    from surefoot.idempotency.store import Verified
    from surefoot.idempotency.values import State

app = typer.Typer(
    no_args_is_help=True,
    help="Requests under an Idempotency-Key: what became of one, which are stuck, and whether the history is whole.",
)
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Limit = Annotated[int, typer.Option(min=1, max=10_000, help="Most lines to show.")]
T = TypeVar("T")
STATES: "tuple[State, ...]" = ("IN_FLIGHT", "COMPLETED", "FAILED_RETRY", "FAILED_TERMINAL", "EXPIRED")
"""All that there are, written down again: where they are declared takes long to load."""
_HASH = re.compile(r"[0-9a-fA-F]{64}", re.ASCII)
_HEAD = re.compile(r"([1-9][0-9]{0,17}):([0-9a-fA-F]{64})", re.ASCII)


@app.command()
def show(
    key: Annotated[
        str,
        typer.Argument(
            metavar="KEY",
            help="The Idempotency-Key, with --tenant; or its hash, as the list shows it.",
            show_default=False,
        ),
    ],
    tenant: Annotated[str | None, typer.Option(help="Whose key it is.", show_default=False)] = None,
    answer: Annotated[bool, typer.Option("--answer", help="Print the stored answer too, with its body.")] = False,
    json: AsJson = False,
    database: Database = None,
    schema: Schema = DEFAULT_SCHEMA,
) -> None:
    """Show one key: how far its request has got, what was minted, its calls of the provider, and what has happened."""
    from surefoot.cli.idempotency_shown import as_json, json_of, print_shown

    wanted = _hash(key, tenant)

    async def work(looking: "Looking") -> "Shown | None":
        return await looking.show(wanted, answer=answer)

    found = run(_with(database, schema, work))
    if found is None:
        whose = "" if tenant is None else f" of {tenant!r}"
        raise ConfigurationError(
            f"Nothing is known of this key{whose}: it was never used here, or it is long forgotten. "
            "`surefoot idempotency list` shows those there are."
        )
    if json:
        as_json(json_of(found))
    else:
        print_shown(found, asked_for_answer=answer)


@app.command("list")
def list_(
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.", show_default=False)] = None,
    state: Annotated[
        str | None, typer.Option(help=f"Only those in this state: {', '.join(STATES)}.", show_default=False)
    ] = None,
    route: Annotated[
        str | None, typer.Option(help="Only of this route: 'POST /v1/charges'.", show_default=False)
    ] = None,
    limit: Limit = 50,
    json: AsJson = False,
    database: Database = None,
    schema: Schema = DEFAULT_SCHEMA,
) -> None:
    """List keys, newest first: the route, the tenant, and how far each has got."""
    wanted = None if state is None else state.upper().replace("-", "_")
    if wanted is not None and wanted not in STATES:
        raise ConfigurationError(f"{state!r} is not a state. Choose one of {', '.join(STATES)}.")

    async def work(looking: "Looking") -> "list[KeyLine]":
        return await looking.keys(tenant=tenant, state=wanted, route=route, limit=limit)

    narrowed = any(option is not None for option in (tenant, state, route))
    _print(run(_with(database, schema, work)), limit, json, "No key fits." if narrowed else "There is no key yet.")


@app.command()
def stuck(limit: Limit = 50, json: AsJson = False, database: Database = None, schema: Schema = DEFAULT_SCHEMA) -> None:
    """List requests that nobody has finished in time, and those whose outcome nobody knows; oldest first."""

    async def work(looking: "Looking") -> "list[KeyLine]":
        return await looking.stuck(limit=limit)

    _print(run(_with(database, schema, work)), limit, json, "Nothing is stuck.")


@app.command()
def verify(
    head: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER:SEAL",
            help="A head that this command printed earlier, and that was kept where the database's owner cannot write. "
            "Without it, seals cut off at the end, or made anew, cannot be missed.",
            show_default=False,
        ),
    ] = None,
    json: AsJson = False,
    database: Database = None,
    schema: Schema = DEFAULT_SCHEMA,
) -> None:
    """Look through the whole history: was a line changed, removed or added? Exit code 1 if one was.

    Lines past their retention (SUREFOOT_IDEMPOTENCY_KEEP_HISTORY) may be gone; their seals have to be there.
    """
    from surefoot.cli.idempotency_shown import as_json, print_verified

    wanted = None if head is None else _head(head)
    verified = run(_verified(required_database(database), schema, wanted))
    if json:
        as_json({**asdict(verified), "is_whole": verified.is_whole})
    else:
        print_verified(verified, has_head=head is not None)
    if not verified.is_whole:
        raise typer.Exit(1)


async def _verified(url: str, schema: str, head: tuple[int, str] | None) -> "Verified":
    from surefoot.cli.idempotency_shown import aside
    from surefoot.idempotency.settings import IdempotencySettings
    from surefoot.idempotency.store import Store

    store = Store(url, IdempotencySettings(), schema=schema, pool_size=1)
    try:
        with aside.status("Looking through the history…"):
            return await store.verify_history(head=head)
    finally:
        await store.close()


def _print(lines: "list[KeyLine]", limit: int, json: bool, none: str) -> None:
    from surefoot.cli.idempotency_shown import as_json, console, print_line

    if json:
        as_json([asdict(line) for line in lines])
        return
    for line in lines:
        print_line(line)
    if not lines:
        console.print(none)
    elif len(lines) == limit:
        console.print(f"There may be more: these are the first {limit} (see --limit).")


def _head(text: str) -> tuple[int, str]:
    matched = _HEAD.fullmatch(text.strip())
    if matched is None:
        raise ConfigurationError(
            f"{text!r} is no head. Write it as `surefoot idempotency verify` printed it: the seal's number, a colon, "
            "and the seal in 64 hexadecimal digits."
        )
    return int(matched[1]), matched[2].lower()


def _hash(key: str, tenant: str | None) -> bytes:
    from surefoot.http.idempotency_key import KeyProblem, read_key
    from surefoot.idempotency.fingerprint import key_hash

    if tenant is None:
        if _HASH.fullmatch(key):
            return bytes.fromhex(key)
        raise ConfigurationError(
            "Say whose key it is, with --tenant; or give its hash, 64 hexadecimal digits, as `surefoot idempotency "
            "list` shows it."
        )
    found = read_key([key.encode("utf-8", "surrogateescape")], strict=False)
    if isinstance(found, KeyProblem):
        raise ConfigurationError(f"{key!r} cannot be a key. {found.sentence}")
    assert found is not None, "there was a line"
    return key_hash(tenant, found)


async def _with(database: str | None, schema: str, work: "Callable[[Looking], Awaitable[T]]") -> T:
    from surefoot.idempotency.looking import Looking

    return await operate(Looking, work, database=database, schema=schema, name="surefoot idempotency")
