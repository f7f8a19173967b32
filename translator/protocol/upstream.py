"""An upstream as the settings name it: where it is, what it speaks, which models are its own."""

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

Api = Literal["responses", "chat"]
CustomFormats = Literal["reject", "validate"]
ReasoningHistory = Literal["none", "reasoning_content", "reasoning"]
"""The field of an assistant's message in which a Chat upstream takes what the model thought, if any."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """One model server.

    `base_url` ends before `/responses` or `/chat/completions`; `models` are globs, empty means any model.
    """

    id: str
    base_url: str
    api: Api
    api_key: str | None = field(default=None, repr=False)
    models: tuple[str, ...] = ()
    custom_formats: CustomFormats = "reject"
    reasoning_history: ReasoningHistory = "none"

    def serves(self, model: str) -> bool:
        """Whether this upstream is meant for the model of that name."""
        return not self.models or any(fnmatchcase(model, glob) for glob in self.models)
