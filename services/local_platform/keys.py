"""The keys of the platform on this machine: an operator's token, and what the payments API runs with, an API key and a
secret. They are made on the first start and kept beside the database, in files that only the user who runs it can read.
"""

import asyncio
import hashlib
import os
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path

import orjson
from cryptography.fernet import Fernet

from services.payment.api.access import LOCAL_TENANT, hash_of
from surefoot.cli.command import user
from surefoot.database.connection import connect
from surefoot.errors import ConfigurationError
from surefoot.process_guard import create_guarded_process

TOKEN_FILE = Path("dlq.token")
DAYS = 366
KEY, SECRET = "payments.key", "payments.secret"
_IS_USABLE = """
    SELECT EXISTS (SELECT FROM surefoot.admin_tokens
                   WHERE token_hash = $1::bytea AND revoked_at IS NULL AND expires_at > now())"""


async def local_token(url: str, directory: Path) -> Path:
    """The file with the operator's token. One that the database does not know, or no longer takes, is replaced."""
    path = directory / TOKEN_FILE
    if not await _is_usable(url, _kept(path)):
        _write_private(path, await _made(url))
    return path


async def _is_usable(url: str, token: str) -> bool:
    connection = await connect(url, name="surefoot up")
    try:
        return bool(await connection.fetchval(_IS_USABLE, hashlib.sha256(token.encode()).digest()))
    finally:
        await connection.close()


async def _made(url: str) -> str:
    command = ("dlq", "token", "create", "--person", user(), "--role", "SUPER_ADMIN", "--days", str(DAYS))
    process = await create_guarded_process(
        *(sys.executable, "-m", "surefoot"),
        *command,
        *("--reason", "surefoot up", "--database", url),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, complained = await process.communicate()
    if process.returncode != 0:
        raise ConfigurationError(f"No token could be made: {complained.decode(errors='replace').strip()}")
    return said.decode().strip()


@dataclass(frozen=True, slots=True)
class LocalPayments:
    key: Path
    """Where the API key is."""
    environment: dict[str, str]
    """Of the API's process."""


def local_payments(directory: Path) -> LocalPayments:
    key = _made_once(directory / KEY, "sk_local_" + secrets.token_urlsafe(32))
    secret = _made_once(directory / SECRET, Fernet.generate_key().decode())
    hashed = f"sha256:{hash_of(key).hex()}"
    environment = {
        "SUREFOOT_PAYMENT_API_KEYS": orjson.dumps({hashed: LOCAL_TENANT}).decode(),
        "SUREFOOT_IDEMPOTENCY_SECRETS": orjson.dumps([secret]).decode(),
    }
    return LocalPayments(directory / KEY, environment)


def _made_once(path: Path, new: str) -> str:
    known = _kept(path)
    if known:
        return known
    _write_private(path, new)
    return new


def _kept(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _write_private(path: Path, text: str) -> None:
    """Nobody else can read it, not for a moment."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text + "\n")
