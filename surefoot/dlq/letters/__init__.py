"""Reading dead letters: groups, pages, one letter with its context."""
