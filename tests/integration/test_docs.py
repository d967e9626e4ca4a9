"""What the documents show is run: make targets exist, commands work, the first page works from top to bottom.

A command that runs until stopped (`surefoot relay`), or that needs Kafka, is parsed by the real command line instead.
`surefoot consume … --once` is run on the page that goes from top to bottom with it; `surefoot dlq …` needs a service,
and is run beside one in tests/integration/dlq/test_operating_page.py. What the pages on HTTP show (`curl`, programs) is
run in tests/integration/services/test_…_docs.py.
"""

import asyncio
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest
from typer.main import get_command

from surefoot.audit.record import Act, record
from surefoot.cli.main import build
from surefoot.database.connection import connect
from surefoot.database.embedded import EmbeddedPostgres
from surefoot.database.tables import metadata
from surefoot.events import Topic
from surefoot.idempotency import IdempotencySettings, Store
from surefoot.idempotency.http.fingerprint import key_hash
from surefoot.idempotency.settings import Route
from surefoot.idempotency.store import Begun
from surefoot.idempotency.values import Answer, Asked
from surefoot.log.postgres.log import PostgresLog
from tests.conftest import _database
from tests.support import processes
from tests.support.corpus import each_of
from tests.support.processes import Done
from tests.support.relay.processes import relay_running
from tests.support.saga.stored_sagas import place_examples
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLE_URL = "postgresql://user:password@host:5432/name"
EXAMPLE_KEY = "8e03978e-40d5-43dd-bc93-6894a57f9324"
EXAMPLE_ID = "0192f0c1-7a3e-7c41-9d0a-6f1f0d6f3b11"
METRICS = [
    path
    for folder in ("surefoot", "services", "consumers")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if "prometheus_client import" in path.read_text()
]
FIRST_PAGE = ROOT / "docs" / "first-event.md"
CONSUMER_PAGE = ROOT / "docs" / "first-consumer.md"
UNTIL_STOPPED = {"serve", "orchestrate", "relay", "consume", "statistics", "up", "demo", "payments"}
PROOF = "surefoot saga verify orchestrator.sagas:sagas"  # goes through 200,000 states
FINDS_PROBLEMS = {"doctor", "check"}  # these exit with 1 when they find something, as they may in the examples
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    language: str
    text: str


def blocks(page: Path) -> list[Block]:
    return [Block(*found) for found in BLOCK.findall(page.read_text())]


def commands(text: str) -> list[list[str]]:
    """The command lines of a shell block, as words; a line that ends in a backslash goes on."""
    return [shlex.split(line, comments=True) for line in text.replace("\\\n", " ").splitlines() if line.strip()]


def shown_on(page: Path, program: str) -> list[str]:
    """Every command of this program on a page."""
    lines = [line for block in blocks(page) if block.language == "sh" for line in commands(block.text)]
    return [shlex.join(line) for line in lines if line and line[0] == program]


def shown(program: str) -> list[str]:
    """Every different command of this program in the documents."""
    return sorted({line for page in PAGES for line in shown_on(page, program)})


def parse(arguments: list[str]) -> None:
    """Let the real command line read these arguments, all but do them: a mistake raises."""
    command = get_command(build())
    context = command.make_context("surefoot", list(arguments))
    while (resolve := getattr(command, "resolve_command", None)) is not None:
        _, command, rest = resolve(context, [*context._protected_args, *context.args])
        context = command.make_context(command.name, rest, parent=context)


def is_runnable(arguments: list[str]) -> bool:
    follows = arguments[0] == "tail" and "--no-follow" not in arguments
    needs_a_service = arguments[0] == "dlq"
    return not (UNTIL_STOPPED & set(arguments[:2]) or "--kafka" in arguments or follows or needs_a_service)


def runnable() -> dict[str, list[str]]:
    """The commands that can be run, each with the first page that shows it."""
    page_of: dict[str, str] = {}
    for page in PAGES:
        for line in shown_on(page, "surefoot"):
            if is_runnable(shlex.split(line)[1:]) and line != PROOF:
                page_of.setdefault(line, str(page.relative_to(ROOT)))
    return {page: [line for line in page_of if page_of[line] == page] for page in dict.fromkeys(page_of.values())}


def run(arguments: list[str], *, cwd: Path, url: str) -> Done:
    environment = {**os.environ, "SUREFOOT_DATABASE": url, "PYTHONPATH": str(cwd), "PYTHONWARNINGS": "error"}
    environment.pop("SUREFOOT_KAFKA", None)
    environment["SUREFOOT_SAGAS"] = "orchestrator.sagas:sagas"  # the documents speak of the shop's
    given = [word.replace(EXAMPLE_URL, url) for word in arguments]
    return processes.run(given, directory=cwd, environment=environment)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A directory with the package that the first pages make."""
    for block in (*blocks(FIRST_PAGE), *blocks(CONSUMER_PAGE)):
        if block.language == "python":
            write(block.text, tmp_path)
    return tmp_path


def write(text: str, directory: Path) -> str:
    """Put a block into the file that its first line names; the module's name."""
    name = text.splitlines()[0].removeprefix("# ")
    path = directory / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return name.removesuffix(".py").replace("/", ".")


@pytest.fixture(scope="module")
def busy_database(postgres_server: EmbeddedPostgres, _template: str) -> Iterator[str]:
    """The name of a database to copy from, with what the examples speak of: topics, a FAILED row, a dead event, sagas,
    an idempotency key and a row of the audit log."""
    with _database(postgres_server, template=_template) as url:
        asyncio.run(place_examples(url))
        asyncio.run(_answer_under_key(url))
        asyncio.run(_do_something(url))
        _place_rows(url)
        _make_role(url)
        yield url.rpartition("/")[2]


def _make_role(url: str) -> None:
    """That of the page on rights. Roles are the server's, so another test module may have made it."""
    with psycopg.connect(url) as connection:
        connection.execute("DO $$ BEGIN CREATE ROLE app; EXCEPTION WHEN duplicate_object THEN NULL; END $$")


def _place_rows(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            """INSERT INTO surefoot.outbox_events
                   (event_id, shard, key_hash, topic, event_type, key, body, headers, status, attempts, last_error)
               VALUES (%s, 0, 0, 'order.events', 'order.paid', 'order-1', '{}', '[]', 'FAILED', 5, 'Too large.')""",
            [EXAMPLE_ID],
        )
        connection.execute(
            """INSERT INTO surefoot.parked_events
                   (consumer, topic, partition, log_offset, key, source, event_id, event_type, state, attempts, reason,
                    last_error, headers, recorded_at, dead_at)
               VALUES ('warehouse', 'order.events', 3, 1200, 'order-7', '/orders', %s, 'order.paid', 'DEAD', 5,
                       'out_of_attempts', 'Too heavy.', '[]', now(), now())""",
            [EXAMPLE_ID],
        )
        for topic in (Topic("order.events"), Topic("shop.orders"), Topic("shop.stock")):
            for one in (topic, topic.dead_letters):
                connection.execute(
                    "INSERT INTO surefoot.log_topics (topic, partitions, retention, max_record_bytes)"
                    " VALUES (%s, %s, %s, %s)",
                    [one.name, one.partitions, one.retention, one.max_record_bytes],
                )


async def _answer_under_key(url: str) -> None:
    asked = Asked("acme", key_hash("acme", EXAMPLE_KEY), "POST /v1/charges", "local", b"fingerprint", 1)
    async with Store(url, IdempotencySettings(), pool_size=2) as store:
        begun = await store.begin(asked, Route())
        assert isinstance(begun, Begun)
        async with begun:
            await begun.finish(Answer(201, (("content-type", "application/json"),), b"{}"), "COMPLETED")


async def _do_something(url: str) -> None:
    connection = await connect(url, name="test")
    async with connection.transaction():
        await record(connection, "surefoot", Act("ada", "replay", "done", "a job", "an example"))
    await connection.close()


@each_of("line", shown("make"), expected=16)
def test_every_make_target_in_the_documents_exists(line: str) -> None:
    targets = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {word for word in shlex.split(line)[1:] if "=" not in word} <= set(targets)


@each_of("line", shown("surefoot"), expected=124)
def test_every_command_in_the_documents_is_one_that_exists(line: str) -> None:
    parse(shlex.split(line)[1:])


@pytest.mark.parametrize("line", ["relay --metrics-port none", "outbox lst", "tail", "topics create --catalog x:y"])
def test_a_command_that_does_not_exist_would_be_noticed(line: str) -> None:
    with pytest.raises(Exception, match=r"valid integer|No such command|topic|No such option"):
        parse(line.split())


RUNNABLE = runnable()


def test_no_command_that_can_be_run_was_lost() -> None:
    assert sum(len(lines) for lines in RUNNABLE.values()) == 49


@pytest.mark.proof
def test_the_proof_in_the_documents_is_given() -> None:
    assert PROOF in shown("surefoot")
    done = processes.run(shlex.split(PROOF), within_s=240)
    assert (done.code, done.out.count("✓"), done.out.count("is proved")) == (0, 2, 2), done.out + done.err


@pytest.mark.parametrize("page", RUNNABLE)
def test_every_command_of_a_page_works(
    page: str, busy_database: str, postgres_server: EmbeddedPostgres, shop: Path
) -> None:
    """Each on a database of its own: what one command changes, the next would not find."""

    @each_of("line", RUNNABLE[page])
    def works(line: str) -> None:
        arguments = shlex.split(line)[1:]
        with _database(postgres_server, template=busy_database) as url:
            done = run(["surefoot", *arguments], cwd=shop, url=url)
        assert "Traceback" not in done.err
        assert done.code in ({0, 1} if FINDS_PROBLEMS & set(arguments) else {0}), done.out + done.err

    works()


async def test_the_first_pages_work_from_top_to_bottom(empty_database_url: str, tmp_path: Path) -> None:
    """Every block in the order of the pages: commands run, programs run, and the events they commit arrive."""
    url = empty_database_url
    log = PostgresLog(url)
    migrated = await asyncio.to_thread(run, ["surefoot", "migrate"], cwd=tmp_path, url=url)
    assert migrated.code == 0, migrated.err
    async with relay_running(url, log):
        await _first_page(url, tmp_path)
        await _consumer_page(url, tmp_path)
    await log.close()


async def _first_page(url: str, directory: Path) -> None:
    modules: list[str] = []
    printed = ""
    for block in blocks(FIRST_PAGE):
        if block.language == "python":
            modules.append(write(block.text, directory))
        elif block.language == "sh":
            await _follow(block, directory, url)

    async def arrived() -> bool:
        nonlocal printed
        tail = ["surefoot", "tail", "shop.orders", "--from-start", "--no-follow"]
        printed = (await asyncio.to_thread(run, tail, cwd=directory, url=url)).out
        keys = [line.split()[2] for line in printed.splitlines()]
        return sorted(keys) == ["order-1", "order-3", "order-5", "order-6"]

    await eventually(arrived, what="the four committed events arrive, and none of those rolled back")
    assert all(block.text in printed for block in blocks(FIRST_PAGE) if block.language == "text")
    assert modules == ["shop.events", "shop.tables", "shop.first", "shop.rollback", "shop.sync", "shop.bare"]


async def _consumer_page(url: str, directory: Path) -> None:
    """It goes on where the first page ended. Each text it shows is what the commands above it print."""
    printed: list[str] = []
    for block in blocks(CONSUMER_PAGE):
        if block.language == "python":
            write(block.text, directory)
        elif block.language == "sh":
            printed.append(await _follow(block, directory, url))
        else:
            assert block.text in printed[-1]
    told = [what for what in printed if "consumer starts" in what]
    assert [len(re.findall(r"\] handled (?!after)", what)) for what in told] == [4, 0, 1, 0]
    assert [what.count("duplicate: seen before") for what in told] == [0, 4, 0, 0]
    assert ["parked behind its key" in what for what in told] == [False, False, True, False]
    assert told[3].count("handled after it was parked") == 2
    assert "Nothing is parked" in told[3]
    with psycopg.connect(url) as connection:
        reserved = connection.execute("SELECT order_id FROM reservations ORDER BY 1").fetchall()
    assert [row[0] for row in reserved] == ["order-1", "order-3", "order-5", "order-6", "order-8"]


async def _follow(block: Block, directory: Path, url: str) -> str:
    """Run the commands of a block; what they printed."""
    printed = ""
    for line in commands(block.text):
        program, *arguments = line
        if program == "python":
            done = await asyncio.to_thread(run, [arguments[1]], cwd=directory, url=url)
        elif program == "surefoot" and arguments[0] != "doctor" and (is_runnable(arguments) or "--once" in arguments):
            await _relayed(url)
            done = await asyncio.to_thread(run, ["surefoot", *arguments], cwd=directory, url=url)
        else:
            continue
        assert done.code == 0, f"{shlex.join(line)}\n{done.out}{done.err}"
        printed += done.out + done.err
    return printed


async def _relayed(url: str) -> None:
    """What was committed is in the log."""

    async def look() -> bool:
        with psycopg.connect(url) as connection:
            waiting = connection.execute("SELECT count(*) FROM surefoot.outbox_events WHERE status = 'PENDING'")
            return waiting.fetchone() == (0,)

    await eventually(look, what="everything is relayed")


def test_every_link_between_the_documents_leads_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_link_to_a_part_of_a_document_leads_there() -> None:
    for page in PAGES:
        for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", page.read_text()):
            if "://" not in target:
                headings = re.findall(
                    r"^#+ (.+)$", (page.parent / target if target else page).read_text(), re.MULTILINE
                )
                anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
                assert anchor in anchors, f"{page.name} links to {target}#{anchor}"


@pytest.mark.parametrize("page", ["README.md", "docs/tables.md", "docs/operations.md", "docs/idempotency.md"])
def test_every_query_in_the_documents_runs(page: str, database_url: str) -> None:
    queries = [block.text for block in blocks(ROOT / page) if block.language == "sql"]
    assert queries
    with psycopg.connect(database_url, autocommit=True) as connection:
        for statement in (part for query in queries for part in query.split(";") if part.strip()):
            connection.execute(statement.encode())


def test_every_metric_table_and_column_is_documented() -> None:
    metrics = re.findall(r'"(surefoot_\w+)"', "".join(path.read_text() for path in METRICS))
    columns = [name for table in metadata.tables.values() for name in (table.name, *table.columns.keys())]
    for page, names in {"operations.md": metrics, "tables.md": columns}.items():
        text = (ROOT / "docs" / page).read_text()
        assert names
        assert [name for name in names if f"`{name}" not in text] == [], page
