"""surefoot dlq: what operators of dead letters do."""
