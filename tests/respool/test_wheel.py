"""The wheel: everything that a running gateway needs is in it, and nothing of the checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from respool.demo_upstream import HELLO, serving
from respool.replica import Replica
from tests.respool.processes import environment, get, post

ROOT = Path(__file__).parents[2]
PACKAGES = {"translator", "streams", "ingest", "workers", "api", "respool"}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir")
    subprocess.run([*build, str(folder), str(ROOT)], check=True)
    (built,) = folder.glob("respool-*.whl")
    return built


def test_it_holds_the_packages_their_scripts_and_the_licence(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        info = next(name for name in names if name.endswith("METADATA"))
        metadata = archive.read(info).decode()
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == PACKAGES
    in_checkout = {path.name for path in (ROOT / "streams" / "scripts").glob("*.lua")}
    assert {Path(name).name for name in names if name.endswith(".lua")} == in_checkout
    page = {path.name for path in (ROOT / "api" / "debug" / "page").iterdir()}
    assert {Path(name).name for name in names if name.startswith("api/debug/page/")} == page
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert "Name: respool\n" in metadata
    assert "Requires-Python: >=3.11\n" in metadata


@pytest.fixture
def installed(wheel, tmp_path, monkeypatch):
    """The unpacked wheel, before the checkout on the path of processes that are started from here."""
    place = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    monkeypatch.setenv("PYTHONPATH", str(place))
    where = (sys.executable, "-c", "import respool, streams; print(respool.__file__)")
    found = subprocess.run(
        where, cwd=tmp_path, env=environment({}), capture_output=True, text=True, check=True
    )
    assert found.stdout.startswith(f"{place}{os.sep}")
    return place


@pytest.mark.usefixtures("installed")
async def test_it_serves_from_an_empty_folder(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    async with (
        serving() as upstream,
        Replica(folder, {"RESPOOL_UPSTREAM_URL": upstream, "RESPOOL_DEBUG_UI": "true"}) as served,
    ):
        status, response = await post(served.url)
        page, module = [await get(served.url, path) for path in ("/debug", "/debug/app.js")]
    assert (status, response["output"][0]["content"][0]["text"]) == (200, HELLO)
    assert (page[0], module[0]) == (200, 200)
