"""Pages of dead letters: every filter, in an order that stays, whatever comes and goes meanwhile."""

import random
from datetime import timedelta
from typing import Any, cast

import asyncpg
import pytest

from surefoot.database.connection import Connection
from surefoot.dlq.letters.filters import STATUSES, Filter
from surefoot.dlq.letters.looking import Looking
from surefoot.dlq.letters.pages import BadCursor
from surefoot.dlq.letters.views import Counts
from tests.support.dlq.letter_rows import NOON, insert, letter

# Six letters that differ in everything one can ask for. Two share a group that nobody foresaw: a foreign consumer made
# its fingerprints by another rule.
LETTERS: list[dict[str, Any]] = [
    {"consumer": "warehouse", "fingerprint": "a", "status": "OPEN"},
    {"consumer": "warehouse", "fingerprint": "a", "status": "REPLAYED", "reason": "out_of_attempts"},
    {"consumer": "shipping", "fingerprint": "b", "status": "OPEN", "error_type": "Late", "saga_id": "s"},
    {"consumer": "shipping", "fingerprint": "mixed", "status": "OPEN", "event_type": None, "correlation_id": "flow"},
    {"consumer": "payment", "fingerprint": "mixed", "status": "DISCARDED", "error_type": "odd.Late", "key": "k"},
    {"consumer": "", "fingerprint": "c", "status": "OPEN", "reason": "unreadable_letter", "key": "k"},
]
SAME = {"saga_id": None, "correlation_id": None, "status": "OPEN"}


async def some_letters(connection: asyncpg.Connection) -> Looking:
    for number, changed in enumerate(LETTERS):
        await insert(cast(Connection, connection), [letter(number, **{**SAME, **changed})])
    return Looking(cast(Connection, connection), "surefoot")


async def numbers(looking: Looking, wanted: Filter, limit: int = 1) -> list[int]:
    """The letters of all pages, by number, in the order of the pages."""
    found: list[int] = []
    after = None
    while True:
        page = await looking.events(wanted, after, limit)
        assert len(page.events) <= limit
        found += [line.log_offset for line in page.events]
        after = page.next
        if after is None:
            return found


async def fingerprints(looking: Looking, wanted: Filter, limit: int = 1) -> list[str]:
    found: list[str] = []
    after = None
    while True:
        page = await looking.groups(wanted, after, limit)
        found += [group.fingerprint for group in page.groups]
        after = page.next
        if after is None:
            return found


FILTERS: list[tuple[dict[str, Any], list[int], list[str]]] = [
    ({}, [5, 4, 3, 2, 1, 0], ["c", "mixed", "b", "a"]),
    ({"consumer": "warehouse"}, [1, 0], ["a"]),
    ({"consumer": "shipping"}, [3, 2], ["mixed", "b"]),
    ({"consumer": "payment"}, [4], ["mixed"]),
    ({"consumer": ""}, [5], ["c"]),
    ({"consumer": "nobody"}, [], []),
    ({"event_type": "order.placed"}, [5, 4, 2, 1, 0], ["c", "mixed", "b", "a"]),
    ({"event_type": ""}, [3], ["mixed"]),
    ({"error": "NoSuchArticle"}, [5, 3, 1, 0], ["c", "mixed", "a"]),
    ({"error": "shop.errors.NoSuchArticle"}, [5, 3, 1, 0], ["c", "mixed", "a"]),
    ({"error": "Late"}, [4, 2], ["mixed", "b"]),
    ({"error": "rticle"}, [], []),
    ({"reason": "permanent"}, [4, 3, 2, 0], ["mixed", "b", "a"]),
    ({"reason": "out_of_attempts"}, [1], ["a"]),
    ({"fingerprint": "a"}, [1, 0], ["a"]),
    ({"fingerprint": "mixed"}, [4, 3], ["mixed"]),
    ({"key": "k"}, [5, 4], ["c", "mixed"]),
    ({"saga_id": "s"}, [2], ["b"]),
    ({"correlation_id": "flow"}, [3], ["mixed"]),
    ({"status": "OPEN"}, [5, 3, 2, 0], ["c", "mixed", "b", "a"]),
    ({"status": "DISCARDED"}, [4], ["mixed"]),
    ({"status": "REPLAYING"}, [], []),
    ({"failed_after": NOON + timedelta(seconds=3)}, [5, 4, 3], ["c", "mixed"]),
    ({"failed_before": NOON + timedelta(seconds=2)}, [1, 0], ["a"]),
    ({"failed_after": NOON + timedelta(seconds=1), "failed_before": NOON + timedelta(seconds=3)}, [2, 1], ["b", "a"]),
    ({"failed_before": NOON + timedelta(seconds=2), "status": "REPLAYED"}, [1], ["a"]),
    ({"consumer": "shipping", "status": "OPEN", "error": "Late"}, [2], ["b"]),
    ({"consumer": "shipping", "event_type": "order.placed", "fingerprint": "mixed"}, [], []),
    ({"key": "k", "consumer": "payment", "status": "DISCARDED"}, [4], ["mixed"]),
    ({"key": "order-0", "failed_after": NOON}, [0], ["a"]),
    ({"fingerprint": "a", "status": "DISCARDED"}, [], []),
    ({"key": "\x00"}, [], []),
    ({"consumer": "ware\x00house"}, [], []),
    ({"error": "'"}, [], []),
]


@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_every_filter_finds_its_letters_and_their_groups_newest_first(
    connection: asyncpg.Connection, limit: int
) -> None:
    looking = await some_letters(connection)
    for asked, expected, groups in FILTERS:
        wanted = Filter.model_validate(asked)
        assert (asked, await numbers(looking, wanted, limit)) == (asked, expected)
        assert (asked, await fingerprints(looking, wanted, limit)) == (asked, groups)


@pytest.mark.parametrize(
    "wanted", [Filter(), Filter(consumer="warehouse"), Filter(failed_after=NOON), Filter(status="OPEN")]
)
async def test_pages_stay_as_they_are_while_letters_come_and_go(connection: asyncpg.Connection, wanted: Filter) -> None:
    driver = cast(Connection, connection)
    await insert(driver, [letter(number) for number in range(10)])
    looking = Looking(driver, "surefoot")
    first = await looking.events(wanted, None, 4)

    await insert(driver, [letter(number) for number in (10, 11)])
    await connection.execute("DELETE FROM surefoot.dlq_events WHERE log_offset IN (6, 4)")
    second = await looking.events(wanted, first.next, 4)

    assert [line.log_offset for line in first.events] == [9, 8, 7, 6]  # and 6, where the page ended, is gone
    assert [line.log_offset for line in second.events] == [5, 3, 2, 1]


async def test_pages_of_groups_stay_as_they_are_while_groups_grow_and_begin(connection: asyncpg.Connection) -> None:
    driver = cast(Connection, connection)
    for number in range(4):
        await insert(driver, [letter(number, fingerprint=f"f{number}")])
    looking = Looking(driver, "surefoot")
    first = await looking.groups(Filter(), None, 2)

    await insert(driver, [letter(10, fingerprint="f0"), letter(11, fingerprint="f9")])
    second = await looking.groups(Filter(), first.next, 2)

    assert [group.fingerprint for group in first.groups] == ["f3", "f2"]
    assert [(group.fingerprint, group.total) for group in second.groups] == [("f1", 1), ("f0", 2)]
    assert second.next is None


async def test_letters_of_one_moment_are_all_on_some_page(connection: asyncpg.Connection) -> None:
    driver = cast(Connection, connection)
    await insert(driver, [letter(number, failed_at=NOON, fingerprint=f"f{number}") for number in range(7)])
    looking = Looking(driver, "surefoot")
    assert await numbers(looking, Filter(failed_after=NOON), 3) == [6, 5, 4, 3, 2, 1, 0]
    assert await fingerprints(looking, Filter(), 3) == ["f6", "f5", "f4", "f3", "f2", "f1", "f0"]


@pytest.mark.parametrize(
    ("wanted", "after"),
    [
        (Filter(), "nowhere"),
        (Filter(), ""),
        (Filter(), "1763294400000000_0192f0c1-0000-7000-8000-000000000001"),
        (Filter(failed_after=NOON), "0192f0c1-0000-7000-8000-000000000001"),
        (Filter(failed_after=NOON), "1_nowhere"),
        (Filter(consumer="warehouse"), "\x00"),
    ],
)
async def test_a_page_from_nowhere_is_refused_with_a_sentence(
    connection: asyncpg.Connection, wanted: Filter, after: str
) -> None:
    looking = Looking(cast(Connection, connection), "surefoot")
    with pytest.raises(BadCursor, match="must be the `next` of a page that was asked for by the same filter"):
        await looking.events(wanted, after, 10)


async def test_a_page_of_groups_from_nowhere_is_refused_too(connection: asyncpg.Connection) -> None:
    looking = Looking(cast(Connection, connection), "surefoot")
    for after in ("nowhere", "0192f0c1-0000-7000-8000-000000000001", "1_\x00"):
        with pytest.raises(BadCursor):
            await looking.groups(Filter(), after, 10)


async def test_a_group_says_what_its_letters_have_in_common_and_how_many_there_are(
    connection: asyncpg.Connection,
) -> None:
    looking = await some_letters(connection)
    found = await looking.group("a")
    assert found is not None
    assert (found.consumer, found.event_type, found.error_type) == (
        "warehouse",
        "order.placed",
        "shop.errors.NoSuchArticle",
    )
    assert (found.reason, found.sentence) == ("out_of_attempts", "There is no article 7.")
    assert (found.first_at, found.last_at) == (NOON, NOON + timedelta(seconds=1))
    assert (found.total, found.counts.open, found.counts.replayed, found.counts.discarded) == (2, 1, 1, 0)
    assert await looking.group("nothing") is None
    assert await looking.group("\x00") is None


def a_letter(chance: random.Random, number: int) -> dict[str, Any]:
    """Any of few values each, so that filters meet; the time has nothing to do with the order of taking in."""
    failed_at = NOON + timedelta(seconds=chance.randrange(60))
    group = chance.randrange(12)
    return letter(
        number,
        fingerprint=f"f{group}",
        consumer=f"c{group % 3}" if group < 9 else f"c{chance.randrange(3)}",  # the last ones are mixed
        event_type=chance.choice([None, "a", "b"]) if group == 11 else f"t{group % 2}",
        error_type=f"shop.E{group % 4}",
        reason="permanent" if chance.random() < 0.9 else "out_of_attempts",
        status=chance.choice(STATUSES),
        key=f"k{chance.randrange(5)}",
        saga_id=chance.choice([None, "s0", "s1"]),
        correlation_id=chance.choice([None, "f0", "f1"]),
        failed_at=failed_at,
        first_failed_at=failed_at,
    )


def a_filter(chance: random.Random) -> dict[str, Any]:
    asked = {
        "consumer": chance.choice(["c0", "c1", "c2", "c3"]),
        "event_type": chance.choice(["t0", "t1", "a", ""]),
        "error": chance.choice(["E0", "E1", "shop.E2", "E9"]),
        "reason": chance.choice(["permanent", "out_of_attempts"]),
        "fingerprint": f"f{chance.randrange(13)}",
        "key": f"k{chance.randrange(6)}",
        "saga_id": "s0",
        "correlation_id": "f1",
        "status": chance.choice(STATUSES),
        "failed_after": NOON + timedelta(seconds=chance.randrange(60)),
        "failed_before": NOON + timedelta(seconds=chance.randrange(60)),
    }
    return {name: asked[name] for name in chance.sample(list(asked), chance.choice([0, 1, 1, 2, 2, 3]))}


def is_meant(one: dict[str, Any], asked: dict[str, Any]) -> bool:
    """The filters once more, in words of Python."""
    for name, value in asked.items():
        match name:
            case "failed_after":
                fits = one["failed_at"] >= value
            case "failed_before":
                fits = one["failed_at"] < value
            case "error":
                fits = value in (one["error_type"], one["error_type"].removeprefix("shop."))
            case "event_type":
                fits = one["event_type"] == (value or None)
            case _:
                fits = one[name] == value
        if not fits:
            return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
async def test_whatever_is_asked_the_pages_have_just_those_letters_in_order(
    connection: asyncpg.Connection, seed: int
) -> None:
    chance = random.Random(seed)
    letters = [a_letter(chance, number) for number in range(200)]
    await insert(cast(Connection, connection), letters)
    looking = Looking(cast(Connection, connection), "surefoot")
    for _ in range(150):
        asked = a_filter(chance)
        meant = [one for one in letters if is_meant(one, asked)]
        of_time = "failed_after" in asked or "failed_before" in asked
        meant.sort(key=lambda one: (one["failed_at"] if of_time else NOON, one["id"]), reverse=True)
        wanted = Filter.model_validate(asked)
        found = await numbers(looking, wanted, chance.choice([3, 20, 200]))
        assert (asked, found) == (asked, [one["log_offset"] for one in meant])
        groups = await fingerprints(looking, wanted, chance.choice([2, 50]))
        assert (asked, sorted(groups)) == (asked, sorted({one["fingerprint"] for one in meant}))


def test_every_status_has_a_count() -> None:
    assert [status.lower() for status in STATUSES] == list(Counts.model_fields)
