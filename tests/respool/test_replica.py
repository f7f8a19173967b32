"""Ports of processes that are about to start."""

import socket
from pathlib import Path

import pytest

from respool.replica import free_port, reserved


@pytest.fixture(autouse=True)
def locks(tmp_path: Path, monkeypatch) -> None:
    """Not where those of the machine are."""
    monkeypatch.setattr("respool.replica.gettempdir", lambda: str(tmp_path))


def test_who_starts_at_the_same_moment_gets_another_port():
    port = free_port()
    with reserved(port) as one, reserved(port) as other:
        assert (one, other) == (port, None)
    with reserved(port) as again:
        assert again == port


def test_a_port_that_somebody_has_is_not_reserved():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        with reserved(server.getsockname()[1]) as port:
            assert port is None


def test_where_no_lock_can_be_held_another_port_is_taken(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("respool.replica.gettempdir", lambda: str(tmp_path / "away"))
    with reserved(free_port()) as port:
        assert port is None
