"""`surefoot audit …` as an auditor runs it: as a process, with the exit codes a script can go by."""

import asyncio
import json
from pathlib import Path

import pytest

from surefoot.audit import record as audit
from surefoot.audit.chain import AuditRow, seal_of
from surefoot.audit.record import Act
from surefoot.database.connection import Connection, connect
from tests.support.command_line import assert_says, surefoot
from tests.support.processes import Done

pytestmark = pytest.mark.slow
SCHEMA = "surefoot"
SEAL = "ab" * 32


async def filled(url: str, count: int, *statements: str) -> tuple[int, str] | None:
    """A log of so many rows, to which somebody who owns it did something. Its head before that."""
    connection: Connection = await connect(url, name="test")
    try:
        for number in range(1, count + 1):
            async with connection.transaction():
                act = Act("ada", "reveal", "done", f"letter {number}", "[bold]The customer asked[/]: ä", {"n": number})
                await audit.record(connection, SCHEMA, act)
        head = await audit.head(connection, SCHEMA)
        await connection.execute(f"ALTER TABLE {SCHEMA}.audit_log DISABLE TRIGGER USER")
        for statement in statements:
            await connection.execute(statement)
        return head
    finally:
        await connection.close()


async def run(url: str, *arguments: str) -> Done:
    return await surefoot("audit", *arguments, environment={"SUREFOOT_DATABASE": url})


async def test_a_whole_log_is_said_to_be_whole_with_its_head(database_url: str) -> None:
    head = await filled(database_url, 3)
    assert head is not None
    verified, printed = await asyncio.gather(run(database_url, "verify"), run(database_url, "head"))
    assert verified.code == 0, verified
    assert "The audit log is whole: 3 rows" in verified.out
    assert f"Its head: 3:{head[1]}" in verified.out
    assert printed == Done(0, f"3:{head[1]}\n", "")
    again = await run(database_url, "verify", "--head", printed.out.strip())
    assert again.code == 0
    assert "--head" not in again.out


async def test_what_was_done_to_a_log_is_said_row_by_row_with_exit_code_1(database_url: str) -> None:
    head = await filled(
        database_url,
        9,
        "UPDATE surefoot.audit_log SET person = 'eve' WHERE number = 2",
        "DELETE FROM surefoot.audit_log WHERE number IN (4, 5, 9)",
    )
    assert head is not None
    done = await run(database_url, "verify", "--head", f"{head[0]}:{head[1]}")
    assert done.code == 1, done
    assert done.out.splitlines() == [
        "✗ Row 2 was changed: what is there is not what was sealed.",
        "✗ Rows 4 to 5 were removed.",
        "✗ Row 9 was removed.",
    ]


async def test_an_empty_log_is_no_mistake_but_has_no_head(database_url: str) -> None:
    verified, head = await asyncio.gather(run(database_url, "verify"), run(database_url, "head"))
    assert (verified.code, verified.out) == (0, "The audit log is empty: nothing was recorded yet.\n")
    assert_says(head, "The audit log is empty: it has no head yet.")


async def test_an_export_can_be_checked_from_the_file_alone(database_url: str, tmp_path: Path) -> None:
    await filled(database_url, 5)
    file = tmp_path / "audit.jsonl"
    to_file, to_stdout = await asyncio.gather(
        run(database_url, "export", "--format", "jsonl", "--output", str(file)),
        run(database_url, "export", "--after", "3"),
    )
    assert to_file.code == to_stdout.code == 0, (to_file, to_stdout)
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    previous = "00" * 32
    for number, line in enumerate(lines, start=1):
        seal = line.pop("seal")
        row = AuditRow(**{**line, "previous": bytes.fromhex(line["previous"])})
        assert (line["number"], line["previous"], seal_of(row).hex()) == (number, previous, seal)
        previous = seal
    assert lines[0]["reason"] == "[bold]The customer asked[/]: ä"
    assert [json.loads(line)["number"] for line in to_stdout.out.splitlines()] == [4, 5]
    assert "5 rows as jsonl." in to_file.err


async def test_an_export_does_not_write_over_a_file(database_url: str, tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    file.write_text("what was there")
    assert_says(await run(database_url, "export", "--output", str(file)), "cannot be written: File exists")
    assert file.read_text() == "what was there"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["verify", "--head", "7"], "'7' is no head. Write it as `surefoot audit head` printed it"),
        (["verify", "--head", f"0:{SEAL}"], "is no head"),
        (["verify", "--head", f"7:{SEAL}00"], "is no head"),
        (["verify", "--schema", "Bad-Name"], "cannot be the schema"),
        (["verify", "--schema", "elsewhere"], "Run: surefoot migrate"),
        (["verify", "--database", "postgresql://u:secret@127.0.0.1:1/x"], "does not answer"),
        (["head", "--database", "mysql://u:secret@h/x"], "is not a PostgreSQL URL"),
        (["head", "--schema", "elsewhere"], "Run: surefoot migrate"),
        (["export", "--format", "xml"], "'xml' is not"),
        (["export", "--after", "-1"], "Input should be greater than or equal to 0"),
        (["export", "--after", str(2**63)], "Input should be less than or equal to"),
        (["export", "--output", "/no/such/place/file"], "cannot be written: No such file or directory"),
        (["export", "--schema", "elsewhere"], "Run: surefoot migrate"),
    ],
)
async def test_a_mistake_is_answered_with_a_sentence(database_url: str, arguments: list[str], says: str) -> None:
    done = await run(database_url, *arguments)
    assert_says(done, says)
    assert "secret" not in done.err + done.out


async def test_without_a_database_it_says_how_to_give_one() -> None:
    assert_says(await surefoot("audit", "verify"), "No database was given. Say --database")
