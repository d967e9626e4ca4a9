"""Keys and sets of them: what each allows, when a set is asked for again, how long an old one counts."""

import json
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from pydantic import SecretStr

from surefoot.audit.access import checked_name
from surefoot.audit.keys import Key, KeysAway, KeySet, key_set, key_source, public_key, shared_secret
from surefoot.audit.settings import AccessSettings
from surefoot.errors import ConfigurationError
from tests.support.dlq.token_issuer import Issuer, curve_issuer, rsa_issuer


class Answers:
    """What the issuer answers, and how often it was asked."""

    def __init__(self, *issuers: Issuer) -> None:
        self.text = json.dumps({"keys": [issuer.jwk for issuer in issuers]}).encode()
        self.asked = 0
        self.is_away = False

    async def __call__(self) -> bytes:
        self.asked += 1
        if self.is_away:
            raise OSError("no route to host")
        return self.text


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def a_set(answers: Answers, clock: Clock) -> KeySet:
    return KeySet(
        answers,
        fresh_for=timedelta(seconds=300),
        asked_at_most_every=timedelta(seconds=10),
        kept_for=timedelta(seconds=3600),
        clock=clock,
    )


def test_an_algorithm_is_its_keys_to_say() -> None:
    assert shared_secret("s" * 32).algorithms == ("HS256", "HS384", "HS512")
    assert public_key(rsa_issuer().public_pem, "here").algorithms == (
        "RS256", "RS384", "RS512", "PS256", "PS384", "PS512",
    )  # fmt: skip
    assert public_key(curve_issuer().public_pem, "here").algorithms == ("ES256",)


def test_a_key_of_a_set_is_for_the_one_algorithm_it_names() -> None:
    found = key_set(json.dumps({"keys": [rsa_issuer().jwk]}).encode())
    assert found["k1"].algorithms == ("RS256",)


@pytest.mark.parametrize(
    "changed",
    [
        {"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA", "alg": "HS256"},
        {"use": "enc"},
        {"alg": "HS256"},
        {"alg": "ES256"},
        {"kty": "unheard of"},
        {"n": "!"},
        {"d": "AQAB"},
    ],
)
def test_a_key_that_cannot_be_used_is_passed_over(changed: dict[str, str]) -> None:
    keys = [{**rsa_issuer("bad").jwk, **changed}, rsa_issuer("good").jwk, "no key"]
    assert set(key_set(json.dumps({"keys": keys}).encode())) == {"good"}


def test_a_small_or_unusual_key_is_refused() -> None:
    small = Issuer(rsa.generate_private_key(public_exponent=65537, key_size=1024), "RS256")  # noqa: S505
    unusual = Issuer(ec.generate_private_key(ec.SECP256K1()), "ES256K")
    for issuer in (small, unusual):
        with pytest.raises(ConfigurationError, match="cannot be used"):
            public_key(issuer.public_pem, "here")
        assert key_set(json.dumps({"keys": [issuer.jwk]}).encode()) == {}


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"keys": {}}', b'{"keys": [' + b"1," * 100 + b"1]}"])
def test_what_is_no_key_set_is_told_so(text: bytes) -> None:
    with pytest.raises(ConfigurationError, match="no key set"):
        key_set(text)


def test_what_is_no_public_key_is_told_so() -> None:
    with pytest.raises(ConfigurationError, match="has no public key in PEM"):
        public_key(b"no key", "here")


async def test_a_set_is_asked_for_once_while_it_is_fresh() -> None:
    answers, clock = Answers(rsa_issuer()), Clock()
    keys = a_set(answers, clock)
    for _ in range(3):
        assert isinstance(await keys.find("k1"), Key)
    assert answers.asked == 1
    clock.now = 301
    assert isinstance(await keys.find("k1"), Key)
    assert answers.asked == 2


async def test_unknown_names_do_not_make_us_ask_more_often_than_allowed() -> None:
    answers, clock = Answers(rsa_issuer()), Clock()
    keys = a_set(answers, clock)
    for second in range(100):
        clock.now = second
        assert await keys.find(f"made up {second}") is None
    assert answers.asked == 10


async def test_while_the_issuer_is_away_the_last_keys_count_for_a_bounded_time() -> None:
    answers, clock = Answers(rsa_issuer()), Clock()
    keys = a_set(answers, clock)
    assert isinstance(await keys.find("k1"), Key)
    answers.is_away = True
    clock.now = 3600
    assert isinstance(await keys.find("k1"), Key)
    clock.now = 3601
    with pytest.raises(KeysAway):
        await keys.find("k1")


async def test_without_a_name_only_an_only_key_is_meant() -> None:
    assert isinstance(await a_set(Answers(rsa_issuer()), Clock()).find(None), Key)
    assert await a_set(Answers(rsa_issuer("k1"), rsa_issuer("k2")), Clock()).find(None) is None


def test_who_may_be_asked_for_tokens_must_be_said_once_and_whole() -> None:
    whole: dict[str, Any] = {"jwt_audience": "a", "jwt_issuer": "i"}
    assert not AccessSettings().accepts_jwt
    assert AccessSettings(jwt_jwks="https://issuer.example/keys", **whole).accepts_jwt
    for settings, says in (
        ({"jwt_jwks": "keys.json"}, "only with SUREFOOT_DLQ_JWT_AUDIENCE"),
        ({"jwt_jwks": "keys.json", "jwt_audience": "a", "jwt_issuer": ""}, "only with SUREFOOT_DLQ_JWT_AUDIENCE"),
        ({"jwt_jwks": "http://issuer.example/keys", **whole}, "over https:// only"),
        ({"jwt_secret": SecretStr("short"), **whole}, "fewer than 32 bytes"),
        ({"jwt_secret": SecretStr("s" * 32), "jwt_jwks": "keys.json", **whole}, "More than one"),
    ):
        with pytest.raises(ConfigurationError, match=says):
            AccessSettings(**settings)


def test_a_file_of_keys_that_is_not_there_is_told_at_the_start() -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        key_source(AccessSettings(jwt_jwks="/nowhere/keys.json", jwt_audience="a", jwt_issuer="i"))


def test_two_names_that_look_alike_are_one() -> None:
    assert checked_name(" Zoe\u0308 ") == checked_name("Zo\u00eb") == "Zo\u00eb"
    assert [checked_name(name) for name in ("", "a\x00", "x" * 201, "Anonymous", "surefoot", 7, None)] == [None] * 7
