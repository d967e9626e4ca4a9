"""Publishing what is in the outbox: shards with one owner each, in the order of the commits of each key."""
