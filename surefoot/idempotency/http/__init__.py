"""The HTTP side: middleware and decorator, the exchange with the client, fingerprints, and answers of the layer."""
