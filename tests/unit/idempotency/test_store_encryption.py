"""Requests at rest are encrypted, and secrets can be changed."""

import pytest
from cryptography.fernet import Fernet
from pydantic import SecretStr

from surefoot.errors import ConfigurationError
from surefoot.idempotency.store.encryption import Encryption
from surefoot.idempotency.values import StoredRequest

OLD, NEW = (SecretStr(Fernet.generate_key().decode()) for _ in range(2))
REQUEST = StoredRequest(
    method="POST",
    path="/v1/charges",
    query="a=1&b=%20",
    headers=(("content-type", "application/json"), ("accept", "*/*")),
    body=b'{"card": "4242424242424242"}\x00\xff',
    tenant="shop",
)


def test_a_request_comes_back_as_it_was() -> None:
    encryption = Encryption([NEW])
    assert encryption.decrypted(encryption.encrypted(REQUEST)) == REQUEST


def test_nothing_of_it_can_be_read_at_rest() -> None:
    stored = Encryption([NEW]).encrypted(REQUEST)
    assert b"4242" not in stored
    assert b"charges" not in stored


def test_what_an_old_secret_encrypted_can_be_read_while_it_is_in_the_list() -> None:
    stored = Encryption([OLD]).encrypted(REQUEST)
    assert Encryption([NEW, OLD]).decrypted(stored) == REQUEST
    with pytest.raises(ConfigurationError, match="Keep the old secret behind the new one"):
        Encryption([NEW]).decrypted(stored)


def test_the_first_secret_encrypts() -> None:
    stored = Encryption([NEW, OLD]).encrypted(REQUEST)
    assert Encryption([NEW]).decrypted(stored) == REQUEST


def test_without_a_secret_it_is_said_how_to_make_one() -> None:
    with pytest.raises(ConfigurationError, match=r"Fernet\.generate_key"):
        Encryption([]).encrypted(REQUEST)


def test_a_secret_that_is_none_is_refused_at_once_and_not_shown() -> None:
    with pytest.raises(ConfigurationError, match="not a Fernet key") as refused:
        Encryption([SecretStr("hunter2")])
    assert "hunter2" not in str(refused.value)
