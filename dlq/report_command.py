"""`surefoot dlq report`: the week of each consumer, as Markdown. Straight from the database."""
