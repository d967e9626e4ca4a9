"""Keys of logical calls. Whoever must be able to ask again after a crash makes one first and writes it down."""

from uuid import uuid4

from surefoot.errors import ConfigurationError
from surefoot.http.idempotency_key import KeyProblem, read_key


def new_key() -> str:
    return str(uuid4())


def header_line(key: str) -> str:
    """The key as the header is specified: a text in double quotes. One that no server would take is refused here."""
    line = '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'
    found = read_key([line.encode("utf-8", "surrogatepass")], strict=True)
    if isinstance(found, KeyProblem):
        raise ConfigurationError(f"The key {key!r} cannot be sent. {found.sentence}")
    return line
