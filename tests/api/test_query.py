import pytest
from starlette.datastructures import QueryParams

from api.query import choice, cursor, flag, integer, many
from translator.protocol.errors import RequestError


@pytest.mark.parametrize(
    ("query", "wanted"), [("", False), ("a=true", True), ("a=TRUE", True), ("a=false", False)]
)
def test_flags(query, wanted):
    assert flag(QueryParams(query), "a") is wanted


def test_lists():
    query = QueryParams("x[]=a&x%5B%5D=b&x=c,d&x=&y=e")
    assert many(query, "x") == ["a", "b", "c", "d"]


@pytest.mark.parametrize("text", ["0", "7", "000000000000007"])
def test_cursors(text):
    assert cursor(text, "c") == int(text)


@pytest.mark.parametrize("text", ["", "-1", "+1", "1 ", "1e3", "0x1", "\u0661", "\u00b2", "1" * 16])
def test_what_is_no_cursor(text):
    with pytest.raises(RequestError) as refused:
        cursor(text, "c")
    assert refused.value.param == "c"
    assert not text or f" {text} " not in refused.value.message


def test_integers_and_choices():
    assert integer(QueryParams(""), "n", 20, range(1, 101)) == 20
    assert integer(QueryParams("n=100"), "n", 20, range(1, 101)) == 100
    assert choice(QueryParams(""), "o", "desc", ("asc", "desc")) == "desc"
    with pytest.raises(RequestError, match="between 1 and 100"):
        integer(QueryParams("n=101"), "n", 20, range(1, 101))
