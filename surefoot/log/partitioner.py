"""Which partition, and which outbox shard, a key belongs to.

The hash is Kafka's own default (murmur2 of the key's bytes, made positive), so that records written by services in
other languages and by us land in the same partition. The outbox uses the same hash for its shards: with as many
shards as partitions, a shard's batch goes to one partition of a topic, and batches are large.
"""

from struct import Struct

_MASK = 0xFFFFFFFF
_M = 0x5BD1E995
_WORD = Struct("<I")


def key_hash(key: bytes) -> int:
    """Kafka's murmur2 with the sign bit cleared: 0 to 2**31 - 1."""
    length = len(key)
    h = (0x9747B28C ^ length) & _MASK
    whole = length & ~3
    for (word,) in _WORD.iter_unpack(key[:whole]):
        k = word * _M & _MASK
        k ^= k >> 24
        h = (h * _M & _MASK) ^ (k * _M & _MASK)
    rest = length - whole
    if rest == 3:
        h ^= key[whole + 2] << 16
    if rest >= 2:
        h ^= key[whole + 1] << 8
    if rest >= 1:
        h = (h ^ key[whole]) * _M & _MASK
    h ^= h >> 13
    h = h * _M & _MASK
    h ^= h >> 15
    return h & 0x7FFFFFFF


def partition_of(hashed: int, partitions: int) -> int:
    return hashed % partitions
