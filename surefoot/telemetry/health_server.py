"""`/livez`, `/readyz` and `/metrics` of a process, by threads that answer also while the event loop stands still.

Whoever reaches the port may ask. So the answers have sentences of ours in them, and no address, user or error text.
"""

import json
from collections.abc import Callable, Iterable
from http import HTTPStatus
from socketserver import ThreadingMixIn
from threading import Thread
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import make_wsgi_app

from surefoot.telemetry.health import Answer, Health
from surefoot.telemetry.pulse import BEAT_S

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

EVERY_ADDRESS = "0.0.0.0"  # noqa: S104  # as before, and as Prometheus needs it
METHODS = ("GET", "HEAD")
SLOWEST_REQUEST_S = 10.0
NO_SUCH_PATH = "There are /livez, /readyz and /metrics here."
Headers = list[tuple[str, str]]
_EXPOSED = make_wsgi_app()


def serve_health(health: Health, port: int) -> None:
    """Until the process ends. Raises OSError if the port cannot be had."""
    server = make_server(EVERY_ADDRESS, port, app(health), server_class=_Server, handler_class=_Handler)
    server.look = health.look
    Thread(target=server.serve_forever, args=(BEAT_S,), name="health and metrics", daemon=True).start()


def app(health: Health) -> "WSGIApplication":
    answers: dict[str, Callable[[], Answer]] = {"/livez": health.live, "/readyz": health.ready}

    def answer(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        if path not in answers and path != "/metrics":
            return _say(start_response, method, HTTPStatus.NOT_FOUND, {"sentence": NO_SUCH_PATH})
        if method not in METHODS:
            allowed = ", ".join(METHODS)
            said = {"sentence": f"{path} takes {allowed}."}
            return _say(start_response, method, HTTPStatus.METHOD_NOT_ALLOWED, said, ("Allow", allowed))
        if path == "/metrics":
            return _metrics(environ, start_response)
        given = answers[path]()
        return _say(start_response, method, HTTPStatus.OK if given.ok else HTTPStatus.SERVICE_UNAVAILABLE, given.body)

    return answer


def _metrics(environ: "WSGIEnvironment", start_response: "StartResponse") -> list[bytes]:
    """As prometheus_client gives them, in the format that the asker accepts. By itself it takes no HEAD."""
    begun: list[tuple[str, Headers]] = []
    text = b"".join(_EXPOSED({**environ, "REQUEST_METHOD": "GET"}, lambda *said: begun.append(said)))
    status, headers = begun[0]
    start_response(status, [*headers, ("Content-Length", str(len(text)))])
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [text]


def _say(
    start_response: "StartResponse", method: str, status: HTTPStatus, body: dict[str, Any], *more: tuple[str, str]
) -> list[bytes]:
    text = json.dumps(body, ensure_ascii=False).encode() + b"\n"
    headers: Headers = [
        ("Content-Type", "application/json; charset=utf-8"),
        ("Content-Length", str(len(text))),
        ("Cache-Control", "no-store"),
        *more,
    ]
    start_response(f"{status.value} {status.phrase}", headers)
    return [] if method == "HEAD" else [text]


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    look: Callable[[], None]

    def service_actions(self) -> None:
        """Called each beat, and after each request that was accepted."""
        self.look()

    def handle_error(self, request: object, client_address: object) -> None:
        """Who asked has gone, or says nothing. Nobody needs to know."""


class _Handler(WSGIRequestHandler):
    timeout = SLOWEST_REQUEST_S

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as its base class names it
        """A line for each probe would be noise."""
