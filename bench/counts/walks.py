"""The walks: things that happen in the platform, each played once while the processes record the files they run in.

How many files that are is how many a reader has to open to follow it.
"""

import asyncio
import re
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx

from bench.counts.stage import Stage, served, stage
from bench.counts.walk_workload import Act, Acted, OrderRequested, sagas
from bench.quick.ground import _free_port as free_port
from bench.quick.trees import CannotMeasure, Tree
from surefoot.database.embedded import EmbeddedPostgres
from surefoot.events import Event, encode, encode_data, new_event
from surefoot.log import Acknowledged, Record, TopicPartition
from surefoot.log.opening import open_log

REASON = "the article exists now"
SETTLED_S = 3.0
"""By then the first round of housekeeping is over, which is no part of a walk."""
Found = dict[str, set[str]]


async def walk_all(postgres: EmbeddedPostgres, tree: Tree, folder: Path, say: Callable[[str], None]) -> Found:
    """The files of each walk, by its name."""
    found: Found = {}
    parts: tuple[tuple[str, Callable[[Stage], Awaitable[Found]]], ...] = (
        ("event", _event),
        ("saga", _saga),
        ("request", _request),
    )
    for name, walk in parts:
        say(f"walking: {name}")
        async with stage(postgres, tree, name, folder) as opened:
            found |= await walk(opened)
    return found


async def _event(on: Stage) -> Found:
    """An event fails, is parked, tried again, dies, and is replayed; in between an operator asks why."""
    await on.connection.execute("INSERT INTO walk_broken VALUES ('bad')")
    token, _ = await on.run(
        *("token", "surefoot", "dlq", "token", "create", "--person", "ana", "--role", "ADMIN", "--reason", "a walk")
    )
    port = free_port()
    url = f"http://127.0.0.1:{port}/admin/dlq"
    relay = await on.start("relay", "surefoot", "relay")
    consumer = await on.start("consumer", "surefoot", "consume", "walk_workload:consumer")
    dlq = await on.start(
        *("dlq", "surefoot", "dlq", "serve", "--port", str(port), "--catalogue", "walk_workload:catalogue")
    )
    await on.run("warm-up", "walk_workload", on.url, "good")
    await on.until("SELECT count(*) FROM walk_handled WHERE id = 'good'")
    await served(f"{url}/healthz", dlq)
    await asyncio.sleep(SETTLED_S)
    secret = re.findall(r"sft_\S+", token)[-1]

    files: set[str] = set()

    async def die() -> None:
        files.update((await on.run("publish", "walk_workload", on.url, "bad"))[1])
        await on.until("SELECT count(*) FROM surefoot.dlq_events WHERE status = 'OPEN'")

    async def replay() -> None:
        await on.connection.execute("TRUNCATE walk_broken")
        body = {"filter": {"status": "OPEN"}, "reason": REASON}
        headers = {"Authorization": f"Bearer {secret}", "Idempotency-Key": uuid.uuid4().hex}
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.post(f"{url}/replay", headers=headers, json=body)
        if answer.status_code != httpx.codes.ACCEPTED:
            raise CannotMeasure(f"The replay was refused: {answer.text}")
        await on.until("SELECT count(*) FROM surefoot.dlq_events WHERE status = 'REPLAYED'")
        await on.until("SELECT count(*) FROM surefoot.dlq_jobs WHERE status = 'DONE'")

    files |= await on.recorded(die(), on.started)
    why = await _why(on, url.removesuffix("/admin/dlq"), secret)
    files |= await on.recorded(replay(), (relay, consumer, dlq))
    return {"event, from add to the outcome of its replay": files, "why was it not processed": why}


async def _why(on: Stage, url: str, secret: str) -> set[str]:
    """The five commands that an operator gives to learn what became of an event."""
    event_id, letter = await on.connection.fetchrow("SELECT event_id::text, id::text FROM surefoot.dlq_events")
    at = ("--url", url, "--token", secret)
    files: set[str] = set()
    for command in (
        ("outbox", "show", event_id),
        ("parked", "list"),
        ("parked", "show", event_id),
        ("dlq", "list", *at),
        ("dlq", "show", letter, *at),
    ):
        files |= (await on.run("why", "surefoot", *command))[1]
    return files


async def _saga(on: Stage) -> Found:
    """A saga starts, its first step is answered, its second one is not."""
    log = open_log(None, on.url)
    publisher = await log.publisher()
    on.opened.push_async_callback(log.close)
    on.opened.push_async_callback(publisher.close)
    await on.start("relay", "surefoot", "relay")
    orchestrator = await on.start("orchestrator", "surefoot", "orchestrate", "walk_workload:saga")

    async def publish(event: Event[Any]) -> None:
        data = encode_data(event)
        record = Record(event.key.encode(), data, encode(event, data))
        stored = await publisher.publish(TopicPartition(sagas.name, 0), [record])
        if not isinstance(stored, Acknowledged):
            raise CannotMeasure(f"The log refused the work of the walk: {stored.sentence}")

    async def step(order: str) -> None:
        await publish(new_event(OrderRequested(order_id=order)))
        first = await on.until(
            "SELECT o.event_id::text || ' ' || o.key FROM surefoot.outbox_events o JOIN surefoot.saga_instances s "
            "ON o.key = s.saga_id::text WHERE s.entity_id = $1 AND o.status = 'PUBLISHED'",
            order,
        )
        command_id, key = first.split()
        command = new_event(Act(order_id=key), id=command_id)
        await publish(new_event(Acted(order_id=key), caused_by=command))
        await on.until(
            "SELECT count(*) FROM surefoot.saga_instances WHERE entity_id = $1 AND current_step = 'capture'", order
        )

    async def time_out(order: str) -> None:
        await on.until(
            "SELECT count(*) >= 3 FROM surefoot.outbox_events o JOIN surefoot.saga_instances s "
            "ON o.key = s.saga_id::text WHERE s.entity_id = $1",
            order,
        )

    await step("warm-up")
    stepped = await on.recorded(step("order"), [orchestrator])
    timed_out = await on.recorded(time_out("order"), [orchestrator])
    return {"saga step": stepped, "saga step and its timeout": stepped | timed_out}


async def _request(on: Stage) -> Found:
    port = free_port()
    app = await on.start("app", "walk_app", on.url, str(port))
    await served(f"http://127.0.0.1:{port}/", app)

    async def ask(path: str) -> None:
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.post(
                f"http://127.0.0.1:{port}{path}",
                headers={"Idempotency-Key": uuid.uuid4().hex},
                json={"item": "a chair"},
            )
        if answer.status_code != httpx.codes.CREATED:
            raise CannotMeasure(f"{path} answered {answer.status_code}: {answer.text}")

    await ask("/local")
    await ask("/outside")
    return {
        "request, local": await on.recorded(ask("/local"), [app]),
        "request, outside": await on.recorded(ask("/outside"), [app]),
    }
