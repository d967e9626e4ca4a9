"""Requests with one key at the same time: one works, the others wait or are told to come again."""

import asyncio

from tests.blackbox.idempotency.asking import ask
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


async def one_of_many_works(server: Server, path: str, many: int = 20, delay_ms: int = 300) -> None:
    asked = ask(path, delay_ms=delay_ms)
    replies = await server.together([asked] * many)
    answered = [reply for reply in replies if reply.status == 201]
    refused = [reply for reply in replies if reply.status != 201]
    for reply in refused:
        expect_status(reply, 409)
        expect(bool(reply.header("retry-after")), f"a 409 does not say when to ask again: {reply.headers}")
    first = [reply for reply in answered if reply.replayed is None]
    expect(len(first) == 1, f"{len(first)} of {many} say that they are the first answer")
    for reply in answered:
        if reply is not first[0]:
            expect_again(first[0], reply)
    expect_again(first[0], await server.send(asked))
    await expect_counts(server, asked, runs=1, effects=1)


async def comes_too_early(server: Server, path: str) -> None:
    """Longer in flight than a request is let wait: 409, and the answer for one that comes again."""
    asked = ask(path, delay_ms=int((server.target.longest_wait_s + 1) * 1000))
    async with in_flight(server, asked) as working:
        early = expect_status(await server.send(asked), 409)
        after = early.header("retry-after")
        expect(after.isdigit() and 0 < int(after) <= 60, f"Retry-After is {after!r}, not some seconds")
        first = expect_first(await working)
    expect_again(first, await server.send(asked))
    await expect_counts(server, asked, runs=1, effects=1)


cases(
    one_of_many_works,
    {
        "of_twenty_local_requests_at_once_one_works": ("/local",),
        "of_twenty_outside_requests_at_once_one_works": ("/outside",),
    },
)
cases(
    comes_too_early,
    {
        "a_local_request_in_flight_for_long_is_answered_409_with_retry_after": ("/local",),
        "an_outside_request_in_flight_for_long_is_answered_409_with_retry_after": ("/outside",),
    },
)


@case
async def requests_with_different_keys_do_not_wait_for_each_other(server: Server) -> None:
    asks = [ask(delay_ms=800) for _ in range(8)]
    loop = asyncio.get_running_loop()
    begun = loop.time()
    replies = await server.together(asks)
    took = loop.time() - begun
    expect(all(reply.status == 201 for reply in replies), f"answered were {[reply.status for reply in replies]}")
    expect(took < 8 * 0.8, f"eight requests of 0.8 s took {took:.1f} s: one after another")


@case
async def tenants_with_the_same_key_do_not_wait_for_each_other(server: Server) -> None:
    mine = ask(delay_ms=600)
    theirs = ask().but(key=mine.key, who=server.target.second)
    async with in_flight(server, mine) as working:
        expect_first(await server.send(theirs))
        expect_first(await working)


@case
async def one_that_comes_shortly_before_the_end_waits_and_gets_the_answer(server: Server) -> None:
    asked = ask(delay_ms=int(server.target.longest_wait_s * 500))
    async with in_flight(server, asked) as working:
        waited = expect_status(await server.send(asked), 201)
        expect_again(expect_first(await working), waited)
