"""The shop's sagas, and the process that runs them. The engine is `surefoot.orchestrator`."""
