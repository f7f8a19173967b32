"""Ids: what looks like ours, and that a place decides."""

import pytest

from translator.ids import call_id, input_item_id, is_response_id, item_id, response_of_item

RID = "resp_" + "a1" * 16


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        (RID, True),
        (RID.upper(), False),
        (RID + "\n", False),
        (RID[:-1], False),
        ("resp_missing", False),
        ("../" + RID, False),
        ("", False),
    ],
)
def test_only_an_id_that_we_could_have_minted_is_one_of_ours(text: str, ours: bool) -> None:
    assert is_response_id(text) is ours


def test_the_same_place_has_the_same_id_and_every_other_place_another() -> None:
    made = [
        item_id(RID, "message", 1, 0),
        item_id(RID, "message", 1, 1),
        item_id(RID, "message", 2, 0),
        item_id("resp_" + "b2" * 16, "message", 1, 0),
        call_id(RID, 1, 0),
        input_item_id(RID, 0),
    ]
    assert len({ident.partition("_")[2] for ident in made}) == len(made)
    assert item_id(RID, "message", 1, 0) == made[0]
    assert [ident.partition("_")[0] for ident in made[-2:]] == ["call", "msg"]


def test_a_call_id_is_as_short_as_the_strictest_server_wants_it() -> None:
    assert len(call_id(RID, 1, 0)) <= 40


def test_an_item_id_tells_its_response_and_no_other_id_does() -> None:
    for ident in (item_id(RID, "mcp_list_tools", 0, 0), input_item_id(RID, 3, "fc")):
        assert response_of_item(ident) == RID
        assert len(ident) < 64
    for foreign in (call_id(RID, 1, 0), RID, "msg_up", "", item_id(RID, "message", 1, 0) + "\n"):
        assert response_of_item(foreign) is None
