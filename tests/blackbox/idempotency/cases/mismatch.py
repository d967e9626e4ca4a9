"""A key that was used for another request is neither executed nor replayed."""

from collections.abc import Callable

from tests.blackbox.idempotency.asking import Ask, ask, ask_raw
from tests.blackbox.idempotency.case import (
    case,
    cases,
    expect,
    expect_again,
    expect_counts,
    expect_first,
    expect_status,
)
from tests.blackbox.idempotency.server import Server, in_flight


async def refused(server: Server, asked: Ask, change: Callable[[Ask], Ask]) -> None:
    other = change(asked)
    first = expect_first(await server.send(asked))
    mismatch = expect_status(await server.send(other), server.target.mismatch_status)
    expect(mismatch.replayed is None, "a refusal is called a replay")
    runs = 1 if other.mark == asked.mark else 0
    await expect_counts(server, other, runs=runs, effects=runs)
    expect_again(first, await server.send(asked))
    await expect_counts(server, asked, runs=1, effects=1)


cases(
    refused,
    {
        "another_amount_under_the_same_key_is_refused": (ask(), lambda asked: asked.with_body(amount=101)),
        "another_amount_on_an_outside_route_is_refused": (ask("/outside"), lambda asked: asked.with_body(amount=101)),
        "an_amount_that_differs_only_beyond_double_precision_is_refused": (
            ask(amount=2**53),
            lambda asked: asked.with_body(amount=2**53 + 1),
        ),
        "a_number_as_text_is_another_request": (ask(note=100), lambda asked: asked.with_body(note="100")),
        "a_member_that_is_null_is_not_one_that_is_missing": (ask(), lambda asked: asked.with_body(note=None)),
        "the_order_of_a_list_matters": (ask(items=[1, 2]), lambda asked: asked.with_body(items=[2, 1])),
        "another_path_is_refused": (ask("/local"), lambda asked: asked.but(path="/local/part")),
        "another_route_is_refused": (ask("/local"), lambda asked: asked.but(path="/outside")),
        "another_query_is_refused": (ask().but(query="page=1"), lambda asked: asked.but(query="page=2")),
        "another_method_is_refused": (ask(), lambda asked: asked.but(method="PATCH")),
        "raw_bodies_that_differ_in_one_byte_are_refused": (
            ask_raw(b"the same length", "text/plain"),
            lambda asked: asked.but(body=b"the same lengtH"),
        ),
        "another_media_type_is_refused": (
            ask_raw(b"<a/>", "text/plain"),
            lambda asked: asked.but(content_type="application/xml"),
        ),
    },
)


@case
async def a_path_that_is_spelled_otherwise_is_never_taken_for_a_retry(server: Server) -> None:
    """Nor is anything done under the key: it is another request, or there is no such path."""
    asked = ask("/local/a").but(query="x=1&y=2")
    expect_first(await server.send(asked))
    for path, query in (("%61", "x=1&y=2"), ("a/", "x=1&y=2"), ("A", "x=1&y=2"), ("a", "y=2&x=1"), ("a", "")):
        reply = await server.send(asked.but(path=f"/local/{path}", query=query))
        said = f"{path}?{query} is answered with {reply}"
        expect(reply.status in (307, 404, server.target.mismatch_status) and reply.replayed is None, said)
    await expect_counts(server, asked, runs=1, effects=1)


@case
async def a_refusal_tells_nothing_of_the_first_request(server: Server) -> None:
    asked = ask(note="a secret of the first request")
    first = expect_first(await server.send(asked))
    refusal = await server.send(asked.with_body(note="guessed"))
    expect_status(refusal, server.target.mismatch_status)
    everything = refusal.body + repr(refusal.headers).encode()
    told = [text for text in ("a secret", asked.mark, str(first.json["id"])) if text.encode() in everything]
    expect(told == [], f"the refusal has {told} in it: {refusal}")


@case
async def the_same_key_of_another_tenant_is_another_key(server: Server) -> None:
    asked = ask()
    other = ask().but(key=asked.key, who=server.target.second)
    mine, theirs = expect_first(await server.send(asked)), expect_first(await server.send(other))
    expect(mine.json["id"] != theirs.json["id"], "both tenants got the same id")
    expect_again(mine, await server.send(asked))
    expect_again(theirs, await server.send(other))
    await expect_counts(server, other, runs=1, effects=1)


@case
async def the_same_request_of_another_tenant_is_not_answered_with_ours(server: Server) -> None:
    asked = ask("/outside")
    mine = expect_first(await server.send(asked))
    theirs = expect_first(await server.send(asked.but(who=server.target.second)))
    expect(mine.json["id"] != theirs.json["id"], "the other tenant got our answer")
    await expect_counts(server, asked, runs=2, effects=2)


@case
async def another_request_under_the_key_of_one_in_flight_is_not_executed(server: Server) -> None:
    asked = ask("/outside", delay_ms=800)
    other = ask("/outside").but(key=asked.key)
    async with in_flight(server, asked) as working:
        expect_status(await server.send(other), server.target.mismatch_status, 409)
        expect_first(await working)
    expect_status(await server.send(other), server.target.mismatch_status)
    await expect_counts(server, other, runs=0, effects=0)
