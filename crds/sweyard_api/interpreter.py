"""Faults of the Python that runs us, for all packages that must mind them."""

import sys

LEAVES_TLS_OPEN = sys.version_info < (3, 12, 8)
"""Older ones forget a TLS connection whose end the peer does not confirm (cpython pull request 118960)."""
