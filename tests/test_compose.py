"""compose.yaml: a store that forgets nothing, two doors, one of each worker, and nothing else."""

from pathlib import Path

import yaml

from respool.roles import Role
from respool.settings import PREFIX, Settings

ROOT = Path(__file__).parent.parent
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if name != "valkey"}


def test_there_is_a_store_and_one_service_for_each_role():
    assert set(OURS) == set(Role)
    for name, service in OURS.items():
        assert service["command"] == ["serve", "--role", name]
        assert service["depends_on"] == {"valkey": {"condition": "service_healthy"}}


def test_the_store_keeps_an_append_only_file_and_evicts_nothing():
    words = SERVICES["valkey"]["command"]
    options = dict(zip(words[1::2], words[2::2], strict=True))
    assert options["--appendonly"] == "yes"
    assert options["--maxmemory-policy"] == "noeviction"
    assert "ports" not in SERVICES["valkey"]


def test_the_api_runs_twice_behind_nothing_else():
    assert OURS["api"]["deploy"]["replicas"] == 2
    assert OURS["api"]["ports"] == ["8080-8081:8080"]
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["api"]


def test_every_service_can_run_several_times():
    for name, service in OURS.items():
        assert "container_name" not in service, name
        assert name == "api" or "ports" not in service
        assert "volumes" not in service


def test_the_api_does_not_start_without_keys():
    assert OURS["api"]["environment"]["RESPOOL_API_KEYS"].startswith("${RESPOOL_API_KEYS:?")


def test_all_processes_share_the_store_and_the_upstream():
    """What an api process admits, another one has to run: the settings of tools are everywhere, too."""
    shared = ("REDIS_URL", "UPSTREAM_URL", "UPSTREAM_API", "UPSTREAM_API_KEY", "MCP_ALLOWED_HOSTS")
    search = ("WEB_SEARCH_PROVIDER", "WEB_SEARCH_URL", "WEB_SEARCH_API_KEY")
    for name in (f"{PREFIX}{name}" for name in (*shared, *search)):
        assert len({service["environment"][name] for service in OURS.values()}) == 1


def test_what_is_set_are_settings_and_there_is_time_to_drain():
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    for service in OURS.values():
        assert set(service["environment"]) <= known
        seconds = int(service["stop_grace_period"].removesuffix("s"))
        assert seconds > int(service["environment"]["RESPOOL_DRAIN_S"]) + 10
