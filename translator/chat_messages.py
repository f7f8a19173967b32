"""The conversation as Chat Completions takes it: items of the history and the request in, messages out.

Called by `translator.chat_request`. A strict server wants each turn of the model in one assistant message (what it said,
then all its calls), then one tool message for each call, in the order of the calls and with nothing between them, and no
call id twice. Clients send items in other orders: outputs swapped, or with reasoning and messages between them. So
items are sorted into turns: while calls of a turn wait for their outputs, what the model says belongs to that turn, and
what others say comes after it.

Two more things servers differ in: many chat templates take one system message only, and that first, and ignore or
refuse others; so that instructions, system and developer messages become one. And few know the role `developer`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from translator.chat_parts import attachments, chat_part, plain, spoken, text_of
from translator.history import call, thought
from translator.pairing import answered, unique_ids
from translator.protocol.upstream import ReasoningHistory
from translator.replay import replayed
from translator.toolmap import ToolMap

Item = dict[str, Any]
Message = dict[str, Any]

PARAGRAPH: Final = "\n\n"

NEXT_MESSAGE: Final = "(The output is in the next message.)"
"""The text of a tool message whose call gave images or files alone: a tool message can only hold text."""


def chat_messages(
    items: Sequence[Item],
    tools: ToolMap,
    *,
    instructions: str | None = None,
    reasoning_history: ReasoningHistory = "none",
) -> list[Message]:
    """The messages of a conversation; `check` has let its items through."""
    items = replayed(items, tools)
    answers = answered(items)
    ids = unique_ids(items, sorted(answers))
    calls = {output: place for place, output in answers.items()}
    told = [instructions or ""]
    talk = Talk(reasoning_history)
    for place, item in enumerate(items):
        kind = item["type"]
        if kind == "message" and item["role"] in ("system", "developer"):
            told.append(plain(item["content"]))
        elif kind == "message" and item["role"] == "user":
            talk.hear({"role": "user", "content": spoken(item["content"])})
        elif kind == "message":
            talk.say(said_by_model(item["content"]))
        elif kind == "reasoning":
            talk.think(thought(item))
        elif place in answers:
            talk.call(Call(ids[place], call(item, tools)))
        elif place in calls:
            talk.answer(ids[calls[place]], item["output"])
    system = PARAGRAPH.join(filter(None, told))
    first = [{"role": "system", "content": system}] if system else []
    return first + talk.end()


def said_by_model(content: str | list[Item]) -> str:
    """What the model said, refusals too: not every server knows a field for those. Its parts are pieces of one text."""
    if isinstance(content, str):
        return content
    return "".join(text_of(part) or "" for part in content)


@dataclass(frozen=True, slots=True)
class Call:
    """A call under its unique id, as the function call that goes up."""

    id: str
    function: Item

    def shown(self) -> Item:
        """The call in Chat's shape."""
        function = {key: self.function[key] for key in ("name", "arguments")}
        return {"id": self.id, "type": "function", "function": function}


@dataclass(slots=True)
class Turn:
    """What the model said and did before it knew more. `Talk` fills it; `later` are messages that came too early."""

    thoughts: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    outputs: dict[str, str | list[Item]] = field(default_factory=dict)
    later: list[Message] = field(default_factory=list)

    @property
    def waits(self) -> bool:
        """Whether some call has no output yet."""
        return len(self.outputs) < len(self.calls)

    def messages(self, reasoning_history: ReasoningHistory) -> list[Message]:
        """The turn as messages: none if it neither says nor does anything."""
        if not self.calls and not self.texts:
            return self.later
        message: Message = {"role": "assistant", "content": PARAGRAPH.join(self.texts) or None}
        if reasoning_history != "none" and self.thoughts:
            message[reasoning_history] = PARAGRAPH.join(self.thoughts)
        if self.calls:
            message["tool_calls"] = [one.shown() for one in self.calls]
        return [message, *self.tool_messages(), *self.attached(), *self.later]

    def tool_messages(self) -> Iterable[Message]:
        """What the calls gave, in their order."""
        for one in self.calls:
            output = self.outputs[one.id]
            text = plain(output) or (NEXT_MESSAGE if attachments(output) else "")
            yield {"role": "tool", "tool_call_id": one.id, "content": text}

    def attached(self) -> Iterable[Message]:
        """The images and files among it: only a user's message can hold them."""
        parts: list[Item] = []
        for one in self.calls:
            if media := attachments(self.outputs[one.id]):
                parts.append({"type": "text", "text": f"Output of the call {one.id}:"})
                parts += [chat_part(part) for part in media]
        if parts:
            yield {"role": "user", "content": parts}


class Talk:
    """A conversation as it is told, item by item.

    `_messages` are those of finished turns; `_turn` is the one at hand, ended by what the model does once it has all
    outputs, and by what others say.
    """

    def __init__(self, reasoning_history: ReasoningHistory) -> None:
        self._reasoning_history = reasoning_history
        self._messages: list[Message] = []
        self._turn = Turn()

    def hear(self, message: Message) -> None:
        """Somebody else speaks."""
        if self._turn.waits:
            self._turn.later.append(message)
            return
        self._end_turn()
        self._messages.append(message)

    def say(self, text: str) -> None:
        """The model speaks."""
        if text:
            self._of_model().texts.append(text)

    def think(self, text: str) -> None:
        """The model thinks."""
        if text:
            self._of_model().thoughts.append(text)

    def call(self, made: Call) -> None:
        """The model calls."""
        self._of_model().calls.append(made)

    def answer(self, call_id: str, output: str | list[Item]) -> None:
        """A call of the turn at hand gets its output."""
        self._turn.outputs[call_id] = output

    def end(self) -> list[Message]:
        """All messages."""
        self._end_turn()
        return self._messages

    def _of_model(self) -> Turn:
        """The turn to which what the model does next belongs."""
        if self._turn.calls and not self._turn.waits:
            self._end_turn()
        return self._turn

    def _end_turn(self) -> None:
        self._messages += self._turn.messages(self._reasoning_history)
        self._turn = Turn()
