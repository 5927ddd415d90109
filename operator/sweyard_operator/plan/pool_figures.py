"""What the planner found and decided, for the status to speak of."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one pass."""

    wanted: int
    """Sandboxes that should stand free, within the cap."""
    demand: int
    """Asked for, before the cap."""
    creating: int
    """Created in this pass."""
    paced: int
    """Within the cap, to be created when others have started."""
    missing: int
    """Wanted and not there."""
    removing: int
    """Deleted in this pass for being unneeded or outdated."""
    unserved: tuple[str, ...] = ()
    """Wanted images of which no sandbox is Ready, in order of need."""
