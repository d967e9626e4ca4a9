"""`surefoot saga pause|resume|retry|skip|compensate`, and `serve`, as people run them: as processes."""

import asyncio
import getpass
import json
import os
import signal
import socket
from subprocess import PIPE

import httpx
import pytest

from tests.support import processes
from tests.support.command_line import assert_says
from tests.support.processes import Done
from tests.support.saga.stored_sagas import Ground, captured, saga

pytestmark = pytest.mark.slow

NOBODY = "00000000-0000-0000-0000-000000000000"


def assert_not_now(done: Done, sentence: str) -> None:
    assert sentence in done.err, done
    assert (done.code, done.out) == (1, ""), done


async def test_a_retry_is_done_once_and_kept_with_the_users_name(ground: Ground) -> None:
    saga_id = await ground.stuck_order("order-1")
    command = ("retry", saga_id, "--step", "confirm_order", "--reason", "the order book is open")
    done = await saga(ground, *command)
    assert done.code == 0, done
    assert done.out == (
        "Retried. The saga is RUNNING; it waits for confirm_order. On its way, as soon as a relay publishes it: "
        "order.confirm. Your reason is in its history.\n"
    )
    me = getpass.getuser()
    assert (await ground.history(saga_id))[-2] == ("RETRIED", "confirm_order", f"{me}: the order book is open")
    assert_not_now(await saga(ground, *command), "That was decided already, at 20")
    assert (await ground.published()).count("order.confirm") == 2


async def test_a_saga_is_paused_resumed_and_undone(ground: Ground) -> None:
    saga_id = await ground.order_with_stock("order-1")
    assert (await saga(ground, "pause", saga_id, "--reason", "a look")).code == 0
    assert_not_now(await saga(ground, "pause", saga_id, "--reason", "a look"), "The saga is paused already, since 20")
    assert_not_now(await saga(ground, "retry", saga_id, "--reason", "now"), "Resume it, then retry.")
    resumed = await saga(ground, "resume", saga_id, "--reason", "all is well")
    assert "Resumed. The saga is RUNNING; it waits for capture_payment." in resumed.out
    undone = await saga(ground, "compensate", saga_id, "--reason", "the buyer called", "--by", "Ada")
    assert undone.out.startswith(
        "It is being undone. The saga is COMPENSATING; it waits for the undo of capture_payment. On its way, as soon "
        "as a relay publishes it: payment.reverse."
    )
    assert ("COMPENSATING", None, "An operator decided it. Ada: the buyer called") in await ground.history(saga_id)


async def test_a_step_is_skipped_with_the_result_that_others_need(ground: Ground) -> None:
    saga_id = await ground.order_with_stock("order-1")
    skip = ("skip", saga_id, "--step", "capture_payment", "--reason", "paid in cash")
    assert_not_now(await saga(ground, *skip), "Others need the result of capture_payment: give the PaymentCaptured")
    assert_not_now(
        await saga(ground, *skip, "--result", "{}"), "does not fit payment.captured: order_id: Field required"
    )
    good = json.dumps(captured("order-1").model_dump(mode="json"))
    done = await saga(ground, *skip, "--result", good, "--type", "payment.captured")
    assert done.out.startswith("capture_payment is taken as done. The saga is RUNNING; it waits for confirm_order.")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("retry", NOBODY), "Say why, with --reason: it is kept in the saga's history"),
        (("retry", NOBODY, "--reason", " "), "Say why, with --reason"),
        (("retry", NOBODY, "--reason", "x"), f"There is no saga {NOBODY}."),
        (("retry", "order-1", "--reason", "x"), "'order-1' is not a saga's id: those are UUIDs"),
        (("retry", NOBODY, "--reason", "a\x1b[2Jb"), "--reason has characters in it that cannot be kept"),
        (("pause", NOBODY, "--reason", "x" * 2001), "--reason has 2001 characters: say it in 2000 or fewer"),
        (("skip", NOBODY, "--reason", "x"), "Say which step is taken as done, with --step"),
        (("skip", NOBODY, "--step", "s", "--reason", "x", "--type", "t"), "--type says what --result is"),
        (("serve", "--host", "0.0.0.0"), "the read API has no access control of its own yet"),  # noqa: S104
    ],
)
async def test_a_mistake_is_answered_with_a_sentence(ground: Ground, arguments: tuple[str, ...], says: str) -> None:
    assert_says(await saga(ground, *arguments), says)


async def test_proofs_and_pictures_are_among_the_commands(ground: Ground) -> None:
    drawn = await saga(ground, "diagram", "orchestrator.sagas:order_placement")
    assert drawn.code == 0, drawn
    assert "confirm_order" in drawn.out


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
async def test_the_read_api_is_served_until_it_is_stopped(ground: Ground, stop: signal.Signals) -> None:
    saga_id = await ground.begin_order("order-1")
    process = await processes.start_async(
        ("surefoot", "saga", "serve", "--port", "0"),
        environment={**os.environ, "SUREFOOT_DATABASE": ground.url, "NO_COLOR": "1", "PYTHONWARNINGS": "error"},
        stdout=PIPE,
        stderr=PIPE,
    )
    try:
        assert process.stdout is not None
        told = (await asyncio.wait_for(process.stdout.readline(), 30)).decode()
        address = told.split()[3]
        assert told == f"Sagas are at {address} (Ctrl-C stops it)\n"
        async with httpx.AsyncClient() as client:
            answer = await client.get(address, timeout=20)
        assert [one["saga_id"] for one in answer.json()["sagas"]] == [saga_id]
        process.send_signal(stop)
        out, err = await asyncio.wait_for(process.communicate(), 20)
    finally:
        await processes.end(process)
    assert (process.returncode, out.decode()) == (0, "The read API has stopped.\n"), err.decode()
    assert "Traceback" not in err.decode()


async def test_a_port_in_use_is_said_so(ground: Ground) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert_says(await saga(ground, "serve", "--port", port), f"Sagas cannot be served at 127.0.0.1:{port}: ")
