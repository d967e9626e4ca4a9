"""What a key may look like, and what is refused."""

from tests.blackbox.idempotency.asking import ask, new_key
from tests.blackbox.idempotency.case import (
    case,
    cases,
    expect,
    expect_again,
    expect_counts,
    expect_first,
    expect_problem,
    expect_status,
)
from tests.blackbox.idempotency.server import Server
from tests.blackbox.idempotency.wire import dialled, head, sized

SAME = new_key().encode()


async def accepted(server: Server, key: str) -> None:
    asked = ask().but(key=key)
    first = expect_first(await server.send(asked))
    expect_again(first, await server.send(asked))
    await expect_counts(server, asked, runs=1, effects=1)


async def refused(server: Server, key: str | bytes | None, path: str = "/local") -> None:
    asked = ask(path).but(key=key)
    expect_status(await server.send(asked), 400)
    await expect_counts(server, asked, runs=0, effects=0)


async def refused_on_the_wire(server: Server, *keys: bytes) -> None:
    """For lines that a client would not send."""
    asked = ask().but(key=None)
    content = asked.content()
    async with dialled(server) as line:
        lines = [(b"Idempotency-Key", key) for key in keys]
        await line.say(head(server, asked, *lines, sized(content)), content)
        status = await line.status(server.target.patience_s)
    expect(status == 400, f"it was answered with {status}")
    await expect_counts(server, asked, runs=0, effects=0)


cases(
    accepted,
    {
        "a_quote_in_a_quoted_key_is_escaped": (f'"{new_key()}\\"\\\\"',),
        "sixteen_characters_are_enough": (new_key(16),),
        "two_hundred_and_fifty_five_characters_are_not_too_many": (new_key(255),),
    },
)
cases(
    refused,
    {
        "fifteen_characters_are_refused": (new_key(15),),
        "fifteen_characters_in_quotes_are_refused": (f'"{new_key(15)}"',),
        "two_hundred_and_fifty_six_characters_are_refused": (new_key(256),),
        "a_header_without_a_key_is_refused": ("",),
        "an_empty_string_as_key_is_refused": ('""',),
        "a_quote_that_is_not_closed_is_refused": (f'"{new_key()}',),
        "something_behind_the_closing_quote_is_refused": (f'"{new_key()}" {new_key()}',),
        "a_key_with_a_space_in_it_is_refused": (f"{new_key(20)} {new_key(20)}",),
        "two_keys_in_one_line_are_refused": (f"{new_key()}, {new_key()}",),
        "a_key_that_is_not_ascii_is_refused": (f"{new_key(20)}-ключ-é".encode(),),
        "a_request_without_a_key_is_refused_where_one_is_required": (None,),
        "an_outside_request_without_a_key_is_refused_where_one_is_required": (None, "/outside"),
    },
)
cases(
    refused_on_the_wire,
    {
        "a_control_character_in_a_key_is_refused": (new_key(20).encode() + b"\x01" + new_key(20).encode(),),
        "two_lines_with_different_keys_are_refused": (new_key().encode(), new_key().encode()),
        "two_lines_with_the_same_key_are_refused": (SAME, SAME),
    },
)


@case
async def a_key_in_quotes_and_without_are_the_same_key(server: Server) -> None:
    asked = ask()
    first = expect_first(await server.send(asked))
    expect_again(first, await server.send(asked.but(key=f'"{asked.key!s}"')))


@case
async def parameters_of_a_quoted_key_are_not_part_of_it(server: Server) -> None:
    asked = ask()
    first = expect_first(await server.send(asked))
    expect_again(first, await server.send(asked.but(key=f'"{asked.key!s}";sent=2')))


@case
async def large_and_small_letters_make_different_keys(server: Server) -> None:
    small = ask().but(key="a" + new_key())
    assert isinstance(small.key, str)
    expect_first(await server.send(small))
    expect_first(await server.send(small.but(key=small.key.upper())))


@case
async def the_name_of_the_header_may_be_written_in_any_case(server: Server) -> None:
    asked = ask()
    first = expect_first(await server.send(asked))
    again = asked.but(key=None, headers={"IDEMPOTENCY-key": str(asked.key)})
    expect_again(first, await server.send(again))


@case
async def a_missing_key_and_a_malformed_one_are_different_problems(server: Server) -> None:
    missing = expect_problem(await server.send(ask().but(key=None)), 400)
    malformed = expect_problem(await server.send(ask().but(key="short")), 400)
    expect(missing.json["type"] != malformed.json["type"], f"both are {missing.json['type']}")
