"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

FileOption = Annotated[Path, typer.Option("--file", "-f", metavar="FILE", help="YAML file.", show_default=False)]
NamespaceOption = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="Default: that of the kubeconfig's context.", show_default=False),
]
