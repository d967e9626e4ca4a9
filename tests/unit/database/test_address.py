"""Database addresses are read as psql reads them; what cannot be understood is refused with a sentence."""

from pathlib import Path

import pytest

from surefoot.database.address import read_address, shown_url
from surefoot.errors import ConfigurationError

BASE = "postgresql://app:s3cret@db:5432/shop"


@pytest.mark.parametrize(
    ("given", "dsn"),
    [
        (BASE, BASE),
        ("postgres://db/shop", "postgresql://db/shop"),
        ("postgresql+asyncpg://db/shop", "postgresql://db/shop"),
        ("postgresql+psycopg://db/shop?sslmode=require", "postgresql://db/shop?sslmode=require"),
        (f"{BASE}?ssl=require", f"{BASE}?sslmode=require"),
        (f"{BASE}?ssl=true", f"{BASE}?sslmode=require"),
        (f"{BASE}?ssl=verify-full", f"{BASE}?sslmode=verify-full"),
        (f"{BASE}?ssl=off", f"{BASE}?sslmode=disable"),
        (f"{BASE}?channel_binding=prefer", BASE),
        ("postgresql://a:1,b:2/shop?target_session_attrs=read-write",) * 2,
        ("postgresql://[::1]:5432/shop", "postgresql://[::1]:5432/shop"),
        ("postgresql:///shop?host=%2Frun%2Fpostgresql", "postgresql:///shop?host=/run/postgresql"),
        ("postgresql:///?service=shop", "postgresql:///?service=shop"),
        (f"{BASE}?options=-c%20statement_timeout%3D5s", f"{BASE}?options=-c%20statement_timeout%3D5s"),
        (f"{BASE}?options=-c+x", f"{BASE}?options=-c%2Bx"),
    ],
)
def test_an_address_is_understood(given: str, dsn: str) -> None:
    assert read_address(given).dsn == dsn


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("mysql://db/shop", "is not a PostgreSQL URL"),
        ("host=db dbname=shop", "is not a PostgreSQL URL"),
        (f"{BASE}?sslmod=require", "'sslmod', which Surefoot does not know"),
        (f"{BASE}?prepared_statement_cache_size=0", "those of your SQLAlchemy engine into its arguments"),
        (f"{BASE}?sslmode=yes", "It is one of disable, allow, prefer, require, verify-ca, verify-full"),
        (f"{BASE}?ssl=require&sslmode=require", "both ssl and sslmode"),
        (f"{BASE}?sslmode=require&sslmode=disable", "'sslmode' twice"),
        (f"{BASE}?target_session_attrs=leader", "It is one of any, primary"),
        (f"{BASE}?sslrootcert=/no/such.pem", "names the sslrootcert /no/such.pem, and there is no such file"),
        (f"{BASE}?connect_timeout=soon", "It is a number of seconds"),
        (f"{BASE}?channel_binding=require", "the driver (asyncpg) cannot do"),
        (f"{BASE}?sslmode", "name=value pairs"),
        ("postgresql://app:s3cret@db:port/shop", "its port is no number"),
        ("postgresql://app:s3cret@db:99999/shop", "its port is no number"),
        ("postgresql://app:s3cret@a:1,b:x/shop", "its port is no number"),
        ("postgresql://app:s3cret/@db/shop", "with / : @ in a password as %2F %3A %40"),
    ],
)
def test_an_address_that_cannot_be_understood_is_refused_with_a_sentence(given: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_address(given)
    assert sentence in str(refused.value)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        BASE,
        "postgresql://app:p@s3cret@db/shop",
        "postgresql://db/shop?user=app&password=s3cret",
        f"{BASE}?sslpassword=s3cret",
    ],
)
def test_no_password_is_shown(url: str) -> None:
    assert "s3cret" not in shown_url(url)
    assert "s3cret" not in read_address(url).shown


def test_a_certificate_that_is_there_is_taken(tmp_path: Path) -> None:
    certificate = tmp_path / "root.pem"
    certificate.write_text("")
    assert read_address(f"{BASE}?sslrootcert={certificate}").dsn.endswith(f"sslrootcert={certificate}")


def test_the_name_of_the_application_goes_before_that_of_the_part() -> None:
    assert read_address(BASE).application("surefoot relay") == "surefoot relay"
    assert read_address(f"{BASE}?application_name=shop").application("surefoot relay") == "shop: surefoot relay"


def test_a_connect_timeout_of_zero_means_ours() -> None:
    assert read_address(f"{BASE}?connect_timeout=3").connect_timeout_s == 3.0
    assert read_address(f"{BASE}?connect_timeout=0").connect_timeout_s is None
