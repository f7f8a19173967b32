"""The whole way of a response on a cluster: what the api's own tests say of replicas, and takeovers."""

from tests.api.test_replicas import *  # noqa: F403 - each test once more, on this store
