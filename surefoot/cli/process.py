"""What the commands that run for long share: the schema must be there, metrics are served, the collector rests."""

import gc
from typing import Annotated

import typer

from surefoot.errors import ConfigurationError, SchemaOutdated

MetricsPort = Annotated[
    int | None,
    typer.Option(min=1, max=65535, help="Serve Prometheus metrics on this port.", envvar="SUREFOOT_METRICS_PORT"),
]


def collect_rarely() -> None:
    """A relay or consumer makes a million short-lived values a second and no cycles among them: at Python's default
    threshold the collector takes a third of its time (measured). What lives now lives on."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


async def check_version(url: str, schema: str) -> None:
    from surefoot.database.connection import shown_url
    from surefoot.database.version import current_version, newest_version

    version = await current_version(url, schema=schema)
    if version != newest_version():
        raise SchemaOutdated(
            f"The schema {schema} at {shown_url(url)} is at version {version or 'none'}, this process needs "
            f"{newest_version()}. Run: surefoot migrate --database …"
        )


def serve_metrics(port: int) -> None:
    from prometheus_client import start_http_server

    try:
        start_http_server(port)
    except OSError as error:
        raise ConfigurationError(
            f"Metrics cannot be served on port {port}: {error}. Choose another --metrics-port."
        ) from error
