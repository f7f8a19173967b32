"""The ways in which each test of the gateway's tools runs: store, dialect of the upstream, manner of the answer."""

from typing import Literal

from tests.api.tools.model import Api
from tests.stores import STORES

Way = tuple[str, Api, Literal["stream", "blocking"]]

WAYS: list[Way] = [
    ("fakeredis", "responses", "stream"),
    ("valkey", "responses", "blocking"),
    ("valkey", "chat", "stream"),
]
"""Each store, dialect and manner; all eight together would take three times as long and find no more."""
if "given" in STORES:
    WAYS += [("given", "responses", "stream"), ("given", "chat", "blocking")]
