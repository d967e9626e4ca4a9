"""A process accepts tables that are newer than itself, down to the oldest version that `migrate` stores with them."""

import asyncpg
import pytest

from surefoot.cli.diagnosis import check_version as doctor_says
from surefoot.cli.process import check_version
from surefoot.database.migrate import migrate
from surefoot.database.version import OLDEST_PROGRAM, TablesVersion, newest_version, stored_version
from surefoot.errors import SchemaOutdated


@pytest.mark.parametrize(
    ("version", "oldest", "program", "fits"),
    [
        ("0006", "0006", "0006", True),
        ("0009", "0006", "0006", True),
        ("0009", "0006", "0008", True),
        ("0009", "0008", "0007", False),
        ("0006", "0006", "0007", False),
        ("0006", None, "0006", True),
        ("0007", None, "0006", False),
        (None, None, "0006", False),
    ],
)
def test_tables_admit_programs_from_the_oldest_to_their_own_version(
    version: str | None, oldest: str | None, program: str, fits: bool
) -> None:
    found = TablesVersion(version, oldest)
    assert found.admits(program) is fits
    assert (doctor_says(found, program).level == "ok") is fits


async def test_migrate_stores_the_oldest_version_whose_processes_may_run(empty_database_url: str) -> None:
    await migrate(empty_database_url)
    assert await stored_version(empty_database_url) == TablesVersion(newest_version(), OLDEST_PROGRAM)


async def test_a_process_runs_on_newer_tables_that_admit_it(empty_database_url: str) -> None:
    await migrate(empty_database_url)
    await _pretend(empty_database_url, "version_num = '0999'")
    await check_version(empty_database_url, "surefoot")


async def test_a_process_that_newer_tables_no_longer_admit_says_to_update_it(empty_database_url: str) -> None:
    await migrate(empty_database_url)
    await _pretend(empty_database_url, "version_num = '0999', oldest_program = '0998'")
    with pytest.raises(SchemaOutdated, match=r"is at version 0999, and takes programs from 0998 on.*Update Surefoot"):
        await check_version(empty_database_url, "surefoot")


async def test_a_process_that_is_newer_than_the_tables_says_to_migrate(empty_database_url: str) -> None:
    await migrate(empty_database_url)
    await _pretend(empty_database_url, "version_num = '0001'")
    with pytest.raises(SchemaOutdated, match=r"is at version 0001, this program needs .*surefoot migrate"):
        await check_version(empty_database_url, "surefoot")


async def test_tables_migrated_before_there_were_ranges_take_their_own_version_and_learn_the_range(
    empty_database_url: str,
) -> None:
    await migrate(empty_database_url)
    connection = await asyncpg.connect(empty_database_url)
    await connection.execute("ALTER TABLE surefoot.schema_version DROP COLUMN oldest_program")
    await connection.close()
    await check_version(empty_database_url, "surefoot")

    await migrate(empty_database_url)

    assert (await stored_version(empty_database_url)).oldest_program == OLDEST_PROGRAM


async def _pretend(url: str, values: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(f"UPDATE surefoot.schema_version SET {values}")
    await connection.close()
