"""The whole platform on Kafka, while every kind of process is killed again and again, the broker is bounced and
Postgres restarted: every saga ends, money and stock are conserved to the cent and piece, the services' books agree,
nobody is charged twice.

With SUREFOOT_SOAK: 2,000 orders and 500 returns. SUREFOOT_SEED chooses another course of the trouble.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from services.buyers import Buyers, Wish, stock, wishes
from services.checks import money
from services.local_platform.platform import Platform
from surefoot.database.connection import connect
from surefoot.database.embedded import EmbeddedPostgres
from surefoot.log.kafka.log import KafkaLog
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.log.postgres.log import PostgresLog
from surefoot.testing.kafka import LocalKafka
from tests.integration.services.test_services_commands import CANCELLED, SET_ASIDE
from tests.support.consumer import processes as consuming
from tests.support.platform.harness import Ground
from tests.support.platform.operator import Operator
from tests.support.platform.supervisor import Supervisor
from tests.support.platform.trouble import Trouble
from tests.support.postgres_servers import postgres
from tests.support.relay import processes as relaying
from tests.support.relay.processes import as_environment, start_process
from tests.support.saga import orchestrators as orchestrating
from tests.support.waiting import eventually

SOAK = bool(os.environ.get("SUREFOOT_SOAK"))
SEED = int(os.environ.get("SUREFOOT_SEED", "1"))
ORDERS, RETURNS = (2_000, 500) if SOAK else (120, 30)
WISHES = ORDERS * 5 // 4
"""Some want an order without a saga, and some find the last pieces gone."""
ROUNDS, OUTAGE_EVERY = (36, 3) if SOAK else (4, 1)
PATIENCE_S = 3_000 if SOAK else 400
"""For buyers to get their orders placed amid the trouble."""
SETTLES_S = 900 if SOAK else 180
TAKEN_BACK = ORDERS // 12
"""Orders that a person takes back while they are being paid."""
CLERKS = 40
PROVIDER = ("--decline=0.08", "--timeout-after-charge=0.02", "--late=0.03", "--late-ms=500", "--error=0.03")
ENVIRONMENT = {
    **as_environment("SUREFOOT_RELAY", relaying.QUICK),
    **as_environment("SUREFOOT_CONSUMER", consuming.QUICK),
    **as_environment("SUREFOOT_ORCHESTRATOR", orchestrating.QUICK),
    "SUREFOOT_ORCHESTRATOR_LONGEST_DECISION": "PT2S",
    "SUREFOOT_CONSUMER_CONCURRENCY": "2",
    "SUREFOOT_KAFKA_SESSION_TIMEOUT": "PT3S",
    "SUREFOOT_PAYMENT_ANSWER_WITHIN": "PT1S",
}

pytestmark = [
    pytest.mark.crowd,
    pytest.mark.timeout(4_200 if SOAK else 660),
]


@pytest.fixture
def own_broker() -> Iterator[LocalKafka]:
    """A broker of this test's own: the shared one must not be stopped."""
    with LocalKafka() as broker:
        yield broker


@pytest.fixture
def own_postgres() -> Iterator[EmbeddedPostgres]:
    with postgres(max_connections="300") as server:
        yield server


@pytest.mark.promise("P2", "P4", "P6c", "P8")
async def test_no_kill_and_no_outage_costs_a_cent_or_a_piece(
    own_postgres: EmbeddedPostgres, own_broker: LocalKafka, tmp_path: Path
) -> None:
    platform = Platform(
        own_postgres.url, tmp_path, kafka=own_broker.address, environment=ENVIRONMENT, provider=PROVIDER
    )
    await platform.prepare()
    async with shopping(platform) as buyers, Supervisor(platform) as supervisor:
        trouble = Trouble(supervisor, own_postgres, own_broker, SEED)
        operator = Operator(platform.url, TAKEN_BACK)
        try:
            await buy_amid(trouble, operator, buyers)
        except TimeoutError:
            seen = f"{len(buyers.seen.placed)} of {WISHES} orders were placed within {PATIENCE_S} s."
            pytest.fail("\n".join([seen, *trouble.story, supervisor.told()]))
        async with ground_of(platform, buyers, own_broker) as ground:
            await settle(ground, supervisor, trouble)
            await expect_all_well(ground, supervisor, trouble, operator)
            codes = await supervisor.stop()
    assert codes == dict.fromkeys(supervisor.kinds, 0), supervisor.told()


@asynccontextmanager
async def shopping(platform: Platform) -> AsyncIterator[Buyers]:
    """Shelves are full; what buyers have bought they give back, and carriers fetch it."""
    buyers = Buyers(platform.settings)
    await buyers.fill_shelves(stock())
    stopping = asyncio.Event()
    beside = [
        asyncio.create_task(buyers.give_back(stopping)),
        asyncio.create_task(buyers.fetch_parcels(stopping)),
    ]
    try:
        yield buyers
        assert not any(task.done() for task in beside)
    finally:
        stopping.set()
        await asyncio.gather(*beside)
        await buyers.close()


async def buy_amid(trouble: Trouble, operator: Operator, buyers: Buyers) -> None:
    """With each round of trouble some more of them come; until the last has left the checkout."""
    wanted = wishes(WISHES, returns=0.4)
    door = asyncio.Semaphore(CLERKS)

    async def come(wish: Wish) -> None:
        async with door:
            await buyers.buy(wish)

    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        await come(wanted[0])  # in peace: then the processes have begun
        operating = group.create_task(operator.work())
        for number in range(ROUNDS):
            for wish in wanted[1:][number::ROUNDS]:
                group.create_task(come(wish))
            await (trouble.kills() if number % OUTAGE_EVERY else trouble.kills_and_an_outage())
        operating.cancel()


@asynccontextmanager
async def ground_of(platform: Platform, buyers: Buyers, broker: LocalKafka) -> AsyncIterator[Ground]:
    """When the trouble is over: database and broker are there to stay."""
    connection = await connect(platform.url, name="surefoot tests")
    log = KafkaLog(KafkaSettings(bootstrap_servers=broker.address))
    try:
        yield Ground(platform, buyers, connection, log)
    finally:
        await log.close()
        await connection.close()


async def settle(ground: Ground, supervisor: Supervisor, trouble: Trouble) -> None:
    """Until everything rests; if it does not, all that may tell why."""
    ends = asyncio.get_running_loop().time() + SETTLES_S
    while not await ground.rests():
        if asyncio.get_running_loop().time() > ends:
            told = [await ground.told(), "--- trouble", *trouble.story, supervisor.told()]
            pytest.fail("\n".join([f"Not at rest {SETTLES_S} s after the trouble:", *told]))
        await asyncio.sleep(0.25)  # nobody tells us: look again


async def expect_all_well(ground: Ground, supervisor: Supervisor, trouble: Trouble, operator: Operator) -> None:
    counts = await ground.counts()
    assert counts.of("STUCK") == 0, await ground.told()
    assert await ground.charged_twice() == {}
    assert await ground.books() == []
    assert await ground.stories(operator.taken_back) == []
    assert await ground.undone_payments() >= (TAKEN_BACK // 2 if SOAK else 1)  # of few, chance spares many
    assert sum(counts.sagas["order_placement"].values()) >= ORDERS
    assert sum(counts.sagas["return_processing"].values()) >= RETURNS
    assert min(supervisor.killed[kind] for kind in supervisor.kinds) >= ROUNDS // 2, supervisor.killed
    assert sorted(trouble.outages.values()) == [ROUNDS // OUTAGE_EVERY // 4] * 4
    assert trouble.met >= ROUNDS, "most kills met a platform that stood still"
    assert supervisor.fell() == []


@pytest.mark.mutation
async def test_books_that_do_not_fit_each_other_are_noticed(database_url: str, tmp_path: Path) -> None:
    """Money and stock add up each for itself, and goods are kept for an order that was cancelled."""
    platform = Platform(database_url, tmp_path)
    await platform.prepare()
    buyers, log = Buyers(platform.settings), PostgresLog(database_url)
    connection = await connect(platform.url, name="surefoot tests")
    try:
        ground = Ground(platform, buyers, connection, log)
        assert await ground.books() == []
        for statement in (CANCELLED, SET_ASIDE):
            await connection.execute(statement)
        assert await ground.books() == ["goods are RESERVED for o-1, which is CANCELLED"]
    finally:
        await connection.close()
        await log.close()
        await buyers.close()


@pytest.mark.mutation
async def test_a_new_key_for_every_call_is_noticed(database_url: str, tmp_path: Path) -> None:
    """The answer to the first charge is lost. Asked for again under another key, the money is taken twice."""
    platform = Platform(database_url, tmp_path, environment=ENVIRONMENT, provider=("--timeout-after-charge=1",))
    await platform.prepare()
    weakened = {**ENVIRONMENT, "SUREFOOT_PAYMENT_PROVIDER_URL": f"http://127.0.0.1:{platform.provider_port}"}
    command = ["tests.support.weakened", "platform", "key", *platform.commands.pop("payment")[1:]]
    async with shopping(platform) as buyers, Supervisor(platform) as supervisor:
        payment = await start_process(command, tmp_path / "payment.log", weakened)
        try:
            order_id = await buyers.buy(wishes(1)[0])

            async def found() -> list[str]:
                findings = await money.check(platform.settings)
                return [one.sentence for one in findings if one.violation == "charged_twice"]

            sentences = await eventually(found, what="the order was charged twice")
        except AssertionError as missing:
            raise AssertionError(f"{missing}\n{payment.log.read_text()}\n{supervisor.told()}") from missing
        finally:
            payment.signal(signal.SIGKILL)
            await payment.ended()
    assert [f"order {order_id} " in sentence for sentence in sentences] == [True]
