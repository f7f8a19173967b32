import pytest


@pytest.fixture(autouse=True)
def _no_variables_of_the_tests(monkeypatch):
    """What names tools for other tests is no setting: it would be told as a slip of the pen."""
    for name in ("RESPOOL_CODEX", "RESPOOL_CORPUS"):
        monkeypatch.delenv(name, raising=False)
