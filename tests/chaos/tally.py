"""What was counted of some responses, or of the control's frames."""

from dataclasses import dataclass


@dataclass
class Tally:
    """Figures that add up."""

    responses: int = 0
    completed: int = 0
    failed: int = 0
    """With the ingest process that carried it."""
    taken_back: int = 0
    frames: int = 0
    lost: int = 0
    repeated: int = 0
    disordered: int = 0

    def add(self, other: "Tally") -> None:
        for name, amount in vars(other).items():
            setattr(self, name, getattr(self, name) + amount)
