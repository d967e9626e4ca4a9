"""The one command, surefoot: a module or folder for each subcommand, and what they share."""
