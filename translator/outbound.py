"""From the public request to the upstream's: every refusal, then the exact body.

Called by the api at create (`check`, then `upstream_body` for round 1) and by the machine for
further rounds. Conversions live only in the copy that goes upstream.
"""

from collections.abc import Sequence
from typing import Any

from translator.protocol.request import Request
from translator.protocol.upstream import Api, CustomFormats


def check(
    request: Request,
    history: Sequence[dict[str, Any]] = (),
    *,
    api: Api,
    custom_formats: CustomFormats,
) -> None:
    """Raise RequestError for what cannot be served: tools, tool choice, calls and their outputs."""
    raise NotImplementedError


def upstream_body(
    body: dict[str, Any],
    input_items: Sequence[dict[str, Any]],
    history: Sequence[dict[str, Any]],
    *,
    api: Api,
) -> dict[str, Any]:
    """The body of one inference round; what `check` has let through never raises here."""
    raise NotImplementedError
