"""A project of somebody else's that has packages named like the folders of this repository, and uses Surefoot."""

from pathlib import Path

FILES = {
    "schemas/__init__.py": """
from surefoot import Catalogue, EventData

catalogue = Catalogue(source="/mine")
orders = catalogue.topic("mine.orders", partitions=1)
commands = catalogue.topic("mine.commands", partitions=1)


@catalogue.event("mine.order_placed", topic=orders, key="order_id")
class OrderPlaced(EventData):
    order_id: str


@catalogue.event("mine.pack", topic=commands, key="order_id")
class Pack(EventData):
    order_id: str


@catalogue.event("mine.packed", topic=orders, key="order_id")
class Packed(EventData):
    order_id: str
""",
    "consumers/__init__.py": "",
    "consumers/warehouse.py": """
from schemas import Pack, Packed
from surefoot import Consumer, Event, Transaction

warehouse = Consumer("mine")


@warehouse.command(Pack)
async def pack(event: Event[Pack], tx: Transaction) -> Packed:
    return Packed(order_id=event.data.order_id)
""",
    "orchestrator/__init__.py": """
from schemas import OrderPlaced, Pack, Packed
from surefoot import Saga


def pack(order: OrderPlaced) -> Pack:
    return Pack(order_id=order.order_id)


packing = Saga("packing", version=1, starts_on=OrderPlaced)
packing.step("pack", do=pack, done_on=Packed, nothing_to_undo=True, handled_by="mine")
""",
    "services/__init__.py": "",
    "services/publish.py": """
import asyncio
import os
import sys

from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from schemas import OrderPlaced
from surefoot import outbox


async def main() -> None:
    engine = create_async_engine(os.environ["SUREFOOT_DATABASE"].replace("postgresql:", "postgresql+asyncpg:", 1))
    async with AsyncSession(engine) as session, session.begin():
        outbox.add(session, OrderPlaced(order_id=sys.argv[1]))
    await engine.dispose()


if __name__ == "__main__":
    asyncio.run(main())
""",
    "services/web.py": """
from fastapi import FastAPI

from schemas import catalogue
from surefoot.idempotency import Idempotency, IdempotencySettings, Store

app = FastAPI()
app.add_middleware(Idempotency, store=Store("postgresql://localhost/none", IdempotencySettings()), tenant=lambda _: "t")


@app.get("/types")
async def types() -> int:
    return len(catalogue)
""",
    "dlq/__init__.py": "ANSWER = 'the dlq of the project'\n",
    "dlq/models.py": "from surefoot import outbox\n",
    "outbox_publisher/__init__.py": "import typer\n\n\ndef hello() -> None:\n    typer.echo('from the project')\n",
    "django_settings.py": "INSTALLED_APPS = ['dlq', 'services']\nSECRET_KEY = 'x'\n",
    "test_mine.py": """
from consumers.warehouse import warehouse
from orchestrator import packing
from schemas import OrderPlaced, Pack, Packed
from surefoot.testing.saga_kit import SagaKit


def test_the_saga_ends() -> None:
    kit = SagaKit(packing)
    kit.given(OrderPlaced(order_id="1"))
    kit.reply(Packed(order_id="1"))
    assert kit.status == "COMPLETED"


def test_the_consumer_is_this_project_s() -> None:
    assert warehouse.name == "mine"
""",
    "pyproject.toml": """
[tool.surefoot]
catalogue = ["schemas:catalogue"]
consumers = ["consumers.warehouse:warehouse"]
sagas = ["orchestrator:packing"]

[tool.surefoot.commands]
hello = "outbox_publisher:hello"
""",
}
NAMES = ("schemas", "consumers", "orchestrator", "services", "dlq", "outbox_publisher")


def write_project(folder: Path) -> Path:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.lstrip("\n"))
    return folder
