"""Who may come in, and how much each may have open: the tenants as they are at this moment.

In: keys and limits from whoever knows them (the composition root, which may reread them while the process runs). Out:
one unchanging snapshot, taken anew for each request. Used by `api.auth`, `api.admission` and `api.create`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Tenants:
    """All of them. Without any key there is one tenant, `api.auth.ANONYMOUS`."""

    keys: tuple[tuple[bytes, str], ...] = field(default=(), repr=False)
    """Each key and its tenant; a tenant may have several."""

    most_open: Mapping[str, int] = field(default_factory=dict)
    """Responses that a tenant may have open at once, where that is not what the settings say for all."""

    most_in_flight: Mapping[str, int] = field(default_factory=dict)
    """Answers that a tenant may have open in this process, likewise."""

    @classmethod
    def of(cls, api_keys: Mapping[str, str]) -> "Tenants":
        """Of keys alone, as key to tenant."""
        return cls(tuple((key.encode(), tenant) for key, tenant in api_keys.items()))


Look = Callable[[], Tenants]
"""The tenants as they are now; asked once for each request, so it must not cost more than a look."""
