"""The hash is Kafka's own: vectors computed by Kafka's Java client, and aiokafka's as an independent peer."""

import os

import pytest
from aiokafka.partitioner import murmur2

from surefoot.log.port import key_hash, partition_of


@pytest.mark.parametrize(
    ("key", "signed"),
    [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536), (b"abc", 479470107)],
)
def test_known_hashes_of_kafkas_own_client(key: bytes, signed: int) -> None:
    assert key_hash(key) == signed & 0x7FFFFFFF


def test_any_key_hashes_as_aiokafka_does() -> None:
    for length in range(64):
        key = os.urandom(length)
        assert key_hash(key) == murmur2(key) & 0x7FFFFFFF


def test_a_partition_is_always_in_range() -> None:
    assert {partition_of(key_hash(str(n).encode()), 8) for n in range(200)} == set(range(8))
