"""The client of the admin service, against real sockets: problems are sentences, lost answers are asked for again."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

import pytest

from surefoot.cli.dlq.client import Client, ServiceAway, ServiceRefused, as_view, path_to
from surefoot.dlq.jobs.views import JobMade
from surefoot.errors import ConfigurationError

Answer = Callable[[BaseHTTPRequestHandler], None]


class Asked(NamedTuple):
    path: str
    headers: Message


@contextmanager
def answering(*answers: Answer) -> Iterator[tuple[str, list[Asked]]]:
    """A server that gives these answers, one after the other; its address, and what it was asked."""
    asked: list[Asked] = []
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked.append(Asked(self.path, self.headers))
            left.pop(0)(self)

        do_POST = do_GET  # noqa: N815 - the name that http.server asks for

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its signature
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


def says(status: int, body: object, **headers: str) -> Answer:
    def answer(request: BaseHTTPRequestHandler) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            request.send_header(name.replace("_", "-"), value)
        request.end_headers()
        request.wfile.write(data)

    return answer


def hangs_up(request: BaseHTTPRequestHandler) -> None:
    request.close_connection = True


def test_a_problem_becomes_its_sentence() -> None:
    problem = {"title": "Conflict", "status": 409, "detail": "None of what was asked for is open."}
    with answering(says(409, problem)) as (url, _), Client(url, "sft_x") as client:
        with pytest.raises(ServiceRefused, match=r"^None of what was asked for is open\.$") as refused:
            client.post("/replay", {})
    assert refused.value.status == 409


def test_who_has_no_token_is_told_how_to_get_one() -> None:
    problem = {"title": "Unauthorized", "status": 401, "detail": "Say who you are."}
    with answering(says(401, problem)) as (url, asked), Client(url) as client:
        with pytest.raises(ServiceRefused, match="SUREFOOT_DLQ_TOKEN"):
            client.get("/groups")
    assert asked[0].headers["Authorization"] is None


def test_who_asks_too_often_is_told_when_to_ask_again() -> None:
    problem = {"title": "Too Many Requests", "status": 429, "detail": "Too many."}
    with answering(says(429, problem, Retry_After="7")) as (url, _), Client(url, "sft_x") as client:
        with pytest.raises(ServiceRefused, match="Try again in 7 s"):
            client.get("/groups")


def test_a_service_that_is_away_is_a_sentence() -> None:
    with answering() as (url, _):
        pass
    with Client(url) as client, pytest.raises(ServiceAway, match=r"does not answer.*surefoot dlq serve"):
        client.get("/groups")


def test_a_command_whose_answer_was_lost_is_sent_again_under_the_same_key() -> None:
    with answering(hangs_up, says(202, {"job_id": 1})) as (url, asked), Client(url, "sft_x") as client:
        assert client.post("/replay", {}) == {"job_id": 1}
    keys = [one.headers["Idempotency-Key"] for one in asked]
    assert len(keys) == 2
    assert keys[0] == keys[1]
    assert keys[0]


def test_two_commands_have_two_keys() -> None:
    with answering(says(202, {}), says(202, {})) as (url, asked), Client(url, "sft_x") as client:
        client.post("/replay", {})
        client.post("/replay", {})
    assert asked[0].headers["Idempotency-Key"] != asked[1].headers["Idempotency-Key"]


def test_a_service_that_never_answers_is_not_asked_for_ever() -> None:
    with answering(hangs_up, hangs_up, hangs_up) as (url, asked), Client(url) as client:
        with pytest.raises(ServiceAway):
            client.get("/groups")
    assert len(asked) == 3


@pytest.mark.parametrize("body", [b"<html>It works!</html>", b"[]"])
def test_something_else_that_answers_is_told_apart(body: bytes) -> None:
    with answering(says(200, body)) as (url, _), Client(url) as client:
        with pytest.raises(ServiceRefused, match="not the dead-letter service"):
            client.get("/groups")


def test_an_answer_of_another_version_is_a_sentence() -> None:
    with pytest.raises(ServiceRefused, match="another version"):
        as_view(JobMade, {"job_id": 1})


def test_pages_are_read_as_far_as_is_wanted() -> None:
    first, second = {"events": [{"n": 1}, {"n": 2}], "next": "here"}, {"events": [{"n": 3}], "next": None}
    with answering(says(200, first), says(200, second)) as (url, asked), Client(url) as client:
        found = list(client.rows("/events", "events", {"status": "OPEN", "key": None}, 1000))
    assert [row["n"] for row in found] == [1, 2, 3]
    assert [one.path for one in asked] == [
        "/admin/dlq/events?status=OPEN&limit=200",
        "/admin/dlq/events?status=OPEN&after=here&limit=200",
    ]


def test_a_name_cannot_lead_to_another_path() -> None:
    assert path_to("events", "../jobs/1?x=y", "reveal") == "/events/..%2Fjobs%2F1%3Fx%3Dy/reveal"


@pytest.mark.parametrize("url", ["127.0.0.1:8090", "ftp://host", "http://", "http://host:none", ""])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="--url"):
        Client(url)


@pytest.mark.parametrize("token", ["two words", "dé", "a\nb"])
def test_a_token_that_cannot_be_one_is_refused_and_not_quoted(token: str) -> None:
    with pytest.raises(ConfigurationError, match="SUREFOOT_DLQ_TOKEN") as refused:
        Client("http://127.0.0.1:1", token)
    assert token not in str(refused.value)
