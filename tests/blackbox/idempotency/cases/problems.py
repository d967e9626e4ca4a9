"""Refusals are problems (RFC 9457) whose types can be read."""

from urllib.parse import urljoin

from tests.blackbox.idempotency.asking import ask
from tests.blackbox.idempotency.case import case, expect, expect_first, expect_problem
from tests.blackbox.idempotency.reply import Reply
from tests.blackbox.idempotency.server import Server, in_flight


async def can_be_read(server: Server, problem: Reply) -> None:
    page = await server.get(urljoin(server.target.base_url, problem.json["type"]))
    expect(page.status_code == 200, f"{problem.json['type']} is answered with {page.status_code}")
    expect(page.headers["content-type"].startswith("text/"), f"it is {page.headers['content-type']}, not to be read")
    expect(len(page.text) > 100, "the page says next to nothing")


@case
async def the_type_of_a_missing_key_is_a_page(server: Server) -> None:
    await can_be_read(server, expect_problem(await server.send(ask().but(key=None)), 400))


@case
async def the_type_of_a_malformed_key_is_a_page(server: Server) -> None:
    await can_be_read(server, expect_problem(await server.send(ask().but(key="short")), 400))


@case
async def the_type_of_a_reused_key_is_a_page(server: Server) -> None:
    asked = ask()
    expect_first(await server.send(asked))
    reused = await server.send(asked.with_body(amount=101))
    await can_be_read(server, expect_problem(reused, server.target.mismatch_status))


@case
async def a_refusal_does_not_repeat_the_key(server: Server) -> None:
    asked = ask().but(key="short-secret")
    refusal = expect_problem(await server.send(asked), 400)
    expect(b"short-secret" not in refusal.body, f"the refusal has the key in it: {refusal}")


@case
async def in_flight_is_a_problem_whose_type_is_a_page(server: Server) -> None:
    asked = ask(delay_ms=int((server.target.longest_wait_s + 1) * 1000))
    async with in_flight(server, asked) as working:
        await can_be_read(server, expect_problem(await server.send(asked), 409))
        await working


@case
async def a_key_that_is_gone_is_a_problem_whose_type_is_a_page(server: Server) -> None:
    asked = ask("/short-replay")
    expect_first(await server.send(asked))
    gone = await server.until(asked, lambda reply: reply.status != 201)
    await can_be_read(server, expect_problem(gone, 410))


@case
async def an_unknown_outcome_is_a_problem_whose_type_is_a_page(server: Server) -> None:
    await can_be_read(server, expect_problem(await server.send(ask("/outside", provider="no_answer", times=1)), 504))
