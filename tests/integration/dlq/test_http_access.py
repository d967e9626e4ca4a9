"""Who gets in: local tokens and JWTs, and everything that is no token, refused and recorded."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import httpx
import jwt
import pytest

from surefoot.admin import PREFIX
from surefoot.audit import keys
from surefoot.audit.access import Access, NoSuchToken, Tokens
from surefoot.audit.settings import AccessSettings
from surefoot.database.connection import Connection
from tests.support.corpus import each_of
from tests.support.dlq.http_harness import GENEROUS, Ground, assert_problem, ground_at
from tests.support.dlq.token_issuer import (
    AUDIENCE,
    ISSUER,
    Issuer,
    by_hand,
    claims,
    curve_issuer,
    edwards_issuer,
    rsa_issuer,
)

ME = f"{PREFIX}/jobs/00000000-0000-0000-0000-000000000000/pause"
"""Asked with a body that does not fit: 422 is an operator or more, 403 somebody else, 401 nobody."""


@pytest.fixture
async def ground(database_url: str) -> AsyncIterator[Ground]:
    async with ground_at(database_url, people=["otto"]) as ground:
        yield ground


@pytest.fixture
def issuer() -> Issuer:
    return rsa_issuer()


@asynccontextmanager
async def accepting(url: str, **settings: Any) -> AsyncIterator[Ground]:
    made = AccessSettings(jwt_audience=AUDIENCE, jwt_issuer=ISSUER, **GENEROUS, **settings)
    async with ground_at(url, access=Access(made), people=[]) as ground:
        yield ground


@pytest.fixture
async def with_jwks(database_url: str, issuer: Issuer, tmp_path: Path) -> AsyncIterator[Ground]:
    (tmp_path / "jwks.json").write_text(json.dumps({"keys": [issuer.jwk]}))
    async with accepting(database_url, jwt_jwks=str(tmp_path / "jwks.json")) as ground:
        yield ground


async def bearing(ground: Ground, token: str) -> httpx.Response:
    return await ground.client.post(ME, json={}, headers={"Authorization": f"Bearer {token}"})


async def refusals(ground: Ground) -> list[dict[str, Any]]:
    """The details of everything that was refused, in order."""
    rows = await ground.connection.fetch(
        "SELECT person, action, about, details::text AS details FROM surefoot.audit_log WHERE outcome = 'refused'"
        " ORDER BY number"
    )
    for row in rows:
        assert (row["person"], row["action"], row["about"]) == ("anonymous", "access", f"POST {ME}")
    return [json.loads(row["details"]) for row in rows]


async def the_only_refusal(ground: Ground) -> dict[str, Any]:
    (refusal,) = await refusals(ground)
    return refusal


async def test_without_a_token_nobody_gets_in(ground: Ground) -> None:
    answer = await ground.client.post(ME, json={})
    assert_problem(answer, 401, "Say who you are: Authorization: Bearer <token>.")
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert (await the_only_refusal(ground))["reason"] == "no_token"


@each_of("header", ["Basic b3R0bzpvdHRv", "Bearer", "Bearer ", "sft_x", "Bearer \u00e9", "Bearer a.b.c"])
async def test_what_is_no_token_lets_nobody_in(ground: Ground, header: str) -> None:
    before = len(await refusals(ground))
    answer = await ground.client.post(ME, json={}, headers=[(b"Authorization", header.encode())])
    assert_problem(answer, 401, "")
    (refusal,) = (await refusals(ground))[before:]
    assert refusal["reason"] in ("not_a_token", "not_accepted")


async def test_two_headers_that_say_who_let_nobody_in(ground: Ground) -> None:
    good = ("Authorization", f"Bearer {ground.tokens['otto']}")
    answer = await ground.client.post(ME, json={}, headers=[good, ("Authorization", "Bearer x")])
    assert_problem(answer, 401, "more than one Authorization header")


async def test_a_local_token_lets_its_person_in(ground: Ground) -> None:
    assert (await bearing(ground, ground.tokens["otto"])).status_code == 422


async def test_a_local_token_that_nobody_was_given_lets_nobody_in(ground: Ground) -> None:
    answer = await bearing(ground, ground.tokens["otto"][:-1] + "_")
    assert_problem(answer, 401, "Nobody was given this token")
    assert (await the_only_refusal(ground))["reason"] == "unknown_token"


async def test_a_local_token_that_was_revoked_lets_nobody_in(ground: Ground) -> None:
    token_id = await ground.connection.fetchval("SELECT id FROM surefoot.admin_tokens")
    tokens = Tokens(cast(Connection, ground.connection), "surefoot")
    for _ in range(2):
        async with ground.connection.transaction():
            await tokens.revoke(token_id, by="root")
    assert_problem(await bearing(ground, ground.tokens["otto"]), 401, "was revoked")
    with pytest.raises(NoSuchToken):
        async with ground.connection.transaction():
            await tokens.revoke(UUID(int=0), by="root")


async def test_a_local_token_that_has_expired_lets_nobody_in(ground: Ground) -> None:
    await ground.connection.execute("UPDATE surefoot.admin_tokens SET expires_at = now()")
    assert_problem(await bearing(ground, ground.tokens["otto"]), 401, "has expired")
    assert (await the_only_refusal(ground))["reason"] == "expired"


async def test_a_role_that_nobody_knows_lets_nobody_in(ground: Ground) -> None:
    await ground.connection.execute("UPDATE surefoot.admin_tokens SET role = 'GOD'")
    assert_problem(await bearing(ground, ground.tokens["otto"]), 401, "gives no role that is known here")


async def test_a_token_is_nowhere_but_with_its_person(ground: Ground) -> None:
    """Neither in the tables nor, after it was refused, in the record of that."""
    token = ground.tokens["otto"]
    await bearing(ground, token + "x")
    rows = await ground.connection.fetch(
        """SELECT t::text FROM surefoot.admin_tokens t UNION ALL SELECT a::text FROM surefoot.audit_log a"""
    )
    assert len(rows) == 3
    assert not any(token[4:20] in row[0] for row in rows)


async def test_a_list_of_tokens_says_which_are_usable(ground: Ground) -> None:
    tokens = Tokens(cast(Connection, ground.connection), "surefoot")
    (otto,) = await tokens.list()
    assert (otto.person, otto.role, otto.is_usable) == ("otto", "OPERATOR", True)
    assert otto.expires_at - otto.created_at == timedelta(days=1)


@pytest.mark.parametrize("make", [rsa_issuer, curve_issuer, edwards_issuer])
async def test_a_jwt_of_a_known_key_lets_its_person_in(database_url: str, tmp_path: Path, make: Any) -> None:
    issuer = make()
    (tmp_path / "jwks.json").write_text(json.dumps({"keys": [rsa_issuer("other").jwk, issuer.jwk]}))
    async with accepting(database_url, jwt_jwks=str(tmp_path / "jwks.json")) as ground:
        assert (await bearing(ground, issuer.token())).status_code == 422
        assert (await bearing(ground, issuer.token("VIEWER"))).status_code == 403


async def test_the_highest_of_several_roles_counts(with_jwks: Ground, issuer: Issuer) -> None:
    assert (await bearing(with_jwks, issuer.token(["VIEWER", "dba", "OPERATOR"]))).status_code == 422
    assert (await bearing(with_jwks, issuer.token(["VIEWER", "dba"]))).status_code == 403


@each_of(
    ("changed", "reason"),
    [
        ({"exp": int(time.time()) - 3600}, "expired"),
        ({"exp": None}, "not_valid"),
        ({"exp": "soon"}, "not_valid"),
        ({"exp": float("inf")}, "not_valid"),
        ({"nbf": int(time.time()) + 3600}, "not_valid"),
        ({"aud": "somebody-else"}, "wrong_audience"),
        ({"aud": None}, "not_valid"),
        ({"iss": "https://evil.example"}, "wrong_issuer"),
        ({"iss": ISSUER[:-1]}, "wrong_issuer"),
        ({"iss": None}, "not_valid"),
        ({"sub": None}, "not_valid"),
        ({"sub": " "}, "not_valid"),
        ({"sub": "anonymous"}, "not_valid"),
        ({"sub": "otto\x00"}, "not_valid"),
        ({"role": "GOD"}, "no_role"),
        ({"role": None}, "no_role"),
        ({"role": {"OPERATOR": True}}, "no_role"),
        ({"role": [["OPERATOR"]]}, "no_role"),
        ({"role": "operator"}, "no_role"),
    ],
)
async def test_a_jwt_with_a_claim_that_does_not_count_lets_nobody_in(
    with_jwks: Ground, issuer: Issuer, changed: dict[str, Any], reason: str
) -> None:
    before = len(await refusals(with_jwks))
    assert_problem(await bearing(with_jwks, issuer.token(**changed)), 401, "This token")
    assert [refusal["reason"] for refusal in (await refusals(with_jwks))[before:]] == [reason]


async def test_clocks_may_be_a_little_apart(with_jwks: Ground, issuer: Issuer) -> None:
    assert (await bearing(with_jwks, issuer.token(exp=int(time.time()) - 3))).status_code == 422


async def test_a_jwt_of_another_key_lets_nobody_in(with_jwks: Ground) -> None:
    assert_problem(await bearing(with_jwks, rsa_issuer().token()), 401, "signature is wrong")
    assert (await the_only_refusal(with_jwks))["reason"] == "bad_signature"


async def test_a_jwt_of_a_key_that_nobody_knows_lets_nobody_in(with_jwks: Ground) -> None:
    assert_problem(await bearing(with_jwks, rsa_issuer("k2").token()), 401, "a key that is not known here")


@pytest.mark.parametrize("none", ["none", "None", "NONE", ""])
async def test_an_unsigned_jwt_lets_nobody_in(with_jwks: Ground, none: str) -> None:
    token = by_hand({"alg": none, "typ": "JWT", "kid": "k1"}, claims("SUPER_ADMIN"))
    assert_problem(await bearing(with_jwks, token), 401, "")
    assert (await the_only_refusal(with_jwks))["reason"] in ("bad_signature", "not_a_token")


async def test_a_public_key_is_no_shared_secret(with_jwks: Ground, issuer: Issuer) -> None:
    """HS256 over the RSA key that everybody can read, in each way in which it is written down."""
    header = {"alg": "HS256", "typ": "JWT", "kid": "k1"}
    for secret in (issuer.public_pem, issuer.public_pem.strip(), json.dumps(issuer.jwk).encode()):
        answer = await bearing(with_jwks, by_hand(header, claims("SUPER_ADMIN"), secret))
        assert_problem(answer, 401, "signed in a way that its key does not allow")
    assert len(await with_jwks.refused()) == 3


async def test_a_key_that_the_token_brings_along_counts_for_nothing(with_jwks: Ground) -> None:
    attacker = rsa_issuer()
    token = jwt.encode(claims("SUPER_ADMIN"), attacker.private, "RS256", {"kid": "k1", "jwk": attacker.jwk})
    assert_problem(await bearing(with_jwks, token), 401, "signature is wrong")


async def test_a_key_set_with_a_new_key_is_read_again(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "ASKED_AT_MOST_EVERY", timedelta(0))
    old, new = rsa_issuer("k1"), rsa_issuer("k2")
    jwks = tmp_path / "jwks.json"
    jwks.write_text(json.dumps({"keys": [old.jwk]}))
    async with accepting(database_url, jwt_jwks=str(jwks)) as ground:
        assert (await bearing(ground, old.token())).status_code == 422
        jwks.write_text(json.dumps({"keys": [new.jwk]}))
        assert (await bearing(ground, new.token())).status_code == 422
        assert (await bearing(ground, old.token())).status_code == 401


async def test_while_no_key_can_be_had_nobody_gets_in_and_that_is_no_refusal(database_url: str) -> None:
    async with accepting(database_url, jwt_jwks="http://127.0.0.1:1/jwks") as ground:
        answer = await bearing(ground, rsa_issuer().token())
        assert_problem(answer, 503, "cannot be had now")
        assert answer.headers["retry-after"] == "5"
        assert await ground.refused() == []


async def test_a_static_public_key_counts(database_url: str, issuer: Issuer, tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_bytes(issuer.public_pem)
    async with accepting(database_url, jwt_public_key=tmp_path / "key.pem") as ground:
        assert (await bearing(ground, issuer.token())).status_code == 422
        forged = by_hand({"alg": "HS256", "typ": "JWT"}, claims("SUPER_ADMIN"), issuer.public_pem)
        assert_problem(await bearing(ground, forged), 401, "signed in a way that its key does not allow")


async def test_a_shared_secret_counts(database_url: str) -> None:
    secret = "0123456789abcdef0123456789abcdef"
    async with accepting(database_url, jwt_secret=secret) as ground:
        good = by_hand({"alg": "HS256", "typ": "JWT"}, claims(), secret.encode())
        assert (await bearing(ground, good)).status_code == 422
        bad = by_hand({"alg": "HS256", "typ": "JWT"}, claims(), secret.upper().encode())
        assert_problem(await bearing(ground, bad), 401, "signature is wrong")


async def test_an_open_service_lets_everybody_in_who_asks_for_this_machine(database_url: str) -> None:
    async with ground_at(database_url, access=Access(AccessSettings(), open_=True), people=[]) as ground:
        assert (await ground.client.post(ME, json={})).status_code == 422
        answer = await ground.client.post(ME, json={}, headers={"Host": "evil.example"})
        assert_problem(answer, 401, "open on its own machine alone")
