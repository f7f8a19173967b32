"""Another tenant's response is exactly like one that never was, on every route."""

from tests.api.gateway import Gateway, running
from tests.ingest.server import text_stream

KEYS = {"key-a": "a", "key-b": "b", "key-empty": ""}
A, B = {"authorization": "Bearer key-a"}, {"authorization": "Bearer key-b"}

ROUTES = [
    ("GET", ""),
    ("GET", "?stream=true"),
    ("GET", "?stream=true&starting_after=0"),
    ("GET", "/input_items"),
    ("POST", "/cancel"),
    ("DELETE", ""),
]


async def answers(gateway: Gateway, rid: str) -> list[tuple[int, bytes]]:
    """What tenant b is told about an id, the id itself taken out."""
    found = []
    for method, path in ROUTES:
        reply = await gateway.ask(method, f"/v1/responses/{rid}{path}", headers=B)
        found.append((reply.status, reply.body.replace(rid.encode(), b"ID")))
    chained = await gateway.ask(
        "POST",
        "/v1/responses",
        {"model": "m", "input": "x", "previous_response_id": rid},
        headers=B,
    )
    found.append((chained.status, chained.body.replace(rid.encode(), b"ID")))
    return found


async def test_a_foreign_id_an_unknown_one_and_nonsense_are_answered_alike(store, upstream):
    upstream.play(*text_stream("private"))
    async with running(store, upstream, api_keys=KEYS) as gateway:
        body = {"model": "m", "input": "for a only", "background": True}
        made = (await gateway.ask("POST", "/v1/responses", body, headers=A)).json
        rid = made["id"]
        gateway.headers = A
        done = await gateway.until(rid, "completed")
        gateway.headers = {}
        calls = len(upstream.requests)
        foreign = await answers(gateway, rid)
        assert {status for status, _ in foreign[:-1]} == {404}
        assert foreign[-1][0] == 400
        for unknown in ("resp_" + "0" * 32, "resp_missing", "resp_" + "A" * 32, "x", "a:b", "{x}"):
            assert await answers(gateway, unknown) == foreign, unknown
        assert len(upstream.requests) == calls
        assert (await gateway.get(rid, headers=A)).json == done


async def test_an_id_of_another_form_never_becomes_a_key(store, upstream):
    async with running(store, upstream, roles=False) as gateway:
        # A key as the id `evil` would name it, which must not be read.
        key = store.keys.state("evil")
        await store.connections.command("SET", key, "x", "PX", 60_000)
        for method, path in ROUTES:
            assert (await gateway.ask(method, f"/v1/responses/evil{path}")).status == 404
        assert await store.connections.command("GET", key) == b"x"
