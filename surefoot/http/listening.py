"""Where what has no access control may be served: at an address of this machine alone, unless somebody says otherwise.

A port is taken before anything else is begun; one that cannot be had is told in a sentence.
"""

import ipaddress
import socket

from surefoot.errors import ConfigurationError

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
"""Names of this machine that no other machine is reached by."""


def refuse_others(host: str, because: str) -> None:
    """Refuse an address that other machines reach. `because` ends the sentence: what would happen, and what to do."""
    try:
        addresses = {str(found[4][0]) for found in socket.getaddrinfo(host or "0.0.0.0", None)}  # noqa: S104
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(f"{host!r} is no address of this machine: {error}.") from error
    if not all(ipaddress.ip_address(address.split("%")[0]).is_loopback for address in addresses):
        raise ConfigurationError(f"{host or 'Every address'} can be reached from other machines, and {because}")


def listening(host: str, port: int, *, refusal: str, remedy: str) -> socket.socket:
    """Listening before it is announced: who connects at once, waits. `refusal` begins the sentence if it cannot be had,
    as in "Sagas cannot be served"; `remedy` ends it."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise ConfigurationError(f"{refusal} at {host}:{port}: {error}. {remedy}") from error


def url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
