"""`surefoot saga list|show`, as operators run it: a plain sentence first, and what they can do about it."""

import base64
import json
import re

import pytest

from surefoot.consumer_runtime.parking import headers_json
from surefoot.events import encode, encode_data, new_event
from tests.support.command_line import assert_says
from tests.support.saga.stored_sagas import Ground, captured, pickup, placement, saga

pytestmark = pytest.mark.slow


async def test_the_list_begins_with_those_stuck_and_says_what_each_waits_for(ground: Ground) -> None:
    nothing = await saga(ground, "list")
    assert (nothing.code, nothing.out) == (0, "No saga is under way.\n")
    running = await ground.order_with_stock("order [2]")
    stuck = await ground.stuck_order("order-1")
    undone = await ground.undone_order("order-3")

    done = await saga(ground, "list")
    lines = done.out.splitlines()
    assert lines[0] == "STUCK         order_placement  order-1  waits for confirm_order"
    assert lines[1].startswith(f"  {stuck}  began 20")
    assert lines[2] == "  confirm_order failed, and nobody knows whether it was done. The order book is closed."
    assert lines[3] == "RUNNING       order_placement  order [2]  waits for capture_payment"
    assert lines[4].startswith(f"  {running}  began 20")
    assert len(lines) == 5

    ended = await saga(ground, "list", "--status", "compensated")
    assert re.match(r"COMPENSATED   order_placement  order-3  ended 20.*Z\n", ended.out)
    assert undone in ended.out


async def test_the_list_is_narrowed(ground: Ground) -> None:
    running = await ground.order_with_stock("order-2")
    late = await ground.stuck_return("return-1")
    undone = await ground.undone_order("order-3")
    await ground.connection.execute(
        """UPDATE surefoot.saga_instances SET updated_at = now() - interval '11 minutes'
           WHERE saga_id = ANY ($1::uuid[])""",
        [running, late],
    )
    fresh = await ground.begin_order("order-4")

    async def found(*arguments: str) -> list[str]:
        return [one["saga_id"] for one in json.loads((await saga(ground, "list", "--json", *arguments)).out)]

    assert await found() == [late, running, fresh]
    assert await found("--slow", "10m") == [running]
    assert await found("--slow", "12m") == []
    assert await found("--type", "return_processing") == [late]
    assert await found("--step", "create_order") == [fresh]
    assert await found("--entity", "order-3") == [undone]
    limited = await saga(ground, "list", "--limit", "1")
    assert "There may be more: these are the first 1 (see --limit)." in limited.out
    assert (await saga(ground, "list", "--step", "other")).out == "There is no saga that fits.\n"
    assert_says(await saga(ground, "list", "--status", "broken"), "'broken' is not a status. Choose one of RUNNING, ")
    assert_says(await saga(ground, "list", "--slow", "10"), "'10' is no duration: write a number and s, m, h or d")


async def test_show_says_where_a_stuck_saga_stands_and_what_can_be_done(ground: Ground) -> None:
    saga_id = await ground.stuck_order("order-1")
    done = await saga(ground, "show", "order-1")
    lines = done.out.splitlines()
    assert done.code == 0
    assert re.fullmatch(
        r"The saga order_placement of order-1 is stuck since 20[^(]*Z \(\d+ s\): confirm_order failed, and nobody "
        r"knows whether it was done\. The order book is closed\. If confirm_order is answered after all, it goes on\.",
        lines[0],
    )
    assert lines[1:6] == [
        "You can:",
        f'  surefoot saga retry {saga_id} --step confirm_order --reason "…"',
        "      send its command once more, now, with as many attempts as it had at first",
        f'  surefoot saga skip {saga_id} --step confirm_order --reason "…"',
        "      take it as done, by your word, and go on",
    ]
    for part in (
        f"saga {saga_id}, definition order_placement version 1",
        '  reserve_stock    DONE     attempt 1 of 5  stock.reserved {"lines"',
        "  confirm_order    UNKNOWN  attempt 1 of 5\n",
        "  SENT     confirm_order    attempt 1  RUNNING\n",
        "  STUCK    confirm_order               RUNNING → STUCK  confirm_order failed",
        '"city": "Berlin"',
    ):
        assert part in done.out, part
    assert "parked" not in done.out


async def test_show_says_where_others_stand(ground: Ground) -> None:
    running = await ground.order_with_stock("order-2")
    first = (await saga(ground, "show", running)).out.splitlines()
    assert "is running since" in first[0]
    assert "for capture_payment to be done (attempt 1 of 5); its command waits for a relay" in first[0]
    verbs = [line.split()[2] for line in first if line.startswith("  surefoot saga")]
    assert verbs == ["pause", "retry", "skip", "compensate"]
    assert f"surefoot saga skip {running} --step capture_payment --result '{{…}}' --reason" in "\n".join(first)

    await ground.stuck_return("return-1")
    late = (await saga(ground, "show", "return-1")).out
    assert "pickup did not come in time. If pickup comes after all, it goes on." in late
    assert "wait once more, until the deadline" in late

    await ground.undone_order("order-3")
    ended = (await saga(ground, "show", "order-3")).out
    assert "was undone completely by 20" in ended
    assert "Nothing can be done to it any more, and nothing has to be." in ended


async def test_show_names_who_paused_it_and_what_is_held(ground: Ground) -> None:
    saga_id = await ground.order_with_stock("order-1")
    paused = await saga(ground, "pause", saga_id, "--by", "Ada", "--reason", "the bank is away")
    assert paused.out == (
        "Paused. It waits for capture_payment; what comes is held until it is resumed. Your reason is in its history.\n"
    )
    await ground.reply(saga_id, captured("order-1"))
    first = (await saga(ground, "show", saga_id)).out.splitlines()[0]
    assert re.search(r"is paused since .*Z \(\d+ s\), by Ada: the bank is away\. It waits for capture_payment\.", first)
    assert first.endswith("What came meanwhile acts when it is resumed: capture_payment (done).")


async def test_show_has_what_is_parked_for_it_by_key_entity_or_cause(ground: Ground) -> None:
    saga_id = await ground.order_with_stock("order-1")
    cause = base64.b64encode((await ground.last_command(saga_id)).encode()).decode()
    headers = json.dumps([["ce_causationid", cause]])
    for offset, (consumer, key, event, of) in enumerate(
        (
            ("payment", saga_id, "e-command", "[]"),
            ("orchestrator", "order-1", "e-entity", "[]"),
            ("orchestrator", "x", "e-reply", headers),
            ("orchestrator", "y", "e-other", "[]"),
            ("payment", "order-1", "e-somebody's", "[]"),
        )
    ):
        await ground.connection.execute(
            """INSERT INTO surefoot.parked_events
                   (consumer, topic, partition, log_offset, key, source, event_id, event_type, state, attempts, reason,
                    last_error, headers, recorded_at, dead_at)
               VALUES ($1, 'a.topic', 0, $2, $3, '/tests', $4, 'some.event', 'DEAD', 5, 'out_of_attempts',
                       'Too heavy.', $5, now(), now())""",
            consumer,
            offset,
            key,
            event,
            of,
        )
    done = (await saga(ground, "show", saga_id)).out
    assert re.findall(r"^(e-\S+)  some\.event  of (\w+): (.*)$", done, re.MULTILINE) == [
        ("e-command", "payment", "dead, holds its key"),
        ("e-entity", "orchestrator", "dead, holds its key"),
        ("e-reply", "orchestrator", "dead, holds its key"),
    ]
    assert "  Too heavy.\n" in done


async def test_show_has_what_it_waits_for_where_that_is_parked_under_another_key(ground: Ground) -> None:
    saga_id = await ground.stuck_return("return-1")
    for offset, return_id in enumerate(("return-1", "return-2")):
        event = new_event(pickup(return_id))
        body = encode_data(event)
        await ground.connection.execute(
            """INSERT INTO surefoot.parked_events
                   (consumer, topic, partition, log_offset, key, source, event_id, event_type, state, attempts, reason,
                    value, headers, recorded_at, dead_at)
               VALUES ('orchestrator', 'carrier.events', 0, $1, $2, '/tests', $3, $4, 'DEAD', 5, 'out_of_attempts',
                       $5, $6, now(), now())""",
            offset,
            event.key,
            f"e-{return_id}",
            event.type,
            body,
            headers_json(encode(event, body)),
        )
    done = (await saga(ground, "show", saga_id)).out
    assert re.findall(r"^(e-\S+)  (\S+)  of orchestrator", done, re.MULTILINE) == [
        ("e-return-1", "carrier.pickup_confirmed")
    ]


async def test_show_as_json_is_whole(ground: Ground) -> None:
    saga_id = await ground.stuck_order("order-1")
    made = json.loads((await saga(ground, "show", saga_id, "--json")).out)
    assert set(made) == {"sentence", "can", "saga", "history", "parked"}
    assert made["sentence"].startswith("The saga order_placement of order-1 is stuck since")
    assert made["can"] == ["retry", "skip"]
    assert (made["saga"]["saga_id"], made["saga"]["status"], made["parked"]) == (saga_id, "STUCK", [])
    assert [line["kind"] for line in made["history"]][-3:] == ["SENT", "FAILED", "STUCK"]


async def test_a_name_that_is_nobodys_or_several_is_answered_with_a_sentence(ground: Ground) -> None:
    assert_says(await saga(ground, "show", "order-9"), "There is no saga 'order-9', and none about it.")
    first, second = await ground.begin_order("order-1"), await ground.begin(placement("order-1"))
    several = await saga(ground, "show", "order-1")
    assert_says(several, f"2 sagas are about order-1: {second} (order_placement, RUNNING), {first} (order_placement,")


async def test_a_saga_whose_definition_is_elsewhere_can_be_looked_at(ground: Ground) -> None:
    saga_id = await ground.begin_order("order-1")
    other = "orchestrator.sagas:return_processing"
    done = await saga(ground, "show", saga_id, "--sagas", other)
    assert done.code == 0
    assert (
        "What you can do is not known here: name the definition of order_placement version 1 with --sagas" in done.out
    )
    assert_says(
        await saga(ground, "pause", saga_id, "--reason", "x", "--sagas", other),
        f"The saga {saga_id} is of order_placement version 1, and that definition is not among those named here.",
    )
    assert_says(await saga(ground, "show", saga_id, "--sagas", "no.such:thing"), "There is no module no.such")
