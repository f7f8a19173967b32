"""The short form of `make chaos`: a fault of each kind, and the same laws."""

import pytest

from tests.chaos.faults import OF_PROCESSES, OF_THE_STORE
from tests.chaos.run import run


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(120)
async def test_faults_of_every_kind_cost_no_client_a_byte(tmp_path):
    report = await run(len(OF_PROCESSES) + len(OF_THE_STORE), seed=1, only="", folder=tmp_path)
    assert not report.broken, report.text()
