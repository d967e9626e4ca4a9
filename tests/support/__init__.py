"""What tests are built from: servers, processes, proxies, checkers, waiting, and one shop of event types."""
