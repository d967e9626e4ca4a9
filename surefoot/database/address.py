"""Database addresses: one reader for every part, so that all of them understand the same URLs.

A URL is read as `psql` reads it: `postgresql://user@host:5432/name?sslmode=require`. Several hosts, unix sockets,
`service=`, certificates and `options` are part of it. The driver reads the `PG*` variables and the password file for
what the URL leaves out. `ssl=require`, which users of SQLAlchemy write, means `sslmode=require`.

What cannot be understood is refused: a parameter that Surefoot passed over might be the one that keeps the way to the
database secret.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from surefoot.errors import ConfigurationError

SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
SESSION_ATTRIBUTES = ("any", "primary", "standby", "prefer-standby", "read-write", "read-only")
SECRETS = ("password", "sslpassword")
FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl", "passfile")
UNDERSTOOD = (
    *("host", "port", "dbname", "database", "user", "password", "passfile", "service"),
    *("sslmode", "ssl", "sslrootcert", "sslcert", "sslkey", "sslpassword", "sslcrl", "sslnegotiation"),
    *("ssl_min_protocol_version", "ssl_max_protocol_version", "channel_binding"),
    *("target_session_attrs", "options", "application_name", "connect_timeout", "krbsrvname", "gsslib"),
)
_SCHEME = re.compile(r"^postgres(?:ql)?(?:\+\w+)?://")
_SSL_WORDS = {"true": "require", "1": "require", "on": "require", "false": "disable", "0": "disable", "off": "disable"}
_BINDING_WITHOUT = ("disable", "prefer")


@dataclass(frozen=True, slots=True)
class Address:
    """A URL that was understood."""

    dsn: str
    """As the driver reads it. It has the password, if the URL has."""
    shown: str
    """As it may be printed."""
    application_name: str | None = None
    connect_timeout_s: float | None = None

    def application(self, part: str) -> str:
        """What a connection of this part is called in pg_stat_activity."""
        return (part if self.application_name is None else f"{self.application_name}: {part}")[:63]


def read_address(url: str) -> Address:
    """Raises ConfigurationError, with a sentence that holds no password."""
    shown = shown_url(url)
    parts = urlsplit(_SCHEME.sub("postgresql://", url))
    _check_hosts(parts.netloc, shown)
    parameters = _parameters(parts.query, shown)
    application_name = parameters.pop("application_name", None)
    timeout = parameters.pop("connect_timeout", None)
    _check_values(parameters, shown)
    parameters.pop("channel_binding", None)
    # Postgres takes a plus for a plus, and form encoding would write a blank as one.
    query = urlencode(parameters, safe="/", quote_via=quote)
    return Address(
        f"postgresql://{parts.netloc}{parts.path}{'?' if query else ''}{query}",
        shown,
        application_name,
        None if timeout is None else _seconds(timeout, shown),
    )


def sqlalchemy_url(url: str, driver: str = "asyncpg") -> str:
    """For an engine of a program's own. With asyncpg it takes no parameters but SQLAlchemy's: `create_engine` does."""
    shown_url(url)
    return _SCHEME.sub(f"postgresql+{driver}://", url)


def shown_url(url: str) -> str:
    """The URL as it may be printed: without a password."""
    if not _SCHEME.match(url):
        raise ConfigurationError(
            f"{_hidden(url)!r} is not a PostgreSQL URL. Write it as postgresql://user:password@host:5432/database."
        )
    return _hidden(_SCHEME.sub("postgresql://", url))


def _hidden(url: str) -> str:
    """Up to the last @ before the parameters: a password in which / or @ were forgotten to be encoded has them too."""
    hidden = re.sub(r"(://[^:/?@]*):[^?]*@", r"\1:…@", url)
    return re.sub(rf"(?i)([?&](?:{'|'.join(SECRETS)})=)[^&]*", r"\1…", hidden)


def _check_hosts(netloc: str, shown: str) -> None:
    hosts = netloc.rpartition("@")[2]
    for host in hosts.split(","):
        found = re.fullmatch(r"(?:\[[^\]]*\]|[^:\[\]]*)(?::(.*))?", unquote(host))
        port = "" if found is None else found[1]
        if found is None or (port and not (port.isdecimal() and 0 < int(port) < 65536)):
            wrong = "it has a host that is none" if found is None else "its port is no number"
            raise ConfigurationError(
                f"The database URL {shown} cannot be read: {wrong}. Write it as "
                "postgresql://user:password@host:5432/name, with / : @ in a password as %2F %3A %40."
            )


def _parameters(query: str, shown: str) -> dict[str, str]:
    try:
        # A plus is a plus in these URLs: `options=-c+x` would lose it otherwise.
        pairs = parse_qsl(query.replace("+", "%2B"), keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError:
        raise ConfigurationError(
            f"The database URL {shown} cannot be read: after the ? come name=value pairs, with & between them."
        ) from None
    found: dict[str, str] = {}
    for name, value in pairs:
        if name not in UNDERSTOOD:
            raise ConfigurationError(
                f"The database URL {shown} has the parameter {name!r}, which Surefoot does not know. It knows "
                f"{', '.join(UNDERSTOOD)}. Settings of the server go into options, such as "
                "options=-c%20statement_timeout=5s; those of your SQLAlchemy engine into its arguments."
            )
        if name in found:
            raise ConfigurationError(f"The database URL {shown} has the parameter {name!r} twice.")
        found[name] = value
    return _with_sslmode(found, shown)


def _with_sslmode(parameters: dict[str, str], shown: str) -> dict[str, str]:
    if "ssl" not in parameters:
        return parameters
    if "sslmode" in parameters:
        raise ConfigurationError(f"The database URL {shown} has both ssl and sslmode: leave ssl out.")
    found = dict(parameters)
    word = found.pop("ssl")
    return {**found, "sslmode": _SSL_WORDS.get(word.lower(), word)}


def _check_values(parameters: dict[str, str], shown: str) -> None:
    _check_choice(parameters, "sslmode", SSL_MODES, shown)
    _check_choice(parameters, "target_session_attrs", SESSION_ATTRIBUTES, shown)
    binding = parameters.get("channel_binding")
    if binding is not None and binding not in _BINDING_WITHOUT:
        raise ConfigurationError(
            f"The database URL {shown} asks for channel_binding={binding}, which the driver (asyncpg) cannot do. Leave "
            "it out; sslmode=verify-full with sslrootcert makes sure that you talk to the right server."
        )
    for name in FILES:
        path = parameters.get(name)
        if path and not Path(path).expanduser().is_file():
            raise ConfigurationError(f"The database URL {shown} names the {name} {path}, and there is no such file.")


def _check_choice(parameters: dict[str, str], name: str, among: tuple[str, ...], shown: str) -> None:
    value = parameters.get(name)
    if value is not None and value not in among:
        raise ConfigurationError(f"The database URL {shown} has {name}={value}. It is one of {', '.join(among)}.")


def _seconds(text: str, shown: str) -> float | None:
    """As in `psql`: 0 and less mean without a limit, for which there is ours."""
    try:
        seconds = int(text)
    except ValueError:
        raise ConfigurationError(
            f"The database URL {shown} has connect_timeout={text}. It is a number of seconds."
        ) from None
    return float(seconds) if seconds > 0 else None
