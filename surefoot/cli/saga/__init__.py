"""surefoot saga: look at sagas, decide about them, prove definitions."""
