"""When two requests are the same: by what they mean, not by how they are written."""

import json
from collections.abc import Callable

from tests.blackbox.idempotency.asking import Ask, ask, ask_raw
from tests.blackbox.idempotency.case import case, cases, expect, expect_again, expect_counts, expect_first
from tests.blackbox.idempotency.reply import Reply
from tests.blackbox.idempotency.server import Server
from tests.blackbox.idempotency.wire import CHUNKED, chunks, dialled, head


async def the_same(server: Server, asked: Ask, written_otherwise: Ask) -> Reply:
    first = expect_first(await server.send(asked))
    expect_again(first, await server.send(written_otherwise))
    await expect_counts(server, asked, runs=1, effects=1)
    return first


@case
async def the_order_of_members_does_not_matter(server: Server) -> None:
    asked = ask(note={"b": 1, "a": {"d": 2, "c": 3}})
    other_way = {"note": {"a": {"c": 3, "d": 2}, "b": 1}, "amount": 100, "mark": asked.mark}
    await the_same(server, asked, asked.but(body=other_way))


@case
async def spaces_in_json_do_not_matter(server: Server) -> None:
    asked = ask(items=[1, 2, 3])
    await the_same(server, asked, asked.but(body=json.dumps(asked.body, indent=4).encode() + b"\r\n "))


@case
async def escapes_in_json_strings_do_not_matter(server: Server) -> None:
    asked = ask(note="café ☕ a/b")
    plain = json.dumps(asked.body, ensure_ascii=False).encode()
    escaped = json.dumps(asked.body, ensure_ascii=True).replace("a/b", "a\\/b").encode()
    await the_same(server, asked.but(body=plain), asked.but(body=escaped))


async def written_otherwise(server: Server, change: Callable[[Ask], Ask]) -> None:
    asked = ask()
    await the_same(server, asked, change(asked))


TRACE = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "X-Request-Id": "another"}
PROGRAM = {"User-Agent": "another/2.0", "Accept-Language": "fi"}
cases(
    written_otherwise,
    {
        "a_whole_number_may_be_written_with_a_point": (lambda asked: asked.with_body(amount=100.0),),
        "parameters_of_the_media_type_do_not_matter": (
            lambda asked: asked.but(content_type="application/json; charset=utf-8"),
        ),
        "the_media_type_may_be_written_in_any_case": (lambda asked: asked.but(content_type="Application/JSON"),),
        "trace_headers_do_not_matter": (lambda asked: asked.but(headers=TRACE),),
        "the_client_may_be_another_program": (lambda asked: asked.but(headers=PROGRAM),),
    },
)


@case
async def a_body_in_chunks_is_the_same_as_one_in_a_piece(server: Server) -> None:
    asked = ask(note="in several pieces")
    content = asked.content()
    async with dialled(server) as line:
        await line.say(head(server, asked, CHUNKED), chunks([content[:7], content[7:20], content[20:]]))
        status = await line.status(server.target.patience_s)
    expect(status == 201, f"the request in chunks was answered with {status}")
    again = await server.send(asked)
    expect((again.status, again.replayed) == (201, "true"), f"the one in a piece got {again}")
    await expect_counts(server, asked, runs=1, effects=1)


@case
async def multipart_bodies_are_compared_by_their_parts(server: Server) -> None:
    asked = ask_raw(*_multipart("first-boundary"))
    content, content_type = _multipart("another-boundary")
    await the_same(server, asked, asked.but(body=content, content_type=content_type))


@case
async def a_large_body_is_taken_and_answered_again(server: Server) -> None:
    asked = ask_raw(b"x" * (server.target.largest_body * 9 // 10), "application/octet-stream")
    first = await the_same(server, asked, asked)
    expect(first.json.get("length") == len(asked.content()), f"it got {first.json.get('length')} bytes of the body")


def _multipart(boundary: str) -> tuple[bytes, str]:
    parts = [("name", "the same"), ("amount", "100")]
    lines = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in parts
    ]
    return "".join([*lines, f"--{boundary}--\r\n"]).encode(), f"multipart/form-data; boundary={boundary}"
