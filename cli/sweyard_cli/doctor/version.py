"""Is the cluster new enough: pure."""

import re

from sweyard_cli.doctor.finding import Finding, Level

OLDEST_MINOR = 31
"""Of Kubernetes 1, as the chart's kubeVersion says."""


def check_version(major: str, minor: str) -> Finding:
    """Of /version; providers append signs to the minor (`31+`)."""
    digits = re.match(r"\d+", minor)
    told = f"the API server is Kubernetes {major}.{minor}"
    if major == "1" and digits is not None and int(digits[0]) < OLDEST_MINOR:
        return Finding(Level.PROBLEM, f"{told}: upgrade the cluster to 1.{OLDEST_MINOR} or later")
    return Finding(Level.OK, told)
