"""The Chat Completions dialect: chunks of a chat upstream → the events that the accumulator takes.

In: the blocks of one attempt, in order. Out: Responses events, as a well-behaved Responses server would have sent them.
Everything behind the accumulator (custom tools, order, numbering, resume, replay) is shared. Called by the machine; how
providers misbehave is in upstream-quirks.md section 4. Within one chunk reasoning comes first, then text, then calls.

Text and reasoning are closed before the next item opens. A chat upstream has no terminal event: `[DONE]`, or the end of
the body after a finish reason, is the end (`end`); the last usage counts.
"""

from collections.abc import Iterator
from typing import Any, Final

from translator.chat_calls import ChatCalls
from translator.protocol.errors import ProtocolFault
from translator.upstream_event import END_OF_STREAM, Event, body_of, showable
from translator.upstream_item import listed

REASONS: Final = {
    **dict.fromkeys(("length", "max_tokens", "model_length", "repetition"), "max_output_tokens"),
    **dict.fromkeys(("content_filter", "sensitive"), "content_filter"),
}
"""Finish reasons that are no completion: OpenAI's two, and what others call them (Mistral `model_length`, vLLM
`repetition`, Zhipu `sensitive`)."""

BROKEN_OFF: Final = frozenset({"abort", "error", "insufficient_system_resource", "network_error"})
"""Finish reasons of a server that gave up (vLLM, Mistral, DeepSeek, Zhipu): half a call must not look whole. Any other
word, known or not, is a completion (upstream-quirks.md section 4)."""

GAVE_UP: Final = "The upstream broke off before the model had finished."

TEXT_EVENTS: Final = {
    "reasoning": "response.reasoning_text.delta",
    "text": "response.output_text.delta",
    "refusal": "response.refusal.delta",
}
FIRST: Final = (None, 0, "0", "")
"""Indexes of the first choice, as servers write them."""

ITEMS: Final = {"reasoning": "reasoning", "text": "message", "refusal": "message"}


class ChatDialect:
    """Reads one attempt at a round. `names` are the model-visible names of the declared tools."""

    def __init__(self, names: frozenset[str]) -> None:
        self._next = 0  # the next item's output index
        self._open: str | None = (
            None  # type of the text item that takes deltas, None if there is none
        )
        self._open_index = 0
        self._annotated = False  # it has text, which can be
        self._spoke = False  # some text is closed
        self._annotations: list[dict[str, Any]] = []  # those that no text has come for yet
        self._calls = ChatCalls(names, self._take_index)
        self._finish: str | None = None  # the first finish reason
        self._usage: dict[str, Any] | None = None  # the last one that came
        self._over = False  # the end was told

    def events(self, block: bytes) -> Iterator[Event]:
        """The events of one block. Raises ProtocolFault for broken JSON."""
        name, body = body_of(block)
        if body is END_OF_STREAM:
            yield from self._end()
        elif isinstance(body, dict):
            yield from self._chunk(body, name)
        elif isinstance(body, list):  # Gemini's errors come in one
            for chunk in body:
                if isinstance(chunk, dict):
                    yield from self._chunk(chunk, name)

    @property
    def usage(self) -> dict[str, Any] | None:
        """See Dialect: the last one that came, unless an event has told it."""
        return None if self._over else self._usage

    def end(self) -> Iterator[Event]:
        """The body has ended, or broken off. Nothing comes of that without a finish reason before."""
        if self._finish is not None:
            yield from self._end()

    def _end(self) -> Iterator[Event]:
        if self._over:
            return
        self._over = True
        if self._finish in BROKEN_OFF:
            yield {"type": "error", "error": {"message": GAVE_UP}, "usage": self._usage}
            return
        yield from self._calls.end()
        reason = REASONS.get(self._finish or "")
        response: dict[str, Any] = {"usage": self._usage}
        if reason is None:
            yield {"type": "response.completed", "response": response}
        else:
            response["incomplete_details"] = {"reason": reason}
            yield {"type": "response.incomplete", "response": response}

    def _chunk(self, body: dict[str, Any], name: str | None) -> Iterator[Event]:
        choices = [
            choice
            for choice in listed(body.get("choices"))
            if isinstance(choice, dict) and choice.get("index") in FIRST
        ]
        self._usage = usage_in(body, choices) or self._usage
        if error := error_of(body, choices, name):
            self._over = True
            yield {"type": "error", "error": error, "usage": self._usage}
            return
        for choice in choices:
            yield from self._choice(choice)

    def _choice(self, choice: dict[str, Any]) -> Iterator[Event]:
        """The first choice; a request for several is refused.

        A whole `message` is taken as one delta, and as the end; one behind deltas says nothing new.
        """
        delta, message = choice.get("delta"), choice.get("message")
        finish = choice.get("finish_reason")
        if isinstance(finish, str) and finish and self._finish is None:
            self._finish = finish.lower()
        # Beside a delta some servers repeat the message so far.
        if not isinstance(delta, dict) and isinstance(message, dict):
            alone = not self._next
            delta = message if alone else {"tool_calls": message.get("tool_calls")}
            if alone or not self._calls.begun:
                yield from self._delta(delta, choice)
            if self._finish or (alone and self._next):
                yield from self._end()
        elif isinstance(delta, dict):
            yield from self._delta(delta, choice)

    def _delta(self, delta: dict[str, Any], choice: dict[str, Any]) -> Iterator[Event]:
        content = delta.get("content")
        thought, said = parts_of(content) if isinstance(content, list) else ("", content)
        yield from self._text("reasoning", reasoning_in(delta) or thought, {})
        yield from self._text("text", said, logprobs_of(choice))
        yield from self._text("refusal", delta.get("refusal"), {})
        self._annotations += [a for a in listed(delta.get("annotations")) if isinstance(a, dict)]
        if self._annotated:
            yield from self._annotate()
        elif self._spoke:
            self._annotations = []  # of a text that is closed: too late to be shown
        calls = delta.get("tool_calls")
        calls = [calls] if isinstance(calls, dict) else listed(calls)  # TGI sends one alone
        if not calls and isinstance(delta.get("function_call"), dict):
            calls = [{"index": 0, "function": delta["function_call"]}]
        for position, call in enumerate(calls):
            if isinstance(call, dict):
                for event in self._calls.take(call, position if len(calls) > 1 else None):
                    yield from self._close_text()
                    yield event

    def _text(self, kind: str, text: Any, more: Event) -> Iterator[Event]:
        """A piece of text; opens the item that it needs. Nothing comes of an empty one, but what is said `more` of it."""
        if text is None or (text == "" and not (more and self._annotated)):
            return
        if not isinstance(text, str):
            raise ProtocolFault("The upstream sent a delta that is no text.")
        if self._open != ITEMS[kind]:
            yield from self._close_text()
            self._open, self._open_index = ITEMS[kind], self._take_index()
        self._annotated = self._annotated or kind == "text"
        yield {"type": TEXT_EVENTS[kind], "output_index": self._open_index, "delta": text, **more}

    def _annotate(self) -> Iterator[Event]:
        """What annotates the text, also what came before its first character."""
        for annotation in self._annotations:
            yield {
                "type": "response.output_text.annotation.added",
                "output_index": self._open_index,
                "annotation": showable(flattened(annotation)),
            }
        self._annotations = []

    def _close_text(self) -> Iterator[Event]:
        """The open text item is whole: another item follows."""
        if self._open is not None:
            self._open, self._annotated, self._spoke = None, False, self._spoke or self._annotated
            yield {"type": "response.output_item.done", "output_index": self._open_index}

    def _take_index(self) -> int:
        index, self._next = self._next, self._next + 1
        return index


def parts_of(content: list[Any]) -> tuple[str, str]:
    """Reasoning and text of a content list (Mistral), each joined."""
    thought, said = "", ""
    for part in content:
        if not isinstance(part, dict):
            continue
        if part.get("type") == "thinking":
            inner = part.get("thinking")
            thought += parts_of(inner)[1] if isinstance(inner, list) else str(inner or "")
        elif isinstance(part.get("text"), str):
            said += part["text"]
    return thought, said


def flattened(annotation: dict[str, Any]) -> dict[str, Any]:
    """An annotation in the Responses form: what Chat nests under the type's name stands beside it."""
    kind = annotation.get("type")
    nested = annotation.get(kind) if isinstance(kind, str) else None
    return {"type": kind, **nested} if isinstance(nested, dict) else annotation


def logprobs_of(choice: dict[str, Any]) -> Event:
    """The log probabilities of a chunk's text, as a field of its delta."""
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    return {"logprobs": showable(content)} if isinstance(content, list) and content else {}


def reasoning_in(delta: dict[str, Any]) -> Any:
    """What a delta says of reasoning, in one of two spellings; a list of parts as their text."""
    found = delta.get("reasoning_content") or delta.get("reasoning")
    return "".join(parts_of(found)) if isinstance(found, list) else found


def usage_in(body: dict[str, Any], choices: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The usage that a chunk reports: beside its choices, in one of them (Moonshot), or in an extension (Groq)."""
    for place in (body, *choices, body.get("x_groq")):
        found = place.get("usage") if isinstance(place, dict) else None
        if isinstance(found, dict) and found:
            return found
    return None


def error_of(body: dict[str, Any], choices: list[dict[str, Any]], name: str | None) -> Any:
    """What a chunk tells as an error: in some `error` field, or all of it where its event line or object says so."""
    told = name == "error" or body.get("object") == "error"
    places = (body, *choices, body.get("x_groq"))
    fields = (place.get("error") for place in places if isinstance(place, dict))
    return next(filter(None, fields), None) or (body if told else None)
