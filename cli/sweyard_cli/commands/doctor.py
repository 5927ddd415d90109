"""sweyard doctor: is this cluster fit for runs?"""

import typer

from sweyard_cli.errors import UserError


def doctor() -> None:
    """Look for what would stop or slow runs on the kubeconfig's cluster, and say how to mend it."""
    from sweyard_cli.cluster.connection import connect
    from sweyard_cli.doctor.examine import examine
    from sweyard_cli.doctor.finding import Level

    problems = 0
    for finding in examine(connect()):
        typer.echo(f"{finding.level}: {finding.message}")
        problems += finding.level is Level.PROBLEM
    if problems:
        raise UserError(f"{problems} problem{'s' if problems > 1 else ''} found", exit_code=1)
