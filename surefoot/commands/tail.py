"""`surefoot tail`: read a topic as it is written, one line per event. Joins no group and commits nothing.

Data that their declaration marks as personal are masked, unless --reveal says otherwise.
"""

import json
from datetime import timedelta
from typing import Annotated, Any

import typer
from rich.console import Console

from surefoot.commands.event_log import event_log
from surefoot.commands.loading import load_catalogue
from surefoot.commands.options import Catalogues, Database, Kafka, Schema
from surefoot.commands.running import run
from surefoot.consumer.dead_letter import DEAD_LETTER_TYPE
from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.errors import ConfigurationError
from surefoot.events import BadRecord, Catalogue, Envelope, decode
from surefoot.events.binding import version_of
from surefoot.events.masking import MASK, NotJson, declares_personal, masked
from surefoot.log.port import StoredRecord

console = Console(highlight=False, soft_wrap=True)
PATIENCE = timedelta(milliseconds=500)


def tail(
    topic: Annotated[str, typer.Argument(help="The topic to read, such as order.events.", show_default=False)],
    kafka: Kafka = None,
    database: Database = None,
    schema: Schema = DEFAULT_SCHEMA,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Begin with the oldest record that is kept.")
    ] = False,
    follow: Annotated[bool, typer.Option(help="Go on until Ctrl-C, or stop at the end.")] = True,
    reveal: Annotated[
        bool, typer.Option("--reveal", help="Show data that are marked as personal too, and not as •••.")
    ] = False,
    catalogue: Catalogues = None,
) -> None:
    """Print a topic's events as they are published: offset, type, key and data, one line each."""
    declared = None if reveal else load_catalogue(catalogue or [])

    async def work() -> None:
        async with event_log(kafka, database, schema) as log:
            if topic not in await log.describe([topic]):
                raise ConfigurationError(
                    f"The log has no topic {topic!r}. `surefoot topics create` makes those of the catalogue."
                )
            ends = await log.end_offsets(topic)
            reader = await log.read(topic, dict.fromkeys(ends, 0) if from_start else ends)
            try:
                while True:
                    records = await reader.poll(timeout=PATIENCE)
                    for batch in records.values():
                        for record in batch:
                            console.print(line_of(record, declared), markup=False)
                    if not follow and not records:
                        return
            finally:
                await reader.close()

    run(work())


def line_of(record: StoredRecord, catalogue: Catalogue | None) -> str:
    """One record for the eye, masked by the catalogue's declarations; without one, as it is. What is not a CloudEvent
    is shown all the same, with the reason."""
    where = f"{record.partition}/{record.offset}"
    try:
        envelope = decode(record.headers, record.value, record.key)
    except BadRecord as bad:
        return f"{where}  not an event ({bad.reason})  {record.value!r}"
    key = (record.key or b"").decode(errors="replace")
    return f"{where}  {envelope.type}  {key}  {_shown(record, envelope, catalogue)}"


def _shown(record: StoredRecord, envelope: Envelope, catalogue: Catalogue | None) -> str:
    data = envelope.data
    try:
        if catalogue is None or data is None:
            return json.dumps(json.loads(data or b"null"), ensure_ascii=False)
        return json.dumps(_masked(record, envelope, data, catalogue), ensure_ascii=False)
    except (ValueError, RecursionError):
        return repr(data)


def _masked(record: StoredRecord, envelope: Envelope, data: bytes, catalogue: Catalogue) -> Any:
    """A dead letter's data are those of the event that it is about."""
    if envelope.type == DEAD_LETTER_TYPE:
        about = dict(record.headers).get("surefoot-event-type") or b""
        kind, version = about.decode(errors="replace"), None
    else:
        kind, version = envelope.type, version_of(envelope)
    if not declares_personal(kind, catalogue):
        return json.loads(data)
    try:
        return masked(data, kind, version, catalogue)
    except NotJson:
        return MASK
