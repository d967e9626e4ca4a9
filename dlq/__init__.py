"""The dead-letter queue: intake, groups, replay jobs, approvals, audit, the admin service."""
