"""`surefoot idempotency`, as operators run it: what became of a key, which are stuck, and what bad input is told."""

import json
from dataclasses import replace
from datetime import timedelta

import asyncpg
import pytest

from surefoot.idempotency.fingerprint import key_hash
from surefoot.idempotency.store import Store
from surefoot.idempotency.values import Answer, Asked, Effect, Note
from tests.support.command_line import assert_says, surefoot
from tests.support.idempotency.store_requests import CREATED, DECLINED, asked, begun, end_lease, kept
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

KEY = "8e03978e-40d5-43dd-bc93-6894a57f9324"


def request(key: str = KEY, effect: Effect = "outside", tenant: str = "shop", route: str = "POST /v1/charges") -> Asked:
    return replace(asked(effect=effect, tenant=tenant), key_hash=key_hash(tenant, key), route=route)


async def pay(store: Store, wanted: Asked, answer: Answer = CREATED) -> None:
    """A charge, from the claim to its answer."""
    claim = await kept(store, wanted, id="ch_1", created_at="2026-03-01T12:00:00Z")
    async with store.phase(claim, "charge_created") as unit:
        unit.result = {"card": "secret of the phase"}
    await store.note(claim, Note("called", {"call": "capture"}))
    await store.complete(claim, answer, "COMPLETED" if answer.status < 400 else "FAILED_TERMINAL")


# -- show --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [KEY, f'"{KEY}"'])
async def test_a_key_is_shown_with_all_that_became_of_it_and_without_bodies(
    database_url: str, store: Store, given: str
) -> None:
    await pay(store, request())

    done = await surefoot("idempotency", "show", given, "--tenant", "shop", "--database", database_url)

    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("POST /v1/charges of shop: answered 201\n")
    assert f"key hash {key_hash('shop', KEY).hex()}\n" in done.out
    assert "state COMPLETED, effect outside, attempts 1, fence 1\n" in done.out
    assert "resource ch_1\n" in done.out
    assert "minted\nid: ch_1\ncreated_at: 2026-03-01T12:00:00Z\n" in done.out
    assert "  charge_created\n" in done.out
    assert "under provider-key-1: 1, since " in done.out
    assert ", closed " in done.out
    assert [line.split("  ")[2] for line in done.out.splitlines() if "  fence 1  " in line] == [
        "claimed", "phase", "called", "stored",
    ]  # fmt: skip
    assert KEY not in done.out
    for body in ('ch_1"}', "secret of the phase", "4242"):
        assert body not in done.out


async def test_a_key_is_found_by_its_hash_and_its_answer_shown_where_it_is_asked_for(
    database_url: str, store: Store
) -> None:
    await pay(store, request())

    done = await surefoot(
        "idempotency", "show", key_hash("shop", KEY).hex().upper(), "--answer", "--database", database_url
    )

    assert done.code == 0
    told = 'answer\n201\ncontent-type: application/json\nlocation: /v1/charges/1\n{"id": "ch_1"}\n'
    assert done.out.endswith(told)


async def test_a_key_is_told_to_programs_as_json(database_url: str, store: Store) -> None:
    await pay(store, request(), DECLINED)
    command = ("idempotency", "show", KEY, "--tenant", "shop", "--json", "--database", database_url)

    without = json.loads((await surefoot(*command)).out)
    told = json.loads((await surefoot(*command, "--answer")).out)

    assert without["answer"] is None
    assert told["answer"] == {
        "status": 402,
        "headers": [["content-type", "application/json"]],
        "body": "eyJ3aHkiOiAiZGVjbGluZWQifQ==",
    }
    assert told["key"]["state"] == "FAILED_TERMINAL"
    assert told["key"]["minted"] == {"id": "ch_1", "created_at": "2026-03-01T12:00:00Z"}
    assert [phase["name"] for phase in told["phases"]] == ["charge_created"]
    assert told["pending_call"]["provider_key"] == "provider-key-1"
    assert [line["what"] for line in told["history"]] == ["claimed", "phase", "called", "stored"]


async def test_an_answer_that_is_no_text_and_one_that_is_not_there_are_told_apart(
    database_url: str, store: Store
) -> None:
    await pay(store, request(), Answer(200, (("content-type", "image/png"),), b"\x89PNG\xff"))
    await kept(store, request("another-key-0123456789"))

    image = await surefoot("idempotency", "show", KEY, "--tenant", "shop", "--answer", "--database", database_url)
    none = await surefoot(
        "idempotency", "show", "another-key-0123456789", "--tenant", "shop", "--answer", "--database", database_url
    )

    assert image.out.endswith("(not text; 5 bytes in Base64)\niVBOR/8=\n")
    assert "in flight, its lease ends in " in none.out
    assert "answered never" in none.out
    assert ", open\n" in none.out
    assert none.out.endswith("answer\n(none is stored)\n")


async def test_what_is_left_of_a_deleted_key_is_its_history(database_url: str, store: Store) -> None:
    await store.forget(await kept(store, request()))

    done = await surefoot("idempotency", "show", KEY, "--tenant", "shop", "--database", database_url)

    assert done.code == 0
    assert done.out.startswith("The key is not there any more; this is what has happened to it.\nhistory\n")
    assert done.out.splitlines()[-1].endswith("forgotten")


async def test_what_would_steer_a_terminal_is_not_printed(database_url: str, store: Store) -> None:
    claim = await kept(store, request(), id="\x1b]0;owned\x07")
    await store.fail(claim, error="It failed \x1b[31mred", unknown=True, retry_in=timedelta(minutes=5))

    done = await surefoot("idempotency", "show", KEY, "--tenant", "shop", "--database", database_url)

    assert "failed, tried again in 5 min; its outcome is unknown" in done.out
    assert "\x1b" not in done.out
    assert "\x07" not in done.out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("show", KEY), "Say whose key it is, with --tenant; or give its hash"),
        (("show", KEY, "--tenant", "shop"), "Nothing is known of this key of 'shop': it was never used here"),
        (("show", "0" * 64), "Nothing is known of this key: it was never used here"),
        (("show", "short", "--tenant", "shop"), "'short' cannot be a key. Idempotency-Key has 5 characters"),
        (("show", '"unclosed-0123456789', "--tenant", "shop"), "is not a text in double quotes"),
        (("show", "", "--tenant", "shop"), "Idempotency-Key is empty"),
        (("show", "\udcff" * 20, "--tenant", "shop"), "not visible ASCII"),
        (("list", "--state", "done"), "'done' is not a state. Choose one of IN_FLIGHT, COMPLETED"),
        (("list", "--schema", "no; drop"), "schema"),
        (("stuck", "--schema", "elsewhere"), "surefoot migrate"),
    ],
)
async def test_what_cannot_be_done_is_said_in_a_sentence(
    database_url: str, arguments: tuple[str, ...], sentence: str
) -> None:
    assert_says(await surefoot("idempotency", *arguments, "--database", database_url), sentence)


async def test_a_database_that_is_away_or_not_given_is_said_in_a_sentence() -> None:
    away = await surefoot("idempotency", "list", "--database", "postgresql://nobody@127.0.0.1:1/none")
    assert_says(away, "does not answer")
    assert_says(await surefoot("idempotency", "list"), "No database was given")


# -- list and stuck ----------------------------------------------------------------------------------------------------


async def test_keys_are_listed_newest_first_and_filtered(
    database_url: str, store: Store, connection: asyncpg.Connection
) -> None:
    await pay(store, request("the-first-key-0123456789"))
    await pay(store, request("the-second-key-0123456789", tenant="café [x]"), DECLINED)
    async with await begun(
        store, request("the-third-key-0123456789", effect="local", route="POST /v1/transfers")
    ) as one:
        await one.finish(CREATED, "COMPLETED")
    failed = await kept(store, request("the-fourth-key-0123456789"))
    await store.fail(failed, error="The provider said nothing.", unknown=True, retry_in=timedelta(0))

    async def listed(*arguments: str) -> str:
        done = await surefoot("idempotency", "list", *arguments, "--database", database_url)
        assert (done.code, done.err) == (0, "")
        return done.out

    everything = await listed()
    assert [line for line in everything.splitlines() if not line.startswith(" ")] == [
        "POST /v1/charges  shop  failed, tried again now; its outcome is unknown",
        "POST /v1/transfers  shop  answered 201",
        "POST /v1/charges  café [x]  answered 402, a failure that stays",
        "POST /v1/charges  shop  answered 201",
    ]
    assert f"  {failed.asked.key_hash.hex()}  " in everything
    assert "  The provider said nothing.\n" in everything
    assert everything.count("reached charge_created") == 2
    assert (await listed("--tenant", "café [x]")).count("POST") == 1
    assert (await listed("--state", "completed")).count("POST") == 2
    assert (await listed("--state", "failed-terminal")).count("POST") == 1
    assert (await listed("--route", "POST /v1/transfers", "--state", "COMPLETED")).count("POST") == 1
    assert await listed("--tenant", "nobody") == "No key fits.\n"
    assert (await listed("--limit", "2")).endswith("There may be more: these are the first 2 (see --limit).\n")
    told = json.loads(await listed("--json", "--limit", "1"))
    assert [(line["state"], line["outcome_unknown"], line["status"]) for line in told] == [("FAILED_RETRY", True, None)]


async def test_what_is_stuck_is_listed_and_what_is_worked_on_is_not(
    database_url: str, store: Store, connection: asyncpg.Connection
) -> None:
    async def listed(*arguments: str) -> str:
        done = await surefoot("idempotency", "stuck", *arguments, "--database", database_url)
        assert (done.code, done.err) == (0, "")
        return done.out

    await kept(store, request("worked-on-0123456789"))
    await pay(store, request("answered-0123456789"))
    assert await listed() == "Nothing is stuck.\n"
    assert await listed("--json") == "[]\n"

    abandoned = await kept(store, request("abandoned-0123456789"))
    await end_lease(connection, abandoned.asked)
    unknown = await kept(store, request("unknown-0123456789"))
    await store.fail(unknown, error="Nobody knows.", unknown=True, retry_in=None)

    lines = (await listed()).splitlines()
    assert lines[0] == "POST /v1/charges  shop  in flight, its lease ended 60 min ago"
    assert abandoned.asked.key_hash.hex() in lines[1]
    assert lines[2] == "POST /v1/charges  shop  failed, not tried again by itself; its outcome is unknown"
    assert unknown.asked.key_hash.hex() in lines[3]
    assert len(json.loads(await listed("--json", "--limit", "1"))) == 1


# -- verify -----------------------------------------------------------------------------------------------------------


async def paid_and_sealed(store: Store) -> int:
    """Four lines, and how many seals are over them: lines are sealed when they are a second old, not all at once."""
    await pay(store, request())
    made: list[int] = []

    async def all_of_them() -> bool:
        made.append(await store.seal())
        return sum(made) == 4

    await eventually(all_of_them, what="the lines are old enough to be sealed")
    return sum(1 for count in made if count)


async def test_a_history_that_is_whole_is_said_to_be_and_has_a_head(database_url: str, store: Store) -> None:
    nothing = await surefoot("idempotency", "verify", "--database", database_url)
    assert (nothing.code, nothing.out) == (0, "Nothing of the history is sealed yet: there is nothing to check.\n")
    seals = await paid_and_sealed(store)

    done = await surefoot("idempotency", "verify", "--database", database_url)

    assert done.code == 0
    first, second, third = done.out.splitlines()
    assert first == f"✓ The history is whole: {seals} seals over 4 lines."
    assert second.startswith(f"Its head: {seals}:")
    assert third.endswith("written down earlier: --head.")
    head = second.removeprefix("Its head: ")
    again = await surefoot("idempotency", "verify", "--head", head, "--json", "--database", database_url)
    told = json.loads(again.out)
    assert (again.code, told["is_whole"], told["rows"], told["head"]) == (0, True, 4, [seals, head.partition(":")[2]])


async def test_a_history_that_somebody_was_at_ends_with_exit_code_1(
    database_url: str, store: Store, connection: asyncpg.Connection
) -> None:
    await paid_and_sealed(store)
    await connection.execute("ALTER TABLE surefoot.idempotency_history DISABLE TRIGGER ALL")
    await connection.execute("UPDATE surefoot.idempotency_history SET what = 'replayed' WHERE what = 'called'")

    done = await surefoot("idempotency", "verify", "--database", database_url)
    as_json = await surefoot("idempotency", "verify", "--json", "--database", database_url)

    assert done.code == as_json.code == 1
    assert done.out.startswith("✗ Seal ")
    assert "a line, or the seal, was changed" in done.out
    assert json.loads(as_json.out)["is_whole"] is False


async def test_a_head_that_is_not_there_any_more_ends_with_exit_code_1(database_url: str, store: Store) -> None:
    await paid_and_sealed(store)

    longer = await surefoot("idempotency", "verify", "--head", f"9:{'ab' * 32}", "--database", database_url)
    other = await surefoot("idempotency", "verify", "--head", f"1:{'AB' * 32}", "--database", database_url)

    assert longer.code == other.code == 1
    assert "the end of the history was removed" in longer.out
    assert "is not the one that was written down" in other.out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--head", "1"), "'1' is no head. Write it as"),
        (("--head", f"0:{'ab' * 32}"), "is no head"),
        (("--schema", "elsewhere"), "surefoot migrate"),
        (("--database", "postgresql://nobody@127.0.0.1:1/none"), "127.0.0.1:1"),
    ],
)
async def test_a_history_that_cannot_be_checked_is_said_in_a_sentence(
    database_url: str, arguments: tuple[str, ...], sentence: str
) -> None:
    assert_says(await surefoot("idempotency", "verify", "--database", database_url, *arguments), sentence)


async def test_a_setting_that_cannot_be_used_is_named(database_url: str) -> None:
    wrong = {"SUREFOOT_IDEMPOTENCY_KEEP_HISTORY": "long"}

    done = await surefoot("idempotency", "verify", "--database", database_url, environment=wrong)

    assert_says(done, "SUREFOOT_IDEMPOTENCY_KEEP_HISTORY cannot be used")
