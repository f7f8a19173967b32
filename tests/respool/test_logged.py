"""What `respool serve` writes while it serves: who, which, how; never what was said."""

import json
import re

import aiohttp
import pytest

from respool.demo_upstream import HELLO, serving
from tests.respool.processes import all_of, get, post, replica

pytestmark = pytest.mark.timeout(90)

SAID = "My name is Zebedee."


async def asked(url, **body):
    """A blocking create: its JSON and its x-request-id."""
    request = {"model": "demo-fast", "input": SAID, **body}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/responses", json=request) as answer,
    ):
        return await answer.json(), answer.headers["x-request-id"]


def objects(served):
    return [json.loads(line) for line in served.log().splitlines()]


async def test_from_a_request_id_one_finds_the_response_and_all_that_every_role_did(tmp_path):
    async with serving() as upstream:
        settings = {"UPSTREAM_URL": upstream, "LOG_FORMAT": "json"}
        async with replica(tmp_path, "api", **settings) as door:
            others = [replica(tmp_path, role, **settings) for role in ("ingest", "translate")]
            await all_of(*(other.start() for other in others))
            await all_of(*(other.ready() for other in others))
            response, request_id = await asked(door.url)
            await get(door.url, f"/v1/responses/{response['id']}")
            await get(door.url, "/v1/responses/resp_no/../x?input=Zebedee")
            await all_of(*(other.stop() for other in others))
    mine = [line for line in objects(door) if line.get("request") == request_id]
    assert [line["message"].split()[1] for line in mine] == ["began", "POST"]
    assert {line["response"] for line in mine} == {response["id"]}
    assert mine[1] | {"status": 200, "path": "/v1/responses", "method": "POST"} == mine[1]
    about = [
        (line["roles"], line["logger"], line.get("round"), line.get("how") or line.get("status"))
        for served in (door, *others)
        for line in objects(served)
        if line.get("response") == response["id"]
    ]
    assert about == [
        (["api"], "api.create", None, None),
        (["api"], "api.request_id", None, 200),  # the create
        (["api"], "api.request_id", None, 200),  # the read
        (["ingest"], "ingest.run", 1, "ok"),
        (["translate"], "workers.translate", None, "completed"),
    ]
    for served in (door, *others):
        assert re.search("Zebedee|scripted model", served.log()) is None


async def test_a_line_of_text_has_the_same(tmp_path):
    async with (
        serving() as upstream,
        replica(tmp_path, UPSTREAM_URL=upstream, LOG_LEVEL="debug") as served,
    ):
        response, request_id = await asked(served.url)
        assert (await post(served.url, tools=["Zebedee"]))[0] == 400
    log, rid = served.log(), response["id"]
    assert f" INFO api.create: {request_id} began {rid}\n" in log
    assert re.search(rf" INFO api.request_id: {request_id} POST /v1/responses 200 \d+ ms", log)
    assert re.search(rf" INFO ingest.run: A round of {rid} ended, ok, .* round=1 attempt=1\n", log)
    assert f" INFO workers.translate: {rid} ended: completed\n" in log
    assert "Zebedee" not in log
    assert HELLO not in log
