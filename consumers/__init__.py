"""The shop's consumers: what each service does when an event or a command arrives. Live statistics are beside them.
The engine is `surefoot.consumer` and `surefoot.consumer_runtime`."""
