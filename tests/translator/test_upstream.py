"""Which upstream serves a model."""

import pytest

from translator.protocol.upstream import Upstream


@pytest.mark.parametrize(
    ("globs", "model", "serves"),
    [((), "any", True), (("qwen-*", "gpt-5"), "qwen-3", True), (("qwen-*",), "gpt-5", False)],
)
def test_globs_name_the_models_and_none_means_any(
    globs: tuple[str, ...], model: str, serves: bool
) -> None:
    assert Upstream("u", "http://127.0.0.1:1/v1", "responses", models=globs).serves(model) is serves


def test_the_key_is_never_shown() -> None:
    assert "hush" not in repr(Upstream("u", "http://127.0.0.1:1/v1", "chat", api_key="hush"))
