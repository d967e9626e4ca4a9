"""Options that several commands share, so that they are spelled and explained the same everywhere."""

import os
from typing import Annotated
from urllib.parse import quote, urlsplit

import typer

from surefoot.errors import ConfigurationError
from surefoot.telemetry.logging import LogFormat

Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        envvar="SUREFOOT_DATABASE",
        help="URL of the PostgreSQL (15 or newer) with the outbox: postgresql://user:password@host:5432/name",
        show_default=False,
    ),
]
Kafka = Annotated[
    str | None,
    typer.Option(
        "--kafka",
        envvar="SUREFOOT_KAFKA",
        help="Kafka brokers as host:9092[,host:9092]. Without it, the event log kept in the database itself is used. "
        "TLS and SASL are set by SUREFOOT_KAFKA_SECURITY_PROTOCOL, SUREFOOT_KAFKA_SASL_MECHANISM and so on.",
        show_default=False,
    ),
]
Schema = Annotated[
    str, typer.Option("--schema", envvar="SUREFOOT_SCHEMA", help="The Postgres schema of Surefoot's tables.")
]
Catalogues = Annotated[
    list[str] | None,
    typer.Option(
        "--catalogue",
        envvar="SUREFOOT_CATALOGUE",
        help="Where event types are declared, as package.module:name. May be given more than once. "
        "Without it: those of the project file.",
        show_default=False,
    ),
]
Open = Annotated[
    bool, typer.Option("--open", help="Serve at an address that other machines reach, to anybody who reaches it.")
]
LogFormatOption = Annotated[
    LogFormat, typer.Option("--log-format", envvar="SUREFOOT_LOG_FORMAT", help="Log lines for people, or JSON.")
]


def required_database(url: str | None) -> str:
    """The database that the option, SUREFOOT_DATABASE or the project file names, else the one that PG* names."""
    url = url or _url_of_libpq()
    if not url:
        raise ConfigurationError(
            "No database was given. Say --database postgresql://user:password@host:5432/name, or set "
            "SUREFOOT_DATABASE. (`surefoot up` runs an embedded one and prints its URL.)"
        )
    _check_port(url)
    return url


def _url_of_libpq() -> str | None:
    """What PGHOST, PGPORT, PGUSER and PGDATABASE name. The driver reads PGPASSWORD and the password file by itself."""
    host, name = os.environ.get("PGHOST", ""), os.environ.get("PGDATABASE", "")
    if not host and not name:
        return None
    user = os.environ.get("PGUSER", "")
    at = quote(user, safe="") + "@" if user else ""
    port = f":{os.environ['PGPORT']}" if os.environ.get("PGPORT") else ""
    if host.startswith("/"):
        return f"postgresql://{at}/{quote(name or user)}?host={quote(host, safe='')}"
    return f"postgresql://{at}{host or 'localhost'}{port}/{quote(name or user)}"


def _check_port(url: str) -> None:
    """The drivers answer a port that is no number with an error of Python's own, which may quote the password."""
    from surefoot.database.connection import plain_url, shown_url

    try:
        _ = urlsplit(plain_url(url)).port
    except ValueError:
        raise ConfigurationError(
            f"The database URL {shown_url(url)} cannot be read: its port is no number. Write it as "
            "postgresql://user:password@host:5432/name, with / : @ in a password as %2F %3A %40."
        ) from None
