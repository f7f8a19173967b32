"""Which output answers which call, and an id for each call."""

from tests.translator.test_chat_messages import call, output
from translator.pairing import answered, unique_ids


def test_a_whole_call_comes_before_one_that_was_cut_off():
    cut, whole = call("c", status="incomplete"), call("c", status="completed")
    assert answered([cut, whole, output("c")]) == {1: 2}
    assert answered([cut, output("c"), whole, output("c")]) == {0: 1, 2: 3}
    assert answered([output("c"), whole]) == {}


def test_many_repeats_of_an_id_are_renamed_in_no_time():
    items = [call("c") for _ in range(20_000)]
    ids = unique_ids(items, range(len(items)))
    assert len(set(ids.values())) == len(items)
    assert list(ids.values())[:3] == ["c", "c_2", "c_3"]
