"""API keys: whose they are, and what is no key at all."""

import hashlib

import pytest
from pydantic import SecretStr

from services.payment.api.access import Access, access_of, tenants_by_hash
from services.payment.settings import ApiSettings
from surefoot.errors import ConfigurationError
from surefoot.http.middleware import Refusal
from tests.support.corpus import each_of

ACME = "sk_acme_0123456789abcdef"
BOLT = "sk_bolt_0123456789abcdef"
HASH_OF_BOLT = "sha256:" + hashlib.sha256(BOLT.encode()).hexdigest()


def access() -> Access:
    return Access(tenants_by_hash(f'{{"{ACME}": "acme", "{HASH_OF_BOLT}": "bolt"}}'))


def test_a_key_given_as_itself_or_as_its_hash_opens_for_its_tenant() -> None:
    assert access().tenant_of(f"Bearer {ACME}") == "acme"
    assert access().tenant_of(f"bearer  {BOLT} ") == "bolt"


@each_of(
    "said",
    [None, "", "Bearer", "Bearer ", ACME, f"Basic {ACME}", f"Bearer {ACME}x", f"Bearer {HASH_OF_BOLT}", "Bearer ü" * 9],
)
def test_what_is_no_known_key_is_refused_with_a_sentence(said: str | None) -> None:
    refused = access().tenant_of(said)
    assert isinstance(refused, Refusal)
    assert refused.sentence.endswith(".")


def test_the_hash_of_a_key_is_no_key() -> None:
    assert isinstance(access().tenant_of(f"Bearer {HASH_OF_BOLT.removeprefix('sha256:')}"), Refusal)


@each_of(
    ("said", "words"),
    [
        ("nonsense", "no JSON"),
        ("[]", "an object"),
        ("{}", "an object"),
        ('{"short": "acme"}', "20 to 500"),
        (f'{{"{ACME}": "Not a tenant"}}', "tenant of key 1"),
        (f'{{"{ACME}": 7}}', "tenant of key 1"),
        ('{"sha256:abc": "acme"}', "64 hex digits"),
        (f'{{"{BOLT}": "bolt", "{HASH_OF_BOLT}": "bolt"}}', "twice"),
    ],
)
def test_what_is_wrong_with_the_setting_is_told_and_no_key_is_quoted(said: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as error:
        tenants_by_hash(said)
    assert ACME not in str(error.value)
    assert "short" not in str(error.value)


def test_without_keys_it_does_not_start() -> None:
    with pytest.raises(ConfigurationError, match="SUREFOOT_PAYMENT_API_KEYS is not set"):
        access_of(ApiSettings(keys=None), host="127.0.0.1", open_=False)


def test_open_is_for_this_machine_alone() -> None:
    assert access_of(ApiSettings(keys=None), host="127.0.0.1", open_=True).tenant_of(None) == "local"
    with pytest.raises(ConfigurationError, match="could charge and refund"):
        access_of(ApiSettings(keys=None), host="0.0.0.0", open_=True)  # noqa: S104


def test_settings_do_not_show_keys() -> None:
    assert ACME not in repr(ApiSettings(keys=SecretStr(f'{{"{ACME}": "acme"}}')))
