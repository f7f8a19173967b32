"""Bounds on what is open, on a cluster: the places are in another slot than the responses, and asked for first."""

from tests.api.test_places import *  # noqa: F403 - each test once more, on this store
