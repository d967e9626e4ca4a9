"""A simulated payment provider: a process of its own, with an HTTP API and a ledger of its own, that misbehaves on
command. It stands for somebody else's system, so no service of ours imports it."""
