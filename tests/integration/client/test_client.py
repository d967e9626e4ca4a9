"""The client against a real server that fails in all the ways servers fail."""

import asyncio
import socket
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import httpx
import pytest

from surefoot.client import Client, GaveUp, Patience, new_key
from surefoot.errors import ConfigurationError
from surefoot.http.idempotency_key import read_key
from tests.support.scripted_server import Say, Silence, Vanish, scripted

pytestmark = pytest.mark.slow

CREATED = Say(201, b'{"id":"ch_1"}', {"Content-Type": "application/json"})
REPLAYED = Say(201, b'{"id":"ch_1"}', {"Content-Type": "application/json", "X-Idempotency-Replayed": "true"})
IN_FLIGHT = Say(409, b'{"type":"/problems/idempotency/in-flight"}', {"Content-Type": "application/problem+json"})
KEY = "8e03978e-40d5-43dd-bc93-6894a57f9324"


class Time:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def connect(time: Time) -> Callable[..., Client]:
    def made(url: str, **more: Any) -> Client:
        more.setdefault("patience", Patience(attempts=5, base=timedelta(seconds=1), longest=timedelta(seconds=10)))
        more.setdefault("transport", httpx.AsyncHTTPTransport())  # past any proxy that the environment names
        return Client(url, sleep=time.sleep, chance=lambda: 1.0, clock=lambda: time.now, **more)

    return made


Connect = Callable[..., Client]


async def test_a_call_is_sent_once_with_a_key_made_for_it(connect: Connect, time: Time) -> None:
    async with scripted(CREATED, CREATED) as server, connect(server.url) as client:
        first = await client.post("/v1/charges", json={"amount": Decimal("19.99"), "note": "für"})
        second = await client.post("/v1/charges", json={"amount": "19.99"})

    one, two = server.seen
    assert (first.status, first.json(), first.ok, first.replayed, first.attempts) == (
        201,
        {"id": "ch_1"},
        True,
        False,
        1,
    )
    assert one.line == "POST /v1/charges HTTP/1.1"
    assert one.body == '{"amount":"19.99","note":"für"}'.encode()
    assert one.headers["content-type"] == "application/json"
    assert one.headers["idempotency-key"] == f'"{first.key}"'
    assert read_key([one.headers["idempotency-key"].encode()], strict=True) == first.key
    assert two.headers["idempotency-key"] == f'"{second.key}"' != one.headers["idempotency-key"]
    assert time.slept == []


@pytest.mark.parametrize(
    "failure",
    [
        Vanish(),
        Vanish(b"HTTP/1.1 201 Created\r\nContent-Le"),
        Vanish(b'HTTP/1.1 201 Created\r\nContent-Length: 13\r\n\r\n{"id":'),
        Vanish(b"garbage\r\n\r\n"),
        Vanish(b"HTTP/1.1 201 Created\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope"),
        IN_FLIGHT,
        Say(429),
        Say(500),
        Say(502),
        Say(503),
        Say(504, b'{"type":"/p/outcome-unknown"}', {"Content-Type": "application/problem+json"}),
    ],
)
async def test_what_may_have_failed_is_sent_again_byte_for_byte(connect: Connect, time: Time, failure: Any) -> None:
    async with scripted(failure, failure, REPLAYED) as server, connect(server.url) as client:
        answer = await client.post("/v1/charges?expand=1", json={"b": 1, "a": 2}, headers={"X-More": "yes"})

    assert (answer.status, answer.replayed, answer.attempts) == (201, True, 3)
    assert len({request.raw for request in server.seen}) == 1
    assert time.slept == [1.0, 2.0]


@pytest.mark.parametrize(
    "said",
    [
        Say(400),
        Say(402, b'{"type":"/p/card-declined"}', {"Content-Type": "application/problem+json"}),
        Say(409),
        Say(409, b'{"type":"/problems/idempotency/key-reused"}', {"Content-Type": "application/problem+json"}),
        Say(422),
        Say(301, b"", {"Location": "/elsewhere"}),
        Say(500, b"", {"X-Idempotency-Replayed": "true"}),
    ],
)
async def test_an_answer_that_lasts_is_not_asked_for_again(connect: Connect, time: Time, said: Say) -> None:
    async with scripted(said) as server, connect(server.url) as client:
        answer = await client.post("/v1/charges", json={})

    assert (answer.status, answer.body) == (said.status, said.body)
    assert len(server.seen) == 1
    assert time.slept == []


async def test_a_given_key_is_used(connect: Connect) -> None:
    async with scripted(Say(503), CREATED) as server, connect(server.url) as client:
        answer = await client.request("PUT", "/v1/things", key='key"with\\signs-01', content=b"raw")

    assert answer.key == 'key"with\\signs-01'
    assert [request.headers["idempotency-key"] for request in server.seen] == ['"key\\"with\\\\signs-01"'] * 2
    assert server.seen[0].body == b"raw"
    assert "content-type" not in server.seen[0].headers


async def test_reading_needs_no_key_and_is_tried_again_too(connect: Connect) -> None:
    async with scripted(Say(503), Say(200)) as server, connect(server.url) as client:
        answer = await client.get("/v1/charges", params={"limit": "2"})

    assert answer.key is None
    assert [request.line for request in server.seen] == ["GET /v1/charges?limit=2 HTTP/1.1"] * 2
    assert "idempotency-key" not in server.seen[0].headers


@pytest.mark.parametrize(
    ("headers", "slept"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "Sun, 01 Mar 2026 12:00:09 GMT", "Date": "Sun, 01 Mar 2026 12:00:00 GMT"}, 9.0),
        ({"Retry-After": "0"}, 1.0),
        ({"Retry-After": "never"}, 1.0),
    ],
)
async def test_retry_after_is_obeyed(connect: Connect, time: Time, headers: dict[str, str], slept: float) -> None:
    async with scripted(Say(503, b"", headers), CREATED) as server, connect(server.url) as client:
        await client.post("/v1/charges", json={})

    assert time.slept == [slept]


async def test_it_gives_up_after_so_many_attempts_and_says_what_to_do(connect: Connect, time: Time) -> None:
    busy = Say(503, b"busy")
    async with scripted(*[busy] * 5) as server, connect(server.url) as client:
        with pytest.raises(GaveUp) as caught:
            await client.post("/v1/charges", json={}, key=KEY)

    gave_up = caught.value
    assert (gave_up.key, gave_up.attempts) == (KEY, 5)
    assert gave_up.answer is not None
    assert (gave_up.answer.status, gave_up.answer.body) == (503, b"busy")
    assert str(gave_up) == (
        f"POST {server.url}/v1/charges was sent 5 times and the last answer was 503: whether it took effect is not "
        f"known. Ask again later with key='{KEY}': that is safe."
    )
    assert time.slept == [1.0, 2.0, 4.0, 8.0]


async def test_it_gives_up_at_once_where_the_next_attempt_would_be_too_late(connect: Connect, time: Time) -> None:
    patience = Patience(within=timedelta(seconds=60))
    async with (
        scripted(Say(429, b"", {"Retry-After": "3600"})) as server,
        connect(server.url, patience=patience) as client,
    ):
        with pytest.raises(GaveUp, match="was sent once and the last answer was 429"):
            await client.post("/v1/charges", json={})

    assert time.slept == []


async def test_it_gives_up_when_the_time_is_over(connect: Connect, time: Time) -> None:
    patience = Patience(
        attempts=100, within=timedelta(seconds=10), base=timedelta(seconds=2), longest=timedelta(seconds=4)
    )
    async with scripted(*[Say(503)] * 10) as server, connect(server.url, patience=patience) as client:
        with pytest.raises(GaveUp, match="was sent 3 times"):
            await client.post("/v1/charges", json={})

    assert time.slept == [2.0, 4.0]


async def test_the_last_answer_is_kept_through_failures_of_the_network(connect: Connect) -> None:
    patience = Patience(attempts=2)
    async with scripted(Say(503, b"busy"), Vanish()) as server, connect(server.url, patience=patience) as client:
        with pytest.raises(GaveUp, match="it ended with RemoteProtocolError") as caught:
            await client.post("/v1/charges", json={})

    assert caught.value.answer is not None
    assert caught.value.answer.body == b"busy"
    assert isinstance(caught.value.__cause__, httpx.RemoteProtocolError)


async def test_a_server_that_is_not_there_is_tried_and_given_up(connect: Connect, time: Time) -> None:
    with socket.socket() as taken:  # bound and not listening: whoever connects is refused
        taken.bind(("127.0.0.1", 0))
        async with connect(f"http://127.0.0.1:{taken.getsockname()[1]}") as client:
            with pytest.raises(
                GaveUp,
                match=r"was sent 5 times and it ended with ConnectError \(All connection attempts failed\): whether",
            ) as caught:
                await client.post("/v1/charges", json={})

    assert caught.value.answer is None
    assert caught.value.key is not None
    assert len(time.slept) == 4


async def test_giving_up_tells_nothing_of_passwords_and_queries(connect: Connect) -> None:
    async with scripted(*[Say(503)] * 5) as server:
        async with connect(server.url.replace("//", "//ana:secret@")) as client:
            with pytest.raises(GaveUp) as caught:
                await client.get("/v1/charges", params={"email": "ana@example.org"})

    assert str(caught.value) == f"GET {server.url}/v1/charges was sent 5 times and the last answer was 503."


async def test_silence_ends_with_the_timeout_and_is_tried_again(connect: Connect) -> None:
    brief = timedelta(milliseconds=50)
    async with scripted(Silence(), CREATED) as server, connect(server.url, timeout=brief) as client:
        answer = await client.post("/v1/charges", json={})

    assert answer.attempts == 2


async def test_an_attempt_is_not_longer_than_the_time_that_is_left() -> None:
    patience = Patience(within=timedelta(milliseconds=100))
    direct = httpx.AsyncHTTPTransport()
    async with scripted(Silence()) as server, Client(server.url, patience=patience, transport=direct) as client:
        with pytest.raises(GaveUp, match="was sent once and it ended with TimeoutError"):
            await client.post("/v1/charges", json={})


async def test_a_cancelled_call_is_not_tried_again(connect: Connect) -> None:
    async with scripted(Silence()) as server, connect(server.url) as client:
        calling = asyncio.create_task(client.post("/v1/charges", json={}))
        await server.asked.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling

    assert len(server.seen) == 1


async def test_calls_side_by_side_have_keys_of_their_own(connect: Connect) -> None:
    async with scripted(*[Say(503)] * 3, *[CREATED] * 20) as server, connect(server.url) as client:
        answers = await asyncio.gather(*(client.post("/v1/charges", json={"n": n}) for n in range(10)))

    assert len({answer.key for answer in answers}) == 10
    assert sum(answer.attempts for answer in answers) == 13
    bodies: dict[str, set[bytes]] = {}
    for request in server.seen:
        bodies.setdefault(request.headers["idempotency-key"], set()).add(request.body)
    assert all(len(sent) == 1 for sent in bodies.values())


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"key": "short"}, "must have 16 to 255"),
        ({"key": "a key with spaces in it"}, "cannot be sent"),
        ({"key": "schlüssel-0123456789"}, "cannot be sent"),
        ({"key": "surrogate-0123456789\ud800"}, "cannot be sent"),
        ({"headers": {"idempotency-key": KEY}}, "give it as key="),
        ({"json": {}, "content": b""}, "give one of them"),
        ({"json": {"amount": float("nan")}}, "cannot be written as JSON"),
        ({"json": {"amount": object()}}, "cannot be written as JSON"),
    ],
)
async def test_a_call_that_cannot_be_made_is_refused_before_anything_is_sent(
    connect: Connect, wrong: dict[str, Any], said: str
) -> None:
    async with scripted() as server, connect(server.url) as client:
        with pytest.raises(ConfigurationError, match=said):
            await client.post("/v1/charges", **wrong)

    assert server.seen == []


async def test_an_address_that_is_none_is_not_tried_again(connect: Connect, time: Time) -> None:
    async with connect("gopher://127.0.0.1") as client:
        with pytest.raises(httpx.UnsupportedProtocol):
            await client.post("/v1/charges", json={})

    assert time.slept == []


def test_keys_are_new_each_time_and_can_be_sent() -> None:
    keys = {new_key() for _ in range(1000)}

    assert len(keys) == 1000
    assert all(read_key([key.encode()], strict=False) == key for key in keys)
