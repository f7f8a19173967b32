"""The content of messages and outputs in Chat's shapes: parts of ours in, a text or Chat's parts out.

Called by `translator.chat_messages`, and by `translator.chat_request` at create for what Chat cannot say. Text alone goes
up as one string: not every server takes a list, and those that do join it in ways of their own.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from translator.protocol.errors import RequestError

Part = dict[str, Any]
Content = str | list[Part]

PASSED: Final = frozenset({"audio_url", "file", "image_url", "input_audio", "video_url"})
"""Parts that have Chat's shape already, those that only some servers know among them."""

MEDIA: Final = PASSED | {"input_image", "input_file"}


def text_of(part: Part) -> str | None:
    """What a part says; None if it is no text."""
    if part["type"] in MEDIA:
        return None
    text = part.get("refusal" if part["type"] == "refusal" else "text")
    return text if isinstance(text, str) else None


def plain(content: Content) -> str:
    """All text of a content in one string."""
    if isinstance(content, str):
        return content
    return joined(text_of(part) or "" for part in content)


def joined(texts: Iterable[str]) -> str:
    """Texts one after the other, each on a line of its own; an end of line that is there is enough."""
    lines: list[str] = []
    for text in texts:
        if lines and text and not lines[-1].endswith("\n"):
            lines.append("\n")
        if text:
            lines.append(text)
    return "".join(lines)


def spoken(content: Content) -> Content:
    """The content of a user's message."""
    if isinstance(content, str) or not attachments(content):
        return plain(content)
    return [chat_part(part) for part in content if text_of(part) != ""]


def attachments(content: Content) -> Sequence[Part]:
    """The parts of a content that are no text, in our shape."""
    if isinstance(content, str):
        return ()
    return [part for part in content if text_of(part) is None]


def chat_part(part: Part) -> Part:
    """One part in Chat's shape; `refuse_part` has let it through."""
    text = text_of(part)
    if text is not None:
        return {"type": "text", "text": text}
    if part["type"] == "input_image":
        detail = part.get("detail")
        detail = "high" if detail == "original" else detail  # the most that Chat knows
        return {"type": "image_url", "image_url": said(url=part["image_url"], detail=detail)}
    if part["type"] == "input_file":
        keys = ("file_data", "file_id", "filename")
        return {"type": "file", "file": said(**{key: part.get(key) for key in keys})}
    return part


def said(**fields: Any) -> Part:
    """The fields that say something."""
    return {key: value for key, value in fields.items() if value is not None}


def refuse_part(part: Part, at: str, *, only_text: bool) -> None:
    """Raise RequestError for a part that Chat cannot say; `at` is its place in the request."""
    kind = part["type"]
    if text_of(part) is not None:
        return
    if only_text:
        fault = "this message can only hold text"
    elif kind == "input_image":
        fault = "" if part.get("image_url") else "an image is sent by its 'image_url'"
    elif kind == "input_file":
        held = part.get("file_data") or part.get("file_id")
        fault = "" if held else "a file is sent by its 'file_data'"
    elif kind in PASSED:
        fault = "" if isinstance(part.get(kind), dict) else f"it has no {kind!r} object"
    else:
        fault = "Chat Completions has no such content"
    if fault:
        raise RequestError(
            f"The upstream of this model speaks Chat Completions, and cannot take {at!r}: {fault}.",
            param=at,
        )
