"""`surefoot idempotency`: what became of a key, what is stuck, if the history is whole, and what bad input is told."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import asyncpg
import pytest

from surefoot.cli.main import main
from surefoot.idempotency.http.fingerprint import key_hash
from surefoot.idempotency.store import Store
from surefoot.idempotency.values import Answer, Asked, Effect, Note
from tests.support.command_line import assert_says, surefoot
from tests.support.idempotency.store_requests import CREATED, DECLINED, asked, begun, end_lease, kept
from tests.support.processes import Done
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

KEY = "8e03978e-40d5-43dd-bc93-6894a57f9324"
SHOP = ("--tenant", "shop")
AWAY = "postgresql://nobody@127.0.0.1:1/none"
Told = Callable[..., Awaitable[Done]]


@pytest.fixture
def told(database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Told:
    """Commands given within the test's own process, in a thread: they run an event loop of their own."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")

    def run(name: str, arguments: tuple[str, ...]) -> Done:
        words = ["surefoot", "idempotency", name, "--database", database_url, *arguments]
        monkeypatch.setattr(sys, "argv", words)
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = int(str(ended.code or 0))
        return Done(code, *capsys.readouterr())

    async def given(name: str, *arguments: str) -> Done:
        return await asyncio.to_thread(run, name, arguments)

    return given


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


async def test_a_key_is_shown_with_all_that_became_of_it_and_without_bodies(told: Told, store: Store) -> None:
    await pay(store, request())

    done = await told("show", KEY, *SHOP)

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
    for hidden in (KEY, 'ch_1"}', "secret of the phase", "4242"):
        assert hidden not in done.out
    assert (await told("show", f'"{KEY}"', *SHOP)).out == done.out


async def test_a_key_is_found_by_its_hash_and_its_answer_shown_where_it_is_asked_for(told: Told, store: Store) -> None:
    await pay(store, request())

    done = await told("show", key_hash("shop", KEY).hex().upper(), "--answer")

    assert done.code == 0
    said = 'answer\n201\ncontent-type: application/json\nlocation: /v1/charges/1\n{"id": "ch_1"}\n'
    assert done.out.endswith(said)


async def test_a_key_is_told_to_programs_as_json(told: Told, store: Store) -> None:
    await pay(store, request(), DECLINED)

    without = json.loads((await told("show", KEY, *SHOP, "--json")).out)
    shown = json.loads((await told("show", KEY, *SHOP, "--json", "--answer")).out)

    assert without["answer"] is None
    assert shown["answer"] == {
        "status": 402,
        "headers": [["content-type", "application/json"]],
        "body": "eyJ3aHkiOiAiZGVjbGluZWQifQ==",
    }
    assert shown["key"]["state"] == "FAILED_TERMINAL"
    assert shown["key"]["minted"] == {"id": "ch_1", "created_at": "2026-03-01T12:00:00Z"}
    assert [phase["name"] for phase in shown["phases"]] == ["charge_created"]
    assert shown["pending_call"]["provider_key"] == "provider-key-1"
    assert [line["what"] for line in shown["history"]] == ["claimed", "phase", "called", "stored"]


async def test_odd_answers_odd_texts_and_what_is_left_of_a_deleted_key_are_shown(told: Told, store: Store) -> None:
    await pay(store, request(), Answer(200, (("content-type", "image/png"),), b"\x89PNG\xff"))
    await kept(store, request("unanswered-key-0123456789"))
    await store.forget(await kept(store, request("forgotten-key-0123456789")))
    odd = await kept(store, request("failed-key-0123456789"), id="\x1b]0;owned\x07")
    await store.fail(odd, error="It failed \x1b[31mred", unknown=True, retry_in=timedelta(minutes=5))

    image = await told("show", KEY, *SHOP, "--answer")
    unanswered = await told("show", "unanswered-key-0123456789", *SHOP, "--answer")
    forgotten = await told("show", "forgotten-key-0123456789", *SHOP)
    failed = await told("show", "failed-key-0123456789", *SHOP)

    assert image.out.endswith("(not text; 5 bytes in Base64)\niVBOR/8=\n")
    for said in ("in flight, its lease ends in ", "answered never", ", open\n", "answer\n(none is stored)\n"):
        assert said in unanswered.out
    assert forgotten.code == 0
    assert forgotten.out.startswith("The key is not there any more; this is what has happened to it.\nhistory\n")
    assert forgotten.out.splitlines()[-1].endswith("forgotten")
    assert "failed, tried again in 5 min; its outcome is unknown" in failed.out
    assert [steering for steering in "\x1b\x07" if steering in failed.out] == []


async def test_what_cannot_be_done_is_said_in_a_sentence(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments, sentence in {
        ("show", KEY): "Say whose key it is, with --tenant; or give its hash",
        ("show", KEY, *SHOP): "Nothing is known of this key of 'shop': it was never used here",
        ("show", "0" * 64): "Nothing is known of this key: it was never used here",
        ("show", "short", *SHOP): "'short' cannot be a key. Idempotency-Key has 5 characters",
        ("show", '"unclosed-0123456789', *SHOP): "is not a text in double quotes",
        ("show", "", *SHOP): "Idempotency-Key is empty",
        ("show", "\udcff" * 20, *SHOP): "not visible ASCII",
        ("list", "--state", "done"): "'done' is not a state. Choose one of IN_FLIGHT, COMPLETED",
        ("list", "--schema", "no; drop"): "schema",
        ("list", "--database", AWAY): "does not answer",
        ("stuck", "--schema", "elsewhere"): "surefoot migrate",
        ("verify", "--head", "1"): "'1' is no head. Write it as",
        ("verify", "--head", f"0:{'ab' * 32}"): "is no head",
        ("verify", "--schema", "elsewhere"): "surefoot migrate",
        ("verify", "--database", AWAY): "127.0.0.1:1",
    }.items():
        assert_says(await told(*arguments), sentence)
    monkeypatch.setenv("SUREFOOT_IDEMPOTENCY_KEEP_HISTORY", "long")
    assert_says(await told("verify"), "SUREFOOT_IDEMPOTENCY_KEEP_HISTORY cannot be used")


async def test_without_a_database_a_process_of_its_own_says_so() -> None:
    assert_says(await surefoot("idempotency", "list"), "No database was given")


# -- list and stuck ----------------------------------------------------------------------------------------------------


async def test_keys_are_listed_newest_first_and_filtered(told: Told, store: Store) -> None:
    await pay(store, request("the-first-key-0123456789"))
    await pay(store, request("the-second-key-0123456789", tenant="café [x]"), DECLINED)
    transfer = request("the-third-key-0123456789", effect="local", route="POST /v1/transfers")
    async with await begun(store, transfer) as one:
        await one.finish(CREATED, "COMPLETED")
    failed = await kept(store, request("the-fourth-key-0123456789"))
    await store.fail(failed, error="The provider said nothing.", unknown=True, retry_in=timedelta(0))

    async def listed(*arguments: str) -> str:
        done = await told("list", *arguments)
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
    (line,) = json.loads(await listed("--json", "--limit", "1"))
    assert (line["state"], line["outcome_unknown"], line["status"]) == ("FAILED_RETRY", True, None)


async def test_what_is_stuck_is_listed_and_what_is_worked_on_is_not(
    told: Told, store: Store, connection: asyncpg.Connection
) -> None:
    await kept(store, request("worked-on-0123456789"))
    await pay(store, request("answered-0123456789"))
    assert (await told("stuck")).out == "Nothing is stuck.\n"
    assert (await told("stuck", "--json")).out == "[]\n"

    abandoned = await kept(store, request("abandoned-0123456789"))
    await end_lease(connection, abandoned.asked)
    unknown = await kept(store, request("unknown-0123456789"))
    await store.fail(unknown, error="The outcome is unknown.", unknown=True, retry_in=None)

    done = await told("stuck")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "POST /v1/charges  shop  in flight, its lease ended 60 min ago"
    assert abandoned.asked.key_hash.hex() in lines[1]
    assert lines[2] == "POST /v1/charges  shop  failed, not tried again by itself; its outcome is unknown"
    assert unknown.asked.key_hash.hex() in lines[3]
    assert len(json.loads((await told("stuck", "--json", "--limit", "1")).out)) == 1


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


async def test_a_history_is_verified_and_what_was_changed_ends_with_exit_code_1(
    told: Told, store: Store, connection: asyncpg.Connection
) -> None:
    nothing = await told("verify")
    assert (nothing.code, nothing.out) == (0, "Nothing of the history is sealed yet: there is nothing to check.\n")
    seals = await paid_and_sealed(store)

    done = await told("verify")
    assert done.code == 0
    first, second, third = done.out.splitlines()
    assert first == f"✓ The history is whole: {seals} seals over 4 lines."
    assert second.startswith(f"Its head: {seals}:")
    assert third.endswith("written down earlier: --head.")
    head = second.removeprefix("Its head: ")
    again = await told("verify", "--head", head, "--json")
    whole = json.loads(again.out)
    assert (again.code, whole["is_whole"], whole["rows"]) == (0, True, 4)
    assert whole["head"] == [seals, head.partition(":")[2]]

    longer, other = await told("verify", "--head", f"9:{'ab' * 32}"), await told("verify", "--head", f"1:{'AB' * 32}")
    assert longer.code == other.code == 1
    assert "the end of the history was removed" in longer.out
    assert "is not the one that was written down" in other.out

    await connection.execute("ALTER TABLE surefoot.idempotency_history DISABLE TRIGGER ALL")
    await connection.execute("UPDATE surefoot.idempotency_history SET what = 'replayed' WHERE what = 'called'")
    changed, as_json = await told("verify"), await told("verify", "--json")
    assert changed.code == as_json.code == 1
    assert changed.out.startswith("✗ Seal ")
    assert "a line, or the seal, was changed" in changed.out
    assert json.loads(as_json.out)["is_whole"] is False
