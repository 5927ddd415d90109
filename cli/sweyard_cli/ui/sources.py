"""Sources: directories and a cluster as one. Answers are plain values that JSON can hold; all may raise UserError."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweyard_cli.disk import told
from sweyard_cli.errors import UserError
from sweyard_cli.ui.cluster import ClusterView
from sweyard_cli.ui.directories import Directories
from sweyard_cli.ui.not_there import NotThereError
from sweyard_cli.ui.run_files import RunFiles

HERE = "_"
"""Stands where a cluster's run has its namespace, none of which can have this name."""
Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sources:
    """Where to look. For several threads; every method may block.

    Files of a run on the cluster are those in the directory of its name: its volume, mounted there. Volumes are of one
    namespace, and so are they.
    """

    directories: Directories | None = None
    cluster: ClusterView | None = None
    namespace: str = ""
    """Whose runs have their files here; of runs on a cluster alone."""

    def runs(self) -> list[Answer]:
        """A line for each run. One whose files are damaged says so."""
        on_cluster = self.cluster.runs() if self.cluster else []
        names = {line["name"] for line in on_cluster if line["where"] == self.namespace}
        here = [self._line(name, files) for name, files in self._here().items() if name not in names]
        return [*(self._with_files(line) for line in on_cluster), *here]

    def run(self, where: str, name: str) -> Answer:
        """State of one run, and what it is of. Raises NotThereError."""
        if self.cluster is None or where == HERE:
            files = self.files(where, name)
            return {"where": where, "name": name, **files.state(), **files.described()}
        state = self._with_files(self.cluster.run(where, name))
        files_there = self._files(where, name)
        if files_there is None:
            return {**state, "has_files": False}
        return {**state, "restart_steps": files_there.restart_steps()}

    def files(self, where: str, name: str) -> RunFiles:
        """What a run wrote. Raises NotThereError."""
        found = self._files(where, name)
        if found is None:
            raise NotThereError(
                f"there are no files of run {name} here: it has written nothing yet, or its volume is not mounted"
            )
        return found

    def pools(self) -> list[Answer]:
        """A line for each pool of sandboxes."""
        return self.cluster.pools() if self.cluster else []

    def pool(self, where: str, name: str) -> Answer:
        """Each sandbox of a pool. Raises NotThereError."""
        if self.cluster is None:
            raise NotThereError(f"this page reads no cluster, so it knows no pool {where}/{name}")
        return self.cluster.pool(where, name)

    def caches(self) -> Sequence[Answer]:
        """Each image cache with what its nodes hold."""
        return self.cluster.caches() if self.cluster else []

    def stamps(self) -> Mapping[str, object]:
        """By topic a value that differs when there is news of it; quick enough to be asked each second."""
        here = {name: files.stamp() for name, files in self._here().items()}
        there = self.cluster.stamps() if self.cluster else {}
        mounted = {f"run {self.namespace}/{name}": stamp for name, stamp in here.items()}
        return {
            **{f"run {HERE}/{name}": stamp for name, stamp in here.items()},
            **there,
            **{topic: (there[topic], stamp) for topic, stamp in mounted.items() if topic in there},
        }

    def _here(self) -> Mapping[str, RunFiles]:
        return self.directories.runs() if self.directories else {}

    def _files(self, where: str, name: str) -> RunFiles | None:
        is_here = where == HERE or (self.cluster is not None and where == self.namespace)
        return self._here().get(name) if is_here else None

    def _with_files(self, line: Answer) -> Answer:
        """Files know the rewards from the beginning, and figures that the status does not hold."""
        files = self._files(line["where"], line["name"])
        return {**line, "spark": files.spark(), "findings": files.findings()} if files else line

    def _line(self, name: str, files: RunFiles) -> Answer:
        try:
            state = files.state()
        except UserError as error:
            state = {"phase": "Damaged", "message": str(error)}
        except OSError as error:
            state = {"phase": "Damaged", "message": told(error)}
        return {"where": HERE, "name": name, **state}


def topics_of(before: Mapping[str, object], after: Mapping[str, object]) -> Sequence[str]:
    """Of which there is news."""
    return [topic for topic in {**before, **after} if before.get(topic) != after.get(topic)]
