"""Keys from a file: reread while the process runs, never lost to a slip, never shown."""

import logging
import signal

import pytest

from respool.keyring import Keyring, tenants_of
from respool.settings import SettingsError, load
from tests.respool.processes import get, replica
from tests.respool.test_serve import upstream  # noqa: F401 - a fixture
from tests.wait import wait_until

SECRET = "sk-very-secret-key"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def replace(path, text):
    """As an editor that is careful does it."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def names(tenants):
    return {key.decode(): tenant for key, tenant in tenants.keys}


def test_a_tenant_may_have_one_key_or_several_and_limits_of_its_own(folder):
    path = folder / "keys.toml"
    path.write_text(
        "acme = 'k1'\nbeta = ['k2', 'k3']\n[gamma]\nkeys = ['k4']\nmax_open = 2\nmax_in_flight = 3\n"
    )
    found = tenants_of(load(api_keys="delta=k5, acme=k6"), path)
    assert names(found) == {
        "k5": "delta",
        "k6": "acme",
        "k1": "acme",
        "k2": "beta",
        "k3": "beta",
        "k4": "gamma",
    }
    assert (found.most_open, found.most_in_flight) == ({"gamma": 2}, {"gamma": 3})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("acme = " + SECRET, "is not TOML (at line 1, column"),
        (f"'{SECRET}' = 5", "entry 1: keys: "),
        (f"acme = ['k', '{SECRET} x']", "entry 1: key 2 is empty or holds a blank"),
        ("acme = ''", "entry 1: key 1 is empty"),
        (f"a = 'k'\nb = ['{SECRET}']\nc = '{SECRET}'", "entry 3: key 1 is also another tenant's"),
        (f"[acme]\n'{SECRET}' = 1\nkeys = ['k']", "entry 1: is not a key, a list of keys"),
        ("[acme]\nkeys = ['k']\nmax_open = 0", "entry 1: max_open: "),
        (f"'' = '{SECRET}'", "entry 1: the tenant's name is empty"),
        ("[acme]\nkeys = []", "holds no key"),
        ("", "holds no key"),
        (b"acme = '\xff'", "not UTF-8"),
        (b"#" * (5 << 20), "is larger than"),
        (None, "No such file"),
    ],
)
def test_a_file_that_cannot_be_used_says_where_and_shows_nothing(folder, text, words):
    path = folder / "keys.toml"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SettingsError) as fault:
        tenants_of(load(), path)
    assert str(fault.value).startswith("RESPOOL_API_KEYS_FILE: ")
    assert words in str(fault.value)
    assert SECRET not in str(fault.value)


def test_an_edit_is_there_for_the_next_who_asks_and_a_slip_changes_nothing(folder, caplog):
    caplog.set_level(logging.INFO)
    path, hidden = folder / "keys.toml", []
    path.write_text("acme = 'first-key'\n")
    ring = Keyring(load(api_keys_file=str(path)), hide=hidden.extend)
    assert names(ring.now()) == {"first-key": "acme"}
    replace(path, "acme = ['first-key', 'second-key']\n")
    assert set(names(ring.now())) == {"first-key", "second-key"}
    assert {"first-key", "second-key"} <= set(hidden)
    assert "keys were read again: 2 of 1 tenants" in caplog.text
    for slip in ("acme = \n", ""):
        replace(path, slip)
        assert set(names(ring.now())) == {"first-key", "second-key"}
    path.unlink()
    assert set(names(ring.now())) == {"first-key", "second-key"}
    told = [record for record in caplog.records if "the old keys stay" in record.message]
    assert len(told) == 3, "each slip is told once"
    assert "first-key" not in caplog.text
    replace(path, "acme = 'third-key'\n")
    assert names(ring.now()) == {"third-key": "acme"}


def test_without_a_file_there_is_nothing_to_reread():
    ring = Keyring(load(api_keys="a=k"))
    ring.reread()
    assert names(ring.now()) == {"k": "a"}


@pytest.mark.timeout(60)
async def test_keys_change_under_a_running_process(tmp_path, upstream):  # noqa: F811
    path = tmp_path / "keys.toml"
    path.write_text("acme = 'opensesame-1'\n")
    settings = {"UPSTREAM_URL": upstream, "API_KEYS_FILE": str(path), "LOG_LEVEL": "debug"}
    async with replica(tmp_path, **settings, REDIS_URL="memory://") as served:

        async def status(key):
            return (await get(served.url, "/v1/models", authorization=f"Bearer {key}"))[0]

        assert await status("opensesame-1") == 200
        assert await status("opensesame-2") == 401
        replace(path, "acme = ['opensesame-2']\n")
        assert await status("opensesame-1") == 401
        assert await status("opensesame-2") == 200
        replace(path, "acme = [opensesame-3]\n")
        served.signal(signal.SIGHUP)
        await wait_until(lambda: "the old keys stay" in served.log())
        assert await status("opensesame-2") == 200
        path.write_text("acme = 'opensesame-4'\n")
        served.signal(signal.SIGHUP)
        await wait_until(lambda: served.log().count("keys were read again") == 2)
        assert await status("opensesame-4") == 200
    assert "opensesame" not in served.log()
