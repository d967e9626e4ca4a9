"""What becomes of a request whose work fails: it is tried again under the same key, and still takes effect once."""

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

RAISES = 0
"""As a status: the work raises instead of answering."""


async def recovers(server: Server, path: str, status: int) -> None:
    asked = ask(path, status=status, times=1)
    expect_first(await server.send(asked), status or 500)
    recovered = expect_status(await server.settled(asked), 201)
    expect_again(recovered, await server.send(asked))
    await expect_counts(server, asked, runs=2, effects=1)


async def replayed(server: Server, path: str, status: int, effects: int) -> None:
    asked = ask(path, status=status)
    first = expect_first(await server.send(asked), 500)
    expect_again(first, await server.send(asked))
    await expect_counts(server, asked, runs=1, effects=effects)


cases(
    recovers,
    {
        "after_a_failure_the_work_is_done_again_and_its_answer_is_kept": ("/local", 500),
        "after_a_503_the_work_is_done_again": ("/local", 503),
        "after_an_exception_the_work_is_done_again": ("/local", RAISES),
        "after_a_failure_of_outside_work_there_is_still_one_effect": ("/outside", 500),
        "after_an_exception_of_outside_work_there_is_still_one_effect": ("/outside", RAISES),
    },
)
cases(
    replayed,
    {
        "where_a_route_says_so_a_failure_is_kept_and_given_again": ("/replayed-failures", 500, 0),
        "where_a_route_says_so_an_exception_is_kept_and_given_again": ("/replayed-failures", RAISES, 0),
        "where_an_outside_route_says_so_a_failure_is_kept_and_given_again": ("/outside-replayed", 500, 1),
        "where_an_outside_route_says_so_an_exception_is_kept_and_given_again": ("/outside-replayed", RAISES, 1),
    },
)


@case
async def what_failed_work_had_written_is_undone(server: Server) -> None:
    asked = ask("/local", status=500)
    expect_first(await server.send(asked), 500)
    await expect_counts(server, asked, runs=1, effects=0)


@case
async def a_key_whose_work_failed_cannot_be_used_for_another_request(server: Server) -> None:
    asked = ask("/local", status=500, times=1)
    expect_first(await server.send(asked), 500)
    expect_status(await server.send(asked.with_body(amount=101)), server.target.mismatch_status)
    expect_first(await server.send(asked))


@case
async def an_unknown_outcome_is_called_that_and_names_what_it_is_about(server: Server) -> None:
    asked = ask("/outside", provider="no_answer", times=1)
    unknown = expect_status(await server.send(asked), 504)
    expect(bool(unknown.json.get("resource")), f"the problem names no resource: {unknown}")
    expect(bool(unknown.header("retry-after")), "the problem does not say when to ask again")
    done = expect_status(await server.settled(asked), 201)
    expect(done.json["id"] == unknown.json["resource"], f"it was about {unknown.json['resource']}, and made {done}")


@case
async def an_unknown_outcome_that_is_cleared_up_has_one_effect(server: Server) -> None:
    asked = ask("/outside", provider="no_answer", times=1)
    expect_status(await server.send(asked), 504)
    first = expect_status(await server.settled(asked), 201)
    expect_again(first, await server.send(asked))
    counted = await server.counted(asked)
    expect(counted.effects == 1, f"there are {counted.effects} effects")
