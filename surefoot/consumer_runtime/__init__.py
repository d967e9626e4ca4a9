"""Running consumers: one transaction for each batch of a partition, with inbox, effects, outbox and the next offset."""
