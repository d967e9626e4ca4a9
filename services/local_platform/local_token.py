"""The token of whoever runs `surefoot up`: made on the first start, kept beside the database, read by them alone."""

import asyncio
import hashlib
import os
import sys
from pathlib import Path

from surefoot.cli.operating import user
from surefoot.database.connection import connect
from surefoot.errors import ConfigurationError
from surefoot.process_guard import create_guarded_process

NAME = "dlq.token"
DAYS = 366
_IS_USABLE = """
    SELECT EXISTS (SELECT FROM surefoot.admin_tokens
                   WHERE token_hash = $1::bytea AND revoked_at IS NULL AND expires_at > now())"""


async def local_token(url: str, directory: Path) -> Path:
    """Where it is. One that the database does not know, or no longer takes, is replaced."""
    path = directory / NAME
    if not await _is_usable(url, kept(path)):
        write_private(path, await _made(url))
    return path


def kept(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


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


def write_private(path: Path, text: str) -> None:
    """Nobody else can read it, not for a moment."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text + "\n")
