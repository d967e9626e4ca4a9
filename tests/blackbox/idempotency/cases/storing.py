"""Which answers are kept: those of the work itself. What was refused before it leaves the key as it was."""

from tests.blackbox.idempotency.asking import Ask, ask, ask_raw
from tests.blackbox.idempotency.case import case, cases, expect_again, expect_counts, expect_first, expect_status
from tests.blackbox.idempotency.server import Server


async def kept(server: Server, status: int, path: str) -> None:
    asked = ask(path, status=status)
    first = expect_first(await server.send(asked), status)
    expect_again(first, await server.send(asked))
    await expect_counts(server, asked, runs=1, effects=0)


async def not_kept(server: Server, refused: Ask, mended: Ask, status: int) -> None:
    """The first is refused before any work; the second, under the same key, is the first one for the key."""
    expect_first(await server.send(refused), status)
    await expect_counts(server, mended, runs=0, effects=0)
    first = expect_first(await server.send(mended))
    expect_again(first, await server.send(mended))
    await expect_counts(server, mended, runs=1, effects=1)


async def tried_again(server: Server, status: int, path: str) -> None:
    asked = ask(path, status=status, times=1)
    expect_first(await server.send(asked), status)
    first = expect_first(await server.send(asked))
    expect_again(first, await server.send(asked))
    await expect_counts(server, asked, runs=2, effects=1)


cases(
    kept,
    {
        "a_decline_is_kept_and_given_again": (402, "/local"),
        "a_decline_of_the_provider_is_kept_and_given_again": (402, "/outside"),
        "not_found_by_the_work_is_kept_and_what_it_had_written_is_undone": (404, "/local"),
        "a_conflict_found_by_the_work_is_kept": (409, "/local"),
        "a_refusal_by_the_rules_of_the_work_is_kept": (422, "/local"),
    },
)
cases(
    tried_again,
    {
        "a_rate_limit_within_the_work_is_not_kept": (429, "/local"),
        "a_rate_limit_within_outside_work_is_not_kept": (429, "/outside"),
        "forbidden_by_the_work_is_not_kept": (403, "/local"),
    },
)


@case
async def a_body_that_is_not_valid_can_be_mended_under_the_same_key(server: Server) -> None:
    mended = ask()
    await not_kept(server, mended.with_body(amount="not a number"), mended, 422)


@case
async def a_body_that_is_not_json_can_be_mended_under_the_same_key(server: Server) -> None:
    mended = ask()
    expect_status(await server.send(mended.but(body=b'{"mark": ')), 400, 422)
    await expect_counts(server, mended, runs=0, effects=0)
    expect_first(await server.send(mended))


@case
async def bad_credentials_are_not_kept(server: Server) -> None:
    mended = ask()
    await not_kept(server, mended.but(who=server.target.expired), mended, 401)


@case
async def bad_credentials_get_nothing_that_was_kept(server: Server) -> None:
    asked = ask()
    expect_first(await server.send(asked))
    expect_first(await server.send(asked.but(who=server.target.expired)), 401)


@case
async def a_wrong_media_type_is_not_kept(server: Server) -> None:
    mended = ask()
    await not_kept(server, mended.but(content_type="text/csv"), mended, 415)


@case
async def a_rate_limit_before_the_work_is_not_kept(server: Server) -> None:
    mended = ask()
    await not_kept(server, mended.but(headers={"X-Over-Limit": "yes"}), mended, 429)


@case
async def a_body_that_is_too_large_is_not_kept(server: Server) -> None:
    mended = ask_raw(b"smaller", "application/octet-stream")
    await not_kept(server, mended.but(body=b"x" * (server.target.largest_body * 3 // 2)), mended, 413)
