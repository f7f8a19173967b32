"""Grammars of custom tools: compiled when a request brings them, then held against the input as it comes.

In: a tool's format (`lark` or `regex`), and the pieces of one call's decoded input. Out: a refusal of what cannot be
compiled, and of each piece the part that is still in the language. Called by `translator.declarations` at create and by
whoever shows the input of a custom tool (`GrammarPrefix`). The dialect is LLGuidance's: Lark with `%import common` and
`%ignore`, Rust's regexes without look-around. A grammar and its input are a client's and a model's, so that every cost
has a bound here; they count work, not time, and so the same log gives the same answer everywhere.
"""

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from translator.protocol.errors import RequestError

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLParserLimits, LLTokenizer

MAX_GRAMMARS: Final = 64
"""Different grammars of one request with its history: a millisecond each to compile, while others wait."""

MAX_DEFINITION_CHARS: Final = 32 * 1024
"""All of them together. Codex's have some hundreds; the slowest that we found take 10 µs and 1.5 KB a character."""

CACHED_CHARS: Final = 4 * 1024
"""Compiled grammars up to this length are kept: clients send the same few with every request."""

CACHED: Final = 64

MAX_INPUT_BYTES: Final = 1024 * 1024
"""The input of one call that is checked: 2 µs and up to 200 bytes of memory each, so that a frame cannot stop a worker
for longer than two seconds. A model's whole output is smaller."""

MAX_ROW_ITEMS: Final = 500
"""Ways in which the input can be read so far. An ambiguous grammar (`s: s s | "x"`) costs the third power of it: a
third of a second here, minutes at LLGuidance's own 2,000. Lists that recurse to the right end here, too."""

MAX_LEXER_STATES: Final = 20_000
"""At 1 to 2 kB each; Codex's grammars need some hundreds."""

LEXER_FUEL: Final = 200_000
STEP_FUEL: Final = 50_000
"""Some 4 ms of work on regexes when a grammar is compiled, and for a byte of the input."""

LARK_LITERAL: Final = re.compile(
    r"(?:\#|//)[^\n]*"  # a comment
    r'|"(?:\\.|[^"\\])*"'
    r"|/(?:\\.|[^/\\])+/"
    r"|<[^<>\s]+>",  # a special token
    re.DOTALL,
)
"""What LLGuidance reads as one piece, so that nothing in it is an operator."""

EXTENSION: Final = re.compile(r"&|%(?!import\b|ignore\b)\w*")
"""Operators that Lark does not have. Compiling an intersection takes time that doubles with each operand, outside of
every limit; JSON schemas make intersections, too."""

PLACE: Final = re.compile(r"(?:at )?(\d+)\((\d+)\)")
REASON: Final = re.compile(r"^error: (.+)$", re.MULTILINE)
"""What the compiler says in words of its own; the rest quotes the grammar."""

MISMATCH: Final = "does not match its grammar"
UNFINISHED: Final = "ends before its grammar does"
UNCHECKED: Final = "is too long or too ambiguous to be checked against its grammar"


def check(format: dict[str, Any], *, tool: str, at: str) -> None:
    """Refuse a grammar that cannot be compiled; `at` is its place in the request."""
    syntax, definition = format["syntax"], format["definition"]
    fault = None
    if syntax == "lark" and EXTENSION.search(LARK_LITERAL.sub(" ", definition)):
        fault = "only Lark's own operators can be used, and no directives but %import and %ignore"
    elif error := compiled(syntax, definition).get_error():
        fault = told(error, syntax)
    if fault:
        raise RequestError(
            f"Tool {tool!r}: its {syntax} grammar cannot be compiled: {fault}.", param=at
        )


def told(error: str, syntax: str) -> str:
    """What may be shown of a compiler's error."""
    reason = REASON.search(error)
    place = PLACE.match(error) if syntax == "lark" else None  # a regex is wrapped: not its place
    where = f" at line {place[1]}, column {place[2]}" if place else ""
    return (reason[1] if reason else "it is not in the dialect of LLGuidance") + where


class GrammarPrefix:
    """The input of one call against its tool's grammar: `feed` each piece, then `finish`.

    `fault` is set once, by whichever finds it, and says what is wrong ("The input of the tool …"); from then on nothing
    passes. `_matcher` has read what passed; `_bytes` counts what came.
    """

    def __init__(self, format: dict[str, Any]) -> None:
        self._matcher = compiled(format["syntax"], format["definition"]).deep_copy()
        self._bytes = 0
        self.fault: str | None = None

    @property
    def violated(self) -> bool:
        """Whether the input is not in the language, or nobody can tell."""
        return self.fault is not None

    def feed(self, text: str) -> str:
        """The part of the next piece that is still in the language, in whole characters.

        Where a bound is passed, that is nothing, although a part of the piece might be.
        """
        if self.fault:
            return ""
        data = text.encode("utf-8", "surrogatepass")
        self._bytes += len(data)
        if self._bytes > MAX_INPUT_BYTES:
            self.fault = UNCHECKED
            return ""
        valid = self._matcher.try_consume_tokens(list(data))  # this tokenizer's tokens are bytes
        if valid == len(data):
            return text
        self.fault = UNCHECKED if self._matcher.is_error() else MISMATCH
        return data[:valid].decode("utf-8", "ignore")  # half a character stays back

    def finish(self) -> bool:
        """Whether all that was fed is a whole sentence of the language."""
        if not self.fault and not self._matcher.is_accepting():
            self.fault = UNFINISHED
        return not self.fault


def compiled(syntax: str, definition: str) -> "LLMatcher":
    """A matcher that has read nothing and never will: copy it. Errors are in it."""
    if len(definition) > CACHED_CHARS:
        return compile_anew(syntax, definition)
    return compile_once(syntax, definition)


def compile_anew(syntax: str, definition: str) -> "LLMatcher":
    """Compile a grammar."""
    from llguidance import LLMatcher  # noqa: PLC0415

    wrap = LLMatcher.grammar_from_lark if syntax == "lark" else LLMatcher.grammar_from_regex
    tokenizer, limits = machinery()
    return LLMatcher(tokenizer, wrap(definition), log_level=0, limits=limits)


compile_once = lru_cache(maxsize=CACHED)(compile_anew)


@lru_cache(maxsize=1)
def machinery() -> "tuple[LLTokenizer, LLParserLimits]":
    """What every grammar is compiled with."""
    # Imported where it is used: a tenth of a second that processes without such a tool do not spend. `respool serve`
    # calls this at its start where an upstream validates, so that no request waits for it.
    from llguidance import LLParserLimits, LLTokenizer  # noqa: PLC0415

    limits = LLParserLimits(
        max_items_in_row=MAX_ROW_ITEMS,
        initial_lexer_fuel=LEXER_FUEL,
        step_lexer_fuel=STEP_FUEL,
        max_lexer_states=MAX_LEXER_STATES,
        verbose_errors=False,
    )
    return LLTokenizer("byte"), limits
