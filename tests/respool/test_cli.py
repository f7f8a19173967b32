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
