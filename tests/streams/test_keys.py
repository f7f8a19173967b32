import pytest

from streams.keys import WORK_KINDS, Keys

RID = "resp_" + "0" * 32


def test_all_keys_of_a_response_share_its_hash_tag():
    keys = Keys("ns")
    calls = (keys.state, keys.input, keys.output, keys.seal, keys.secrets, keys.jobs)
    parts = ("st", "in", "out", "seal", "sec", "jobs")
    assert [call(RID) for call in calls] == [f"ns:{{{RID}}}:{part}" for part in parts]


def test_channels_and_shared_keys_are_of_the_namespace():
    keys = Keys("ns")
    assert keys.bell_in(RID) == f"ns:{{{RID}}}:bell:in"
    assert keys.bell_out(RID) == f"ns:{{{RID}}}:bell:out"
    assert [keys.work(kind) for kind in WORK_KINDS] == [
        "ns:work:rounds",
        "ns:work:translate",
        "ns:work:tools",
    ]
    assert keys.due == "ns:due"


def test_a_kind_of_work_that_does_not_exist_has_no_key():
    with pytest.raises(ValueError, match="no such kind"):
        Keys("ns").work("lunch")


@pytest.mark.parametrize("ns", ["", "a{b", "a}b"])
def test_a_namespace_cannot_move_the_hash_tag(ns):
    with pytest.raises(ValueError, match="namespace"):
        Keys(ns)
