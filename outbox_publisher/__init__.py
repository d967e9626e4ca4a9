"""The shop's relay: publishes what its services have put into the outbox. The engine is `surefoot.relay`."""
