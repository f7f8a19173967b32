"""The command line."""

import re

import pytest

from respool import __version__
from tests.respool.processes import respool

pytestmark = pytest.mark.timeout(60)


def test_the_version_is_told(tmp_path):
    assert respool(tmp_path, "--version").stdout == f"respool {__version__}\n"


def test_without_a_command_there_is_help(tmp_path):
    ended = respool(tmp_path)
    assert ended.returncode == 2
    assert re.search(r"serve .*doctor .*demo ", ended.stdout, re.DOTALL)


def test_an_unknown_role_is_refused_with_the_known_ones(tmp_path):
    ended = respool(tmp_path, "serve", "--role", "cook")
    assert ended.returncode == 2
    assert "'translate'" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_setting_that_cannot_be_used_is_one_line(tmp_path):
    ended = respool(tmp_path, "doctor", API_KEYS="opensesame")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "respool: RESPOOL_API_KEYS: entry 1 is not of the form tenant=key\n"


def test_the_tools_that_can_be_run_are_listed_with_the_reason_why_one_is_off(tmp_path):
    ended = respool(tmp_path, "tools", MCP_ALLOWED_HOSTS="tools.internal:8000")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines() == [
        "off  web_search  RESPOOL_WEB_SEARCH_PROVIDER is not set",
        "on   mcp         public https servers, and tools.internal:8000",
    ]
    given = {"WEB_SEARCH_PROVIDER": "brave", "WEB_SEARCH_API_KEY": "sk-search-secret"}
    ended = respool(tmp_path, "tools", **given)
    assert ended.stdout.startswith("on   web_search  with brave\n")
    assert "sk-search-secret" not in ended.stdout


def test_a_host_that_is_none_is_refused_at_the_start(tmp_path):
    ended = respool(tmp_path, "tools", MCP_ALLOWED_HOSTS="a,http://b")
    assert ended.returncode == 2
    assert "MCP_ALLOWED_HOSTS: an entry is not of the form host or host:port" in ended.stderr
