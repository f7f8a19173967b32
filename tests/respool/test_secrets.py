"""Secrets planted everywhere, traffic of every kind and failure through real processes, and then a search for them.

First it is made sure that each secret was really used, by whoever it was meant for. Then everything that left the
processes or stayed behind is searched: answers with their headers, streams, metrics, logs at DEBUG, all of the store.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from redis.asyncio import Redis
from redis.exceptions import AuthenticationError

from respool.replica import Replica
from tests.chaos.valkey import Valkey
from tests.ingest.server import End, Play, Server, event
from tests.ingest.server import serving as upstream_serving
from tests.respool.errands import answer, call, message, named, results_of
from tests.respool.processes import all_of, replica
from tests.wait import wait_until
from tests.workers.tools import mcp_server
from tests.workers.tools.search_server import Engine, searching


def planted(name: str) -> str:
    """A secret that looks different in every encoding."""
    return f'pl4nt-{name}/Zq7+"Wx9=@end'


KEYS = {name: planted(name) for name in ("envkey", "filekey", "oldkey")}
WRONG, UPKEY, PASSWORD, ENGINE = (planted(n) for n in ("wrong", "upkey", "password", "engine"))
TOKEN, HEADER, QUERY = planted("token"), planted("header"), "pl4nt-query.Zq7-Wx9_end"
COOKIE, FIELD, UPPATH = planted("cookie"), planted("field"), "pl4nt-uppath-Zq7-Wx9-end"
SECRETS = {
    **KEYS,
    "wrong": WRONG,
    "upkey": UPKEY,
    "password": PASSWORD,
    "engine": ENGINE,
    "token": TOKEN,
    "header": HEADER,
    "query": QUERY,
    "cookie": COOKIE,
    "field": FIELD,
    "uppath": UPPATH,
}


def forms(secret: str) -> Iterator[bytes]:
    """How a secret may be written: as it is, in URLs, in JSON (twice), in base64 wherever it begins, in hex."""
    raw = secret.encode()
    once = json.dumps(secret)[1:-1]
    yield from (
        raw,
        quote(secret, safe="").encode(),
        quote(secret).encode(),
        repr(raw)[2:-1].encode(),
    )
    yield from (once.encode(), json.dumps(once)[1:-1].encode(), raw.hex().encode())
    for shift in range(3):
        # The bytes around it change the first and last letters of its base64.
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            whole = encode(b"x" * shift + raw)
            yield whole[shift and 4 : len(whole) // 4 * 4 - 4]


@pytest.mark.parametrize("before", ["", "a", "ab", "abc", "user:"])
@pytest.mark.parametrize("name", sorted(SECRETS))
def test_the_search_finds_a_secret_in_every_form(name: str, before: str):
    text = before + SECRETS[name] + " and more"
    written = [
        *(
            text.encode(),
            quote(text).encode(),
            quote(text, safe="").encode(),
            text.encode().hex().encode(),
        ),
        *(json.dumps({"a": text}).encode(), json.dumps(json.dumps([text])).encode()),
        *(base64.b64encode(text.encode()), base64.urlsafe_b64encode(text.encode())),
    ]
    for one in written:
        assert any(form in one for form in forms(SECRETS[name])), one
    assert not any(form in b"nothing of that kind" for form in forms(SECRETS[name]))


class Model(Server):
    """Calls every tool once, or fails in the way that the prompt says, telling all that it knows."""

    def next_play(self) -> Play:
        seen = self.requests[-1]
        told = f"key {UPKEY} at http://127.0.0.1:{self.port}/{UPPATH}/v1, Bearer {UPKEY}"
        if seen.path.endswith("/models"):
            return failing("401 Unauthorized", told)
        body = json.loads(seen.body)
        prompt = [item for item in body["input"] if item.get("role") == "user"][-1]["content"]
        if played := self.failures(told).get(
            prompt if isinstance(prompt, str) else prompt[0]["text"]
        ):
            return played
        if not results_of(body) and "tools" in body:
            tools = ("web_search", "confess", "fail")
            known = [tool for tool in tools if tool in json.dumps(body["tools"])]
            calls = [
                call(place, *named(body, tool, f"about {place}"))
                for place, tool in enumerate(known)
            ]
            return Play(answer(calls))
        return Play(answer([message(0, "That ", "is all.")]))

    def failures(self, told: str) -> dict[str, Play]:
        """How it fails, by prompt."""
        begun = answer([message(0, "Hm.")])[:4]
        error = {"code": "server_error", "message": told}
        return {
            "401": failing("401 Unauthorized", told),
            "500": Play([f"<h1>{told}</h1>".encode()], status="500 Oops"),
            "garbage": Play([f"data: {told}\n\n".encode() * 3, End.CUT]),
            "error": Play([*begun, event("error", error=error, **error)]),
            "cut": Play([*begun, End.RESET]),
        }


def failing(status: str, told: str) -> Play:
    said = json.dumps({"error": {"message": told, "code": told, "param": told}}).encode()
    return Play([said], status=status, headers={"content-length": str(len(said))})


class Tools(mcp_server.Tools):
    """Says again whatever it was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.names = ["confess", "fail"]
        self.confession = f"you sent Bearer {TOKEN}, {HEADER} and {QUERY}"
        self.schema["description"] = self.confession

    async def do_fail(self, given: dict[str, Any]) -> Any:
        raise RuntimeError(f"{self.confession} {given}")


@dataclass
class Scene:
    """The processes, whom they talk to, and everything that they said to clients."""

    model: Model
    mcp: Tools
    engine: Engine
    valkey: Valkey
    replicas: list[Replica]
    http: aiohttp.ClientSession
    said: dict[str, bytes] = field(default_factory=dict)
    """Each answer, headers and body, by what was asked."""

    async def ask(
        self, name: str, method: str, path: str, body: Any = None, *, key: str = KEYS["envkey"]
    ) -> tuple[int, bytes]:
        headers = {"authorization": f"Bearer {key}", "cookie": f"c={COOKIE}", "x-own": COOKIE}
        url = f"{self.replicas[0].url}{path}"
        async with self.http.request(method, url, json=body, headers=headers) as reply:
            read = await reply.read()
            head = "\n".join(f"{k}: {v}" for k, v in reply.headers.items()).encode()
            assert name not in self.said
            self.said[name] = head + b"\n\n" + read
            return reply.status, read

    async def create(self, name: str, **fields: Any) -> tuple[int, bytes]:
        body = {"model": "m", "input": name, **fields}
        return await self.ask(name, "POST", "/v1/responses", body)

    def server(self, label: str, url: str, **fields: Any) -> dict[str, Any]:
        """An MCP tool with all the credentials that a client can give it."""
        return {
            "type": "mcp",
            "server_label": label,
            "require_approval": "never",
            "server_url": f"{url}?key={QUERY}",
            "authorization": TOKEN,
            "headers": {"X-Api-Key": HEADER},
            **fields,
        }


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with AsyncExitStack() as stack:
        valkey = Valkey(tmp_path / "valkey")
        await valkey.start()
        stack.push_async_callback(valkey.kill)
        admin = Redis(port=valkey.port)
        await admin.config_set("requirepass", PASSWORD)
        await admin.aclose()
        model = Model()
        await stack.enter_async_context(upstream_serving(model))
        tools = await stack.enter_async_context(mcp_server.serving(Tools()))
        engine = await stack.enter_async_context(searching())
        engine.hits = [{"title": "A page", "url": "https://found.test/a", "description": "Words."}]
        keys = tmp_path / "keys.toml"
        keys.write_text(f"filed = ['{KEYS['filekey']}', '{KEYS['oldkey']}']\n")
        settings = {
            "REDIS_URL": f"redis://:{quote(PASSWORD, safe='')}@127.0.0.1:{valkey.port}/0",
            "UPSTREAM_URL": f"http://127.0.0.1:{model.port}/{UPPATH}/v1",
            "UPSTREAM_API_KEY": UPKEY,
            "API_KEYS": f"env={KEYS['envkey']}",
            "API_KEYS_FILE": str(keys),
            "WEB_SEARCH_PROVIDER": "brave",
            "WEB_SEARCH_URL": engine.url,
            "WEB_SEARCH_API_KEY": ENGINE,
            "MCP_ALLOWED_HOSTS": f"{tools.host},127.0.0.1:{engine.port},127.0.0.1:9",
            "LOG_LEVEL": "DEBUG",
            "SEAL_AFTER_S": "0.5",
        }
        crew = [replica(tmp_path, role, **settings) for role in ROLES]
        for one in crew:
            stack.push_async_callback(one.stop)
        await all_of(*(one.start() for one in crew))
        await all_of(*(one.ready() for one in crew))
        http = await stack.enter_async_context(aiohttp.ClientSession())
        yield Scene(model, tools, engine, valkey, crew, http)


ROLES = ("api", "ingest", "translate", "tools")


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_no_planted_secret_is_in_an_answer_a_stream_a_metric_a_log_or_the_store(
    scene: Scene, tmp_path: Path
):
    await well(scene)
    await badly(scene)
    await keys_change(scene, tmp_path)
    used(scene)
    left = await all_that_is_left(scene)
    figures = {
        f"metrics of {role}": await metrics(scene, one)
        for role, one in zip(ROLES, scene.replicas, strict=True)
    }
    await without_a_store(scene)
    logs = {
        f"log of {role}": one.log().encode()
        for role, one in zip(ROLES, scene.replicas, strict=True)
    }
    assert b" DEBUG " in logs["log of api"]
    assert all(b" respool.serve: " in text for text in logs.values())
    assert all(b"respool_" in text for text in figures.values())
    places = scene.said | figures | logs | left
    place = f"127.0.0.1:{scene.model.port}".encode()
    found = [
        (name, where)
        for where, text in places.items()
        for name, secret in SECRETS.items()
        if any(form in text for form in forms(secret))
    ]
    assert found == []
    assert [where for where, text in places.items() if place in text] == [], "the upstream's host"


async def well(scene: Scene) -> None:
    """Every tool, streamed and not; every way to read it again."""
    tools = [{"type": "web_search"}, scene.server("s", scene.mcp.url)]
    for name, stream in (("well", False), ("well streamed", True)):
        status, body = await scene.create(
            name, tools=tools, stream=stream, parallel_tool_calls=True
        )
        assert status == 200, body
        assert b"That is all." in body, body
        assert b"you sent" in body, "the server said them again"
    response = json.loads(scene.said["well"].partition(b"\n\n")[2])
    path = f"/v1/responses/{response['id']}"
    for name, query in (("again", ""), ("replay", "?stream=true"), ("items", "/input_items")):
        assert (await scene.ask(name, "GET", f"{path}{query}"))[0] == 200
    status, body = await scene.create("next", previous_response_id=response["id"], tools=tools)
    assert status == 200, body
    status, _ = await scene.create("background", background=True, tools=tools)
    assert status == 200


async def badly(scene: Scene) -> None:
    """Whatever can fail at an upstream, at a tool, or in a request."""
    for prompt in ("401", "500", "garbage", "error"):
        status, body = await scene.create(prompt)
        failed = status >= 400 or json.loads(body)["status"] == "failed"
        assert failed, (prompt, status, body)
    await scene.create("cut", stream=True)
    await scene.ask("models", "GET", "/v1/models")
    told = scene.mcp.confession.encode()
    for name, answering in (
        ("mcp 401", mcp_server.answering(401, told, www_authenticate=f"Bearer {QUERY}")),
        ("mcp 500", mcp_server.answering(500, told)),
        ("mcp garbage", mcp_server.answering(200, told, content_type="application/json")),
    ):
        scene.mcp.answer = answering
        server = scene.server("s", scene.mcp.url + f"/{name.replace(' ', '-')}")
        await scene.create(name, tools=[server], stream=True)
    scene.mcp.answer = None
    nobody = [scene.server("gone", "http://127.0.0.1:9/mcp")]
    await scene.create("mcp gone", tools=nobody)
    refused = [scene.server("far", "http://10.1.2.3/mcp")]
    await scene.create("mcp refused", tools=refused)
    broken = [scene.server("s", scene.mcp.url, authorization=f"{TOKEN}\r\nx: y")]
    await scene.create("bad token", tools=broken)
    scene.engine.status, scene.engine.body = 500, ENGINE.encode()
    await scene.create("search 500", tools=[{"type": "web_search"}])
    for name, fields in {
        "bad url": {"tools": [scene.server("s", f"ftp://{FIELD}")]},
        "bad type": {"tools": [scene.server("s", scene.mcp.url, headers={"a": [FIELD]})]},
        "bad header": {"tools": [scene.server("s", scene.mcp.url, headers={f"{FIELD}\n": "x"})]},
        "bad field": {"temperature": FIELD, "metadata": {"a": {"b": FIELD}}},
        "bad effort": {"reasoning": {"effort": FIELD}, "truncation": FIELD},
    }.items():
        status, body = await scene.create(name, **fields)
        assert status == 400, (name, body)
    await scene.ask("bad query", "GET", f"/v1/responses/x?key={QUERY}&include={QUERY}")
    await scene.ask("wrong key", "GET", "/v1/models", key=WRONG)


async def keys_change(scene: Scene, folder: Path) -> None:
    """A key of the file is taken out while the processes run."""
    for name in ("filekey", "oldkey"):
        assert (await scene.ask(name, "GET", "/v1/responses/x", key=KEYS[name]))[0] == 404
    (folder / "keys.toml").write_text(f"filed = '{KEYS['filekey']}'\n")
    status, _ = await scene.ask("old key", "GET", "/v1/responses/x", key=KEYS["oldkey"])
    assert status == 401
    (folder / "keys.toml").write_text(f"filed = {KEYS['filekey']}\n")
    status, _ = await scene.ask("after a slip", "GET", "/v1/responses/x", key=KEYS["filekey"])
    assert status == 404
    assert "the old keys stay" in scene.replicas[0].log()


def used(scene: Scene) -> None:
    """Each secret was there where it belongs: else the search would find nothing for the wrong reason."""
    asked = scene.model.requests
    assert {seen.headers["authorization"] for seen in asked} == {f"Bearer {UPKEY}"}
    assert {seen.path for seen in asked} == {
        f"/{UPPATH}/v1/{route}" for route in ("responses", "models")
    }
    assert all("cookie" not in seen.headers and "x-own" not in seen.headers for seen in asked)
    headers = [sent for sent in scene.mcp.headers if sent]
    assert {sent["authorization"] for sent in headers} == {f"Bearer {TOKEN}"}
    assert {sent["x-api-key"] for sent in headers} == {HEADER}
    assert {name for name, _ in scene.mcp.calls} == {"confess", "fail"}
    assert {one["headers"]["x-subscription-token"] for one in scene.engine.asked} == {ENGINE}
    assert len(scene.said) > 25


async def all_that_is_left(scene: Scene) -> dict[str, bytes]:
    """Every key and value of the store, once nothing runs any more; the password was needed to read it."""
    with pytest.raises(AuthenticationError):
        await Redis(port=scene.valkey.port).ping()
    client = Redis(port=scene.valkey.port, password=PASSWORD)
    try:

        async def there(pattern: str) -> bool:
            return bool([key async for key in client.scan_iter(pattern)])

        async def over() -> bool:
            return not await there("*:sec") and not await there("*:jobs")

        await wait_until(over, 20)
        # Some are packed by then; what is in those, the gateway tells.
        await wait_until(lambda: there("*:seal"), 20)
        found = {}
        async for key in client.scan_iter("*"):
            found[f"key {key.decode()}"] = key + b"\n" + await value_of(client, key)
    finally:
        await client.aclose()
    states = [name for name in found if name.endswith(":st")]
    assert len(states) > 12
    for name in states:
        rid = name.partition("{")[2].partition("}")[0]
        for route in ("", "?stream=true", "/input_items"):
            await scene.ask(f"{rid}{route}", "GET", f"/v1/responses/{rid}{route}")
    return found


async def value_of(client: Any, key: bytes) -> bytes:
    """A value of any type as bytes that can be searched."""
    match await client.type(key):
        case b"hash":
            pairs = await client.hgetall(key)
            return b"\n".join(part for pair in pairs.items() for part in pair)
        case b"stream":
            entries = await client.xrange(key)
            return b"\n".join(value for _, fields in entries for value in fields.values())
        case b"zset":
            return b"\n".join(await client.zrange(key, 0, -1))
        case _:
            value: bytes = await client.get(key)
            return value


async def metrics(scene: Scene, one: Replica) -> bytes:
    async with scene.http.get(f"{one.url}/metrics") as reply:
        return await reply.read()


async def without_a_store(scene: Scene) -> None:
    """The store dies: whoever asks is told so, and the log says why."""
    await scene.valkey.kill()
    tools = [scene.server("s", scene.mcp.url)]
    asking = [
        scene.create("store gone", tools=tools),
        scene.create("store gone, streamed", stream=True),
        scene.ask("store gone, read", "GET", "/v1/responses/resp_" + "0" * 32),
        scene.ask("store gone, ready", "GET", "/readyz"),
    ]
    statuses = [status for status, _ in await asyncio.gather(*asking)]
    assert statuses == [503] * 4
