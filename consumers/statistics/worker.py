"""The Faust app: reads the topics, counts, and answers over HTTP. Everything it decides is decided in `counting`.

It does no business work and never raises on a record. Each worker is alone in its group and so reads every partition:
start two, and both have the whole.

The counts are in a Faust table: windows of a minute, gone after an hour, in memory alone. Faust writes every change of
a table to a topic of its own, the changelog. This table has none: a record to Kafka for each one counted would double
the broker's work, all topics would need the same number of partitions, and what is read back from a changelog never
expires (Faust 0.15). The topics themselves are changelog enough: see `starting_point`.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast, get_args

import faust
from faust.web import Request, Response
from faust.web import View as WebView

from consumers.statistics import KEPT
from consumers.statistics.answers import Window, answer, health, records_behind
from consumers.statistics.counting import MINUTE, Counted, View, add, counted, moment
from consumers.statistics.starting_point import StartingPoint
from surefoot.errors import SurefootError
from surefoot.log.kafka.aiokafka_typed import CLIENT_ID, connection_arguments
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.log.port import TopicPartition

BATCH_OVERHEAD_BYTES = 64 * 1024
STOP_PATIENCE_S = 20
_PARTITION = 0
"""Faust keeps what is to expire by partition. There is but one worker of a group, so one is enough."""


class Unlogged(faust.Table):  # type: ignore[type-arg]
    """A table without a changelog. It is not registered with the app, so nothing is assigned or recovered for it."""

    async def on_start(self) -> None:
        await self.add_runtime_dependency(self.data)

    def on_key_set(self, key: Any, value: Any) -> None:
        # Only the first time: Faust would remember each change of a window until the window expires.
        if key not in self.data:
            self._maybe_set_key_ttl(key, _PARTITION)

    def on_key_del(self, key: Any) -> None:
        self._maybe_del_key_ttl(key, _PARTITION)


class Counts:
    """How often each name was seen, by view and minute."""

    def __init__(self, app: faust.App) -> None:
        self._window = faust.TumblingWindow(MINUTE, expires=KEPT)
        self.table = Unlogged(app, name="statistics", default=dict, store="memory://", window=self._window)

    def count(self, what: Counted, at_s: float) -> None:
        key = (what.view, self._window.current(at_s))
        counts = self.table[key]
        add(counts, what.name)
        self.table[key] = counts

    def contents(self) -> Iterator[tuple[tuple[View, Window], dict[str, int]]]:
        return cast(Iterator[tuple[tuple[View, Window], dict[str, int]]], iter(self.table.items()))


class StatisticsStopped(SurefootError):
    """The statistics worker stopped by itself."""


@dataclass(frozen=True)
class Place:
    """Where the worker serves, and which directory Faust makes for itself."""

    host: str
    port: int
    data_dir: Path


class StatisticsWorker:
    def __init__(
        self, kafka: KafkaSettings, group: str, topics: Sequence[str], start: StartingPoint, place: Place
    ) -> None:
        self._topics = list(topics)
        self._next_offsets = dict(start.offsets)
        self._ends = dict(start.ends)
        self._stopping = asyncio.Event()
        self._app = new_app(kafka, group, start, place)
        self._counts = Counts(self._app)
        self._app.agent(self._app.topic(*topics, key_serializer="raw", value_serializer="raw"), name="count")(
            self._count
        )
        for view in get_args(View):
            self._serve_view(view)
        self._serve_health()

    async def run(self) -> None:
        """Count until stopped. Raises StatisticsStopped if Faust gives up."""
        work = asyncio.create_task(self._work())
        asked = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({work, asked}, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        reason = self._app.crash_reason or (work.exception() if work.done() else None)
        work.cancel()
        # Without an answer from Kafka, Faust waits for ever to leave its group. There is nothing here to be lost.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_PATIENCE_S):
                await self._app.stop()
        if reason is not None and not self._stopping.is_set():
            raise StatisticsStopped(
                f"Faust gave up: {type(reason).__name__}: {reason}. Start it again: it counts the last minutes anew."
            ) from reason

    def stop(self) -> None:
        self._stopping.set()

    async def _work(self) -> None:
        await self._app.add_runtime_dependency(self._counts.table)
        await self._app.start()
        await self._app.wait_until_stopped()

    async def _count(self, stream: Any) -> None:
        async for event in stream.events():
            message = event.message
            at_s = moment(message.timestamp, time.time())
            if at_s is not None:
                for what in counted(message.topic, message.headers or (), message.value):
                    self._counts.count(what, at_s)
            self._next_offsets[TopicPartition(message.topic, message.partition)] = message.offset + 1

    def _serve_view(self, view: View) -> None:
        @self._app.page(f"/statistics/{view}", name=view)
        async def get(web: WebView, request: Request) -> Response:
            return web.json(answer(self._counts.contents(), view, time.time()))

    def _serve_health(self) -> None:
        @self._app.page("/statistics/health", name="health")
        async def get(web: WebView, request: Request) -> Response:
            behind = self._behind()
            status = HTTPStatus.SERVICE_UNAVAILABLE if behind is None else HTTPStatus.OK
            return web.json(health(self._topics, behind), status=status)

    def _behind(self) -> int | None:
        """How many records are yet to be read; None while Kafka has given us no partitions."""
        if not (self._app.started and self._app.consumer.assignment()):
            return None
        # Faust learns of a partition's end when it gets records of it; until then, its end at the start counts.
        seen = {TopicPartition(*where): end for where, end in self._app.monitor.tp_end_offsets.items()}
        return records_behind(self._next_offsets, {**self._ends, **seen})


def new_app(kafka: KafkaSettings, group: str, start: StartingPoint, place: Place) -> faust.App:
    """A Faust app that makes no topics, shows no pages but ours, and is alone in its group."""
    return faust.App(
        group,
        id_format="{id}",
        broker=[f"kafka://{server}" for server in kafka.servers],
        broker_credentials=_credentials(kafka),
        broker_client_id=f"{CLIENT_ID}-statistics",
        broker_session_timeout=kafka.session_timeout.total_seconds(),
        broker_heartbeat_interval=kafka.session_timeout.total_seconds() / 3,
        broker_request_timeout=max(kafka.request_timeout, kafka.session_timeout).total_seconds(),
        consumer_auto_offset_reset="latest",
        consumer_max_fetch_size=start.max_record_bytes + BATCH_OVERHEAD_BYTES,
        datadir=place.data_dir,
        store="memory://",
        table_standby_replicas=0,
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_bind=place.host,
        web_host=place.host,
        web_port=place.port,
        web_router_enabled=False,
        web_tables_enabled=False,
        web_stats_enabled=False,
        web_graph_enabled=False,
        web_metrics_enabled=False,
    )


def _credentials(kafka: KafkaSettings) -> Any:
    arguments: dict[str, Any] = connection_arguments(kafka)
    context = arguments.get("ssl_context")
    if kafka.security_protocol.startswith("SASL"):
        return faust.SASLCredentials(
            username=arguments["sasl_plain_username"],
            password=arguments["sasl_plain_password"],
            mechanism=arguments["sasl_mechanism"],
            ssl_context=context,
        )
    return faust.SSLCredentials(context) if context is not None else None
