"""Records whose header names are not UTF-8: aiokafka cannot read them, and stops at the first one for ever.

Kafka's brokers take any bytes as a header's name, so one careless producer could wedge a partition for all who read it:
every poll fails, the record cannot be skipped, and those before it in the same fetch are not delivered either. With
this, such a name is read with its bad bytes written out (`\\xff`): the record is delivered, its key and values
untouched, and whoever reads it decides. The name is plain text then, which can be printed and stored anywhere.

Records of good producers are read as before, by aiokafka's fast reader; only a batch it fails on is read again slowly.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from aiokafka.consumer import fetcher
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import _MemoryRecordsPy

_MAGIC_WITH_HEADERS = 2


def read_any_header_names() -> None:
    """From now on, in this process: aiokafka's consumers look the class up where they use it."""
    fetcher.MemoryRecords = _Batches


class _Batches(_MemoryRecordsPy):  # type: ignore[misc]  # aiokafka is untyped
    def next_batch(self) -> Any:
        raw = self._next_slice
        batch = super().next_batch()
        return _Batch(batch, raw) if raw is not None and raw[self.MAGIC_OFFSET] >= _MAGIC_WITH_HEADERS else batch


class _Batch:
    """A batch read by the fast reader, or from the record on that it fails at, by the lenient one."""

    def __init__(self, fast: Any, raw: memoryview) -> None:
        self._fast = fast
        self._raw = raw

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fast, name)

    def __iter__(self) -> Iterator[Any]:
        count = 0
        try:
            for record in self._fast:
                yield record
                count += 1
        except UnicodeDecodeError:
            yield from islice(_LenientBatch(self._raw), count, None)

    def __next__(self) -> Any:
        return next(self._fast)  # how aiokafka looks at the one record of a control batch


class _LenientBatch(_DefaultRecordBatchPy):  # type: ignore[misc]  # aiokafka is untyped
    _buffer: bytearray

    def _maybe_uncompress(self) -> None:
        super()._maybe_uncompress()
        self._buffer = _LenientBytes(self._buffer)


class _LenientBytes(bytearray):
    """Bytes whose parts can be decoded, whatever they are."""

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return _LenientBytes(found) if isinstance(index, slice) else found

    def decode(self, encoding: str = "utf-8", errors: str = "backslashreplace") -> str:
        return super().decode(encoding, errors)
