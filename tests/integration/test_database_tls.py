"""Every way into the database works on a PostgreSQL 15 that takes TLS connections alone, as managed ones do."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from surefoot.database.connection import close_quietly, connect, create_pool
from surefoot.database.engine import create_engine
from surefoot.database.migrate import migrate
from surefoot.errors import DatabaseUnavailable
from tests.support.command_line import assert_says, surefoot
from tests.support.other_postgres import OtherPostgres, other_postgres
from tests.support.tls import Certificates, make_certificates

pytestmark = pytest.mark.slow
TLS_ONLY = ["hostssl all all all scram-sha-256"]
ENCRYPTED = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(certificates: Certificates) -> Iterator[OtherPostgres]:
    with other_postgres(15, access=TLS_ONLY, certificates=certificates) as found:
        yield found


@pytest.mark.parametrize("parameters", ["sslmode=require", "ssl=require", "ssl=true", "sslmode=verify-full", ""])
async def test_every_kind_of_connection_is_encrypted(
    server: OtherPostgres, certificates: Certificates, parameters: str
) -> None:
    if parameters == "sslmode=verify-full":
        parameters += f"&sslrootcert={certificates.authority}"
    url = server.url(parameters)

    connection = await connect(url, name="test")
    assert await connection.fetchval(ENCRYPTED) is True
    await close_quietly(connection)
    pool = await create_pool(url, name="test", size=1)
    async with pool.acquire() as pooled:
        assert await pooled.fetchval(ENCRYPTED) is True
    await pool.close()
    engine = create_engine(url, name="test")
    async with engine.connect() as opened:
        assert (await opened.scalar(text(ENCRYPTED))) is True
    await engine.dispose()


async def test_the_commands_of_the_first_half_hour_work_with_sslmode(server: OtherPostgres) -> None:
    url = server.url("sslmode=require")
    for command in (["migrate"], ["migrate"], ["outbox", "list"], ["parked", "list"], ["saga", "list"]):
        done = await surefoot(*command, "--database", url)
        assert done.code == 0, (command, done)
    done = await surefoot("doctor", "--database", url)
    assert "Traceback" not in done.err
    assert "The schema is at version" in done.out


async def test_a_server_whose_authority_is_another_is_refused(server: OtherPostgres, tmp_path: Path) -> None:
    other = make_certificates(tmp_path / "other")
    with pytest.raises(DatabaseUnavailable, match="certificate verify failed"):
        await connect(server.url(f"sslmode=verify-full&sslrootcert={other.authority}"), name="test")


async def test_a_connection_without_tls_is_refused_by_the_server_with_its_own_words(server: OtherPostgres) -> None:
    assert_says(await surefoot("migrate", "--database", server.url("sslmode=disable")), "no encryption")


async def test_the_variables_of_libpq_choose_tls(server: OtherPostgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSSLMODE", "disable")
    with pytest.raises(DatabaseUnavailable, match="no encryption"):
        await connect(server.url(), name="test")
    monkeypatch.setenv("PGSSLMODE", "require")
    await close_quietly(await connect(server.url(), name="test"))


async def test_options_of_the_server_reach_it_and_the_first_host_that_answers_is_taken(server: OtherPostgres) -> None:
    url = server.url("sslmode=require&options=-c%20statement_timeout%3D7s&target_session_attrs=read-write")
    several = url.replace("@localhost:", "@localhost:1,localhost:")
    connection = await connect(several, name="test")
    assert await connection.fetchval("SHOW statement_timeout") == "7s"
    await close_quietly(connection)


async def test_the_tables_of_postgres_15_are_migrated(server: OtherPostgres) -> None:
    await migrate(server.url("sslmode=require"), schema="fifteen")
