"""Load on a gateway: how much later a frame arrives, and how many get through."""
