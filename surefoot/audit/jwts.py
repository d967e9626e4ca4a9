"""JWTs: tokens of an issuer that the team has already. Signature, times, audience and issuer are checked by PyJWT.

`exp`, `aud`, `iss` and the person's name must be there. The role comes from a claim: without one of ours, no access.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import get_args

import jwt
from jwt.exceptions import (
    ExpiredSignatureError,
    InvalidAudienceError,
    InvalidIssuerError,
    InvalidSignatureError,
    MissingRequiredClaimError,
    PyJWTError,
)

from surefoot.audit.access import checked_name
from surefoot.audit.keys import Key, KeysAway, KeySource, key_source
from surefoot.audit.people import ROLES, Person, Role
from surefoot.audit.settings import AccessSettings
from surefoot.http.middleware import Refusal

LONGEST = 16 * 1024
LEEWAY = timedelta(seconds=10)
"""How far clocks may be apart."""
# A token is anybody's bytes: what PyJWT does not expect of it (an infinite `exp`, a claim nested a thousand deep) is
# raised as one of these.
NOT_A_TOKEN = (PyJWTError, ValueError, TypeError, KeyError, OverflowError, RecursionError)


class Jwts:
    def __init__(
        self, keys: KeySource, *, audience: str, issuer: str, role_claim: str, name_claim: str, leeway: timedelta
    ) -> None:
        self._keys = keys
        self._audience = audience
        self._issuer = issuer
        self._role_claim = role_claim
        self._name_claim = name_claim
        self._leeway = leeway

    async def whose(self, token: str) -> Person | Refusal:
        if len(token) > LONGEST:
            return Refusal("not_a_token", "This token is longer than tokens are.")
        try:
            header = jwt.get_unverified_header(token)
        except NOT_A_TOKEN:
            return Refusal("not_a_token", "This is no token that is known here: look whether it was copied whole.")
        kid = header.get("kid")
        try:
            key = await self._keys.find(kid if isinstance(kid, str) else None)
        except KeysAway as error:
            return Refusal("keys_away", str(error))
        if key is None:
            return Refusal("bad_signature", "This token is signed with a key that is not known here.")
        return self._checked(token, header, key)

    def _checked(self, token: str, header: Mapping[str, object], key: Key) -> Person | Refusal:
        if header.get("alg") not in key.algorithms:
            return Refusal("bad_signature", "This token is signed in a way that its key does not allow.")
        try:
            claims = jwt.decode(
                token,
                key.value,
                algorithms=list(key.algorithms),
                audience=self._audience,
                issuer=self._issuer,
                leeway=self._leeway,
                options={"require": ["exp", "aud", "iss", self._name_claim]},
            )
        except NOT_A_TOKEN as error:
            return _why(error)
        return self._person(claims)

    def _person(self, claims: Mapping[str, object]) -> Person | Refusal:
        name = checked_name(claims.get(self._name_claim))
        if name is None:
            return Refusal("not_valid", f"This token names nobody: its {self._name_claim} cannot be a person's name.")
        role = highest_role(claims.get(self._role_claim))
        if role is None:
            return Refusal(
                "no_role",
                f"This token gives no role known here: its {self._role_claim} must be one of {', '.join(ROLES)}.",
            )
        return Person(name, role)


def jwts_of(settings: AccessSettings) -> Jwts:
    """As the settings say, which must accept them."""
    keys = key_source(settings)
    assert keys is not None
    assert settings.jwt_audience is not None
    assert settings.jwt_issuer is not None
    return Jwts(
        keys,
        audience=settings.jwt_audience,
        issuer=settings.jwt_issuer,
        role_claim=settings.jwt_role_claim,
        name_claim=settings.jwt_name_claim,
        leeway=LEEWAY,
    )


def highest_role(claim: object) -> Role | None:
    """A role, or the highest of several; words that are no role of ours count for nothing."""
    said = claim if isinstance(claim, list) else [claim]
    roles: list[Role] = [role for role in get_args(Role) if role in said]
    return roles[-1] if roles else None


def _why(error: Exception) -> Refusal:
    match error:
        case ExpiredSignatureError():
            return Refusal("expired", "This token has expired: ask its issuer for a new one.")
        case InvalidAudienceError():
            return Refusal("wrong_audience", "This token was made for something else than the dead letters.")
        case InvalidIssuerError():
            return Refusal("wrong_issuer", "This token comes from an issuer that does not count here.")
        case InvalidSignatureError():
            return Refusal("bad_signature", "This token's signature is wrong.")
        case MissingRequiredClaimError():
            return Refusal("not_valid", f"This token does not say its {error.claim}, and must.")
    return Refusal("not_valid", "This token cannot be accepted: it is not valid, or not yet.")
