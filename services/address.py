"""Where the front doors may be served: at an address of this machine alone, unless somebody says otherwise."""

import ipaddress
import socket

from surefoot.errors import ConfigurationError


def refuse_others(host: str) -> None:
    """Refuse an address that other machines reach."""
    try:
        addresses = {str(found[4][0]) for found in socket.getaddrinfo(host or "0.0.0.0", None)}  # noqa: S104
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(f"{host!r} is no address of this machine: {error}.") from error
    if not all(ipaddress.ip_address(address.split("%")[0]).is_loopback for address in addresses):
        raise ConfigurationError(
            f"{host or 'Every address'} can be reached from other machines, and the front doors have no access "
            "control: whoever reaches them buys at any price. Put what guards your own services in front of 127.0.0.1; "
            "or say --open."
        )


def listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise ConfigurationError(
            f"The front doors cannot be opened at {host}:{port}: {error}. Choose another --port or --host."
        ) from error
