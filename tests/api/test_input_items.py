import pytest
from openai.types.responses import ResponseItem
from pydantic import TypeAdapter

from api.input_items import page
from tests.api.gateway import Gateway, running
from tests.ingest.server import text_stream
from translator.protocol.errors import RequestError

TEXT = text_stream("a")


async def test_the_requests_own_input_is_listed_newest_first(gateway: Gateway):
    gateway.upstream.play(*TEXT)
    first = await gateway.made(input="one")
    texts = [{"role": "user", "content": text, "id": f"mine_{text}"} for text in ("a", "b", "c")]
    made = await gateway.made(input=texts, previous_response_id=first["id"])
    path = f"/v1/responses/{made['id']}/input_items"
    reply = (await gateway.ask("GET", path)).json
    assert [item["id"] for item in reply["data"]] == ["mine_c", "mine_b", "mine_a"]
    assert (reply["object"], reply["has_more"]) == ("list", False)
    assert (reply["first_id"], reply["last_id"]) == ("mine_c", "mine_a")
    reply = (
        await gateway.ask("GET", f"{path}?order=asc&limit=2&include[]=reasoning.encrypted_content")
    ).json
    assert [item["id"] for item in reply["data"]] == ["mine_a", "mine_b"]
    assert reply["has_more"] is True
    reply = (await gateway.ask("GET", f"{path}?order=asc&limit=2&after=mine_b")).json
    assert [item["id"] for item in reply["data"]] == ["mine_c"]
    assert reply["has_more"] is False
    reply = (await gateway.ask("GET", f"{path}?after=mine_a")).json
    assert (reply["data"], reply["first_id"], reply["last_id"]) == ([], None, None)


async def test_a_string_is_one_message_with_an_id(gateway: Gateway):
    gateway.upstream.play(*TEXT)
    rid = (await gateway.made(input="hi there"))["id"]
    (item,) = (await gateway.ask("GET", f"/v1/responses/{rid}/input_items")).json["data"]
    assert item["id"]
    assert (item["type"], item["role"]) == ("message", "user")
    assert item["content"] == [{"type": "input_text", "text": "hi there"}]


async def test_what_is_listed_is_of_openais_types_however_little_the_client_said(gateway: Gateway):
    gateway.upstream.play(*TEXT)
    calls = [
        {"type": "function_call", "call_id": "f", "name": "get", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "f", "output": "1", "status": None},
        {"type": "custom_tool_call", "call_id": "c", "name": "exec", "input": "ls"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "a"},
    ]
    said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]
    rid = (await gateway.made(input=[*said, *calls]))["id"]
    reply = (await gateway.ask("GET", f"/v1/responses/{rid}/input_items?order=asc")).json
    for item in reply["data"]:
        assert item["status"] == "completed"
        TypeAdapter(ResponseItem).validate_python(item)
    assert [item["content"][0]["text"] for item in reply["data"][:2]] == ["hi", "yes"]


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("order=up", "order"),
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=-1", "limit"),
        ("limit=x", "limit"),
        ("limit=" + "9" * 30, "limit"),
        ("after=nobody", "after"),
        ("after=", "after"),
        ("include=x", "include"),
    ],
)
async def test_a_wrong_parameter_is_named(gateway: Gateway, query, param):
    gateway.upstream.play(*TEXT)
    rid = (await gateway.made())["id"]
    reply = await gateway.ask("GET", f"/v1/responses/{rid}/input_items?{query}")
    assert (reply.status, reply.error["param"]) == (400, param)


async def test_input_that_is_lost_is_a_404(store, upstream):
    async with running(store, upstream, roles=False) as gateway:
        rid = (await gateway.made(background=True))["id"]
        await store.connections.command("DEL", store.keys.input(rid))
        assert (await gateway.ask("GET", f"/v1/responses/{rid}/input_items")).status == 404


def test_pages_join_to_the_whole():
    items = [{"id": f"i{n}"} for n in range(7)]
    after, seen = None, []
    while True:
        found = page(items, after, 3)
        seen += found["data"]
        after = found["last_id"]
        if not found["has_more"]:
            break
    assert seen == items


def test_a_cursor_of_nowhere_is_refused():
    with pytest.raises(RequestError, match="'after'"):
        page([], "i1", 3)


@pytest.mark.parametrize(
    "twin", [{"role": "user", "content": "b"}, {"type": "item_reference"}, {"type": "other"}]
)
async def test_an_id_that_comes_twice_is_refused_for_no_pager_could_tell_the_two(
    gateway: Gateway, twin
):
    one = {"role": "user", "content": "a", "id": "msg_1"}
    reply = await gateway.create(
        input=[one, {"role": "user", "content": ""}, twin | {"id": "msg_1"}]
    )
    assert reply.status == 400
    if twin.get("type") != "other":
        assert reply.error["param"] == "input[2].id"
        assert "msg_1" not in reply.error["message"]


async def test_an_item_that_the_chain_has_already_is_refused_and_a_reference_to_it_is_none(
    gateway: Gateway,
):
    gateway.upstream.play(*TEXT)
    first = await gateway.made()
    said, more = first["output"][0], {"role": "user", "content": "b"}
    again = {"previous_response_id": first["id"], "input": [said, more]}
    reply = await gateway.create(**again)
    assert (reply.status, reply.error["param"]) == (400, "input[0].id")
    assert "'previous_response_id'" in reply.error["message"]
    for one in ({"type": "item_reference", "id": said["id"]}, {**said, "id": "msg_mine"}):
        assert (await gateway.create(**again | {"input": [one, more]})).status == 200
    assert (await gateway.create(input=[said, more])).status == 200


async def test_items_with_an_empty_id_are_no_twins(gateway: Gateway):
    gateway.upstream.play(*TEXT)
    one = {"role": "user", "content": "a", "id": ""}
    rid = (await gateway.made(input=[one, one]))["id"]
    items = (await gateway.ask("GET", f"/v1/responses/{rid}/input_items")).json["data"]
    assert len({item["id"] for item in items}) == 2


def test_pages_of_stored_twins_come_to_an_end():
    items = [{"id": name} for name in "abacaaba"]
    after = None
    for _ in items:
        found = page(items, after, 1)
        after = found["last_id"]
        if not found["has_more"]:
            break
    assert not found["has_more"]
