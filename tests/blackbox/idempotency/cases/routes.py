"""Routes that need no key, take one, or do not look at it; and methods that change nothing."""

from tests.blackbox.idempotency.asking import Ask, ask
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


async def protected_with_a_key_only(server: Server, path: str) -> None:
    keyed = ask(path)
    first = expect_first(await server.send(keyed))
    expect_again(first, await server.send(keyed))
    await expect_counts(server, keyed, runs=1, effects=1)
    without = ask(path).but(key=None)
    expect_first(await server.send(without))
    expect_first(await server.send(without))
    await expect_counts(server, without, runs=2, effects=2)


cases(
    protected_with_a_key_only,
    {
        "where_a_key_is_optional_only_requests_with_one_are_protected": ("/optional",),
        "where_keys_are_counted_only_requests_with_one_are_protected": ("/counted",),
    },
)


@case
async def where_a_key_is_optional_a_malformed_one_is_refused_all_the_same(server: Server) -> None:
    asked = ask("/optional").but(key="short")
    expect_status(await server.send(asked), 400)
    await expect_counts(server, asked, runs=0, effects=0)


@case
async def where_keys_are_off_they_are_not_looked_at(server: Server) -> None:
    asked = ask("/off")
    expect_first(await server.send(asked))
    expect_first(await server.send(asked))
    expect_first(await server.send(asked.but(key='"malformed')))
    await expect_counts(server, asked, runs=3, effects=3)


@case
async def get_is_left_alone(server: Server) -> None:
    asked = Ask("/local", b"", ask().key, "none", method="GET")
    looks = [expect_first(await server.send(asked), 200).json.get("look") for _ in range(2)]
    expect(looks[0] != looks[1], f"the same key got the same look twice: {looks}")


@case
async def head_is_left_alone(server: Server) -> None:
    asked = Ask("/local", b"", ask().key, "none", method="HEAD")
    looks = [expect_first(await server.send(asked), 200).header("x-look") for _ in range(2)]
    expect(looks[0] != looks[1], f"the same key got the same look twice: {looks}")


@case
async def a_get_with_a_key_does_not_use_it_up(server: Server) -> None:
    asked = ask()
    expect_first(await server.send(Ask("/local", b"", asked.key, "none", method="GET")), 200)
    expect_first(await server.send(asked))


@case
async def a_path_that_is_not_there_does_not_use_a_key_up(server: Server) -> None:
    asked = ask()
    expect_first(await server.send(asked.but(path="/nowhere")), 404)
    expect_first(await server.send(asked))


@case
async def a_method_that_is_not_allowed_does_not_use_a_key_up(server: Server) -> None:
    asked = ask()
    expect_first(await server.send(asked.but(method="DELETE")), 405)
    expect_first(await server.send(asked))
