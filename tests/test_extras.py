"""What is an extra may be missing: the tests that need it are left out then, and everything else is read and run."""

import subprocess
import sys

import pytest

READ = """
import sys

sys.modules.update(dict.fromkeys(sys.argv[1].split(",")))  # whoever imports one of these is told that it is not there
import pytest

sys.exit(pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider", *sys.argv[2:]]))
"""


@pytest.mark.timeout(150)
@pytest.mark.parametrize(
    ("extras", "place"),
    [("selenium", "tests/browser"), ("agents", "tests/api/tools")],
)
def test_tests_are_read_although_what_they_run_with_is_not_there(extras, place):
    command = [sys.executable, "-c", READ, extras, place]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stdout
