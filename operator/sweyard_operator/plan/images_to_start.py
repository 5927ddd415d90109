"""Which images to start sandboxes of, if there is room: what fails again and again must not be made for ever."""

from sweyard_operator.plan.pool_state import Census, ObservedPool
from sweyard_operator.plan.start_breaker import Breach
from sweyard_operator.plan.supply import Supply

_BY_IMAGE = ("ImagePull", "Error", "OOMKilled")
"""Failures that may lie in an image: one that serves elsewhere is not in question."""


def allowed_images(observed: ObservedPool, supply: Supply) -> tuple[str, ...]:
    """In order of need, less those whose last tries failed and that wait their turn."""
    images = (*supply.missing, *supply.replacing)
    return tuple(image for image in images if image not in observed.held_images)


def choose_images(observed: ObservedPool, census: Census, supply: Supply) -> tuple[str, ...]:
    """One entry for each sandbox to start."""
    images = allowed_images(observed, supply)
    if observed.breach is not None:
        images = _within_breach(images, observed.breach, census)
    if observed.refusal is None:
        return images
    # Refused lately: one at a time finds out whether the quota or rule still says no.
    return images[:1] if observed.refusal_hold_seconds <= 0.0 else ()


def _within_breach(images: tuple[str, ...], breach: Breach, census: Census) -> tuple[str, ...]:
    serving = {pod.image for pod in (*census.free, *census.claimed) if pod.is_ready}
    proven = serving if breach.failure.reason in _BY_IMAGE else set()
    unproven = [image for image in images if image not in proven]
    is_trying = any(not pod.is_ready and pod.image not in proven for pod in census.free)
    num_probes = 0 if is_trying or breach.probe_in_seconds > 0.0 else 1
    return (*(image for image in images if image in proven), *unproven[:num_probes])
