"""What CLUSTER=existing lacks, all of it at once, before anything is made."""

import shutil
import subprocess
from collections.abc import Iterator, Mapping

ANSWER_SECONDS = 15
PROMPT = "Please enter Username"
"""kubectl asks so, whatever the server, where the context's user has nothing to say who it is."""
KUBECONFIG = "the kubeconfig (KUBECONFIG, ~/.kube/config)"


def missing_programs(environment: Mapping[str, str], remedies: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each program that is not installed."""
    for name, remedy in remedies.items():
        if shutil.which(name, path=environment.get("PATH")) is None:
            yield f"{name} is not installed: {remedy}"


def refusal(environment: Mapping[str, str]) -> str | None:
    """Why the chart cannot be installed on the current kubeconfig's cluster; None if it can. kubectl must be there."""
    asked = ("kubectl", "auth", "can-i", "create", "customresourcedefinitions")
    try:
        done = subprocess.run(
            [*asked, f"--request-timeout={ANSWER_SECONDS}s"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=dict(environment),
            check=False,
            timeout=4 * ANSWER_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        return f"the cluster of {KUBECONFIG} does not answer within {error.timeout:.0f} s"
    if done.returncode == 0:
        return None
    if PROMPT in done.stdout + done.stderr:
        return (
            f"the user of the current context in {KUBECONFIG} has no credentials: give it a token, a certificate or a "
            "login command, or choose another context with `kubectl config use-context`"
        )
    if done.stdout.strip() == "no":
        return (
            f"the user of {KUBECONFIG} may not create CustomResourceDefinitions, which the chart brings: use an "
            "administrator's"
        )
    said = (done.stderr.strip() or "it said nothing").splitlines()[-1]
    return f"kubectl reaches no cluster by {KUBECONFIG}: {said}"
