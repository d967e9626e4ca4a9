"""A repeated request gets the same bytes again, and takes effect once."""

from tests.blackbox.idempotency.asking import Ask, ask
from tests.blackbox.idempotency.case import (
    case,
    cases,
    expect,
    expect_again,
    expect_counts,
    expect_first,
    expect_same_headers,
)
from tests.blackbox.idempotency.reply import Reply
from tests.blackbox.idempotency.server import Server, connected


async def twice(server: Server, asked: Ask, status: int = 201) -> tuple[Reply, Reply]:
    first = expect_first(await server.send(asked), status)
    again = await server.send(asked)
    expect_again(first, again)
    return first, again


async def all_the_same(server: Server, path: str) -> None:
    first, again = await twice(server, ask(path))
    expect_same_headers(first, again)


async def five_times(server: Server, path: str) -> None:
    asked = ask(path)
    for _ in range(5):
        await server.send(asked)
    await expect_counts(server, asked, runs=1, effects=1)


for effect in ("local", "outside"):
    cases(all_the_same, {f"{effect}_requests_sent_again_get_the_same_bytes": (f"/{effect}",)})
    cases(five_times, {f"{effect}_requests_sent_five_times_take_effect_once": (f"/{effect}",)})


@case
async def the_first_answer_is_not_called_a_replay_and_every_later_one_is(server: Server) -> None:
    asked = ask()
    said = [(await server.send(asked)).replayed for _ in range(3)]
    expect(said == [None, "true", "true"], f"the header said {said}")


@case
async def id_and_time_that_were_minted_are_the_same(server: Server) -> None:
    first, again = await twice(server, ask("/outside"))
    minted = [(reply.json.get("id"), reply.json.get("at")) for reply in (first, again)]
    expect(None not in minted[0] and minted[0] == minted[1], f"minted were {minted}")


@case
async def the_location_is_given_again(server: Server) -> None:
    first, again = await twice(server, ask())
    expect(bool(first.header("location")), "the first answer had no Location, as it should")
    expect(again.header("location") == first.header("location"), f"the Location is {again.header('location')!r}")


@case
async def a_header_that_was_set_twice_is_given_again_twice(server: Server) -> None:
    first, again = await twice(server, ask())
    expect(len(first.all("link")) == 2, f"the first answer should have two Link lines: {first.headers}")
    expect(again.all("link") == first.all("link"), f"the Link lines are {again.all('link')}")


@case
async def a_cookie_is_not_given_again(server: Server) -> None:
    first, again = await twice(server, ask())
    expect(len(first.cookies) == 1, "the first answer should set a cookie")
    expect(again.cookies == (), f"the replay sets {again.cookies}")


@case
async def json_with_spaces_of_its_own_is_given_again_as_it_was(server: Server) -> None:
    first, _ = await twice(server, ask(kind="spaced"))
    expect(b'"amount":   100.0' in first.body, f"the body should have spaces of its own: {first}")


@case
async def an_answer_that_is_text_is_given_again(server: Server) -> None:
    first, _ = await twice(server, ask(kind="text"))
    expect(first.header("content-type").startswith("text/html"), f"the answer should be text/html: {first.headers}")


@case
async def an_answer_that_is_binary_is_given_again(server: Server) -> None:
    first, _ = await twice(server, ask(kind="binary"))
    expect(bytes(range(256)) in first.body, "the answer should have every byte in it")


@case
async def an_answer_without_a_body_is_given_again(server: Server) -> None:
    asked = ask(kind="empty", status=204)
    await twice(server, asked, 204)
    await expect_counts(server, asked, runs=1, effects=1)


@case
async def a_redirect_is_given_again(server: Server) -> None:
    first, _ = await twice(server, ask(kind="redirect", status=303), 303)
    expect(bool(first.header("location")), "the redirect should have a Location")


@case
async def another_connection_gets_the_same_answer(server: Server) -> None:
    asked = ask()
    first = expect_first(await server.send(asked))
    async with connected(server.target) as other:
        expect_again(first, await other.send(asked))


@case
async def the_connection_can_be_used_on_after_a_replay(server: Server) -> None:
    asked, other = ask(), ask()
    await twice(server, asked)
    expect_first(await server.send(other))
    expect((await server.send(asked)).replayed == "true", "the replay should come again")
