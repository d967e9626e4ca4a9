"""Callers who leave: the work goes on, and who comes again gets its answer."""

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
from tests.blackbox.idempotency.server import Server
from tests.blackbox.idempotency.wire import dialled, head, sized


async def leaves_before_the_answer(server: Server, path: str) -> None:
    asked = ask(path, delay_ms=500)
    content = asked.content()
    async with dialled(server) as line:
        await line.say(head(server, asked, sized(content)), content)
        await server.begun(asked)
    answer = expect_status(await server.settled(asked), 201)
    expect_again(answer, await server.send(asked))
    await expect_counts(server, asked, runs=1, effects=1)


cases(
    leaves_before_the_answer,
    {
        "a_caller_who_leaves_a_local_route_before_the_answer_gets_it_later": ("/local",),
        "a_caller_who_leaves_an_outside_route_before_the_answer_gets_it_later": ("/outside",),
    },
)


@case
async def a_caller_who_leaves_within_the_body_has_claimed_nothing(server: Server) -> None:
    asked = ask()
    content = asked.content()
    async with dialled(server) as line:
        await line.say(head(server, asked, sized(content)), content[: len(content) // 2])
    first = expect_first(await server.settled(asked))
    expect_again(first, await server.send(asked))
    await expect_counts(server, asked, runs=1, effects=1)


@case
async def a_body_that_comes_slowly_keeps_no_other_request_waiting(server: Server) -> None:
    asked = ask()
    content = asked.content()
    async with dialled(server) as line:
        await line.say(head(server, asked, sized(content)), content[:5])
        first = expect_first(await server.send(asked))
        await line.say(content[5:])
        expect(await line.status(server.target.patience_s) == 201, "the slow one is not answered as the quick one")
    expect_again(first, await server.send(asked))
    await expect_counts(server, asked, runs=1, effects=1)
