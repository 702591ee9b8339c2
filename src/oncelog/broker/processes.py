"""Which of the processes this is, where `oncelog serve --processes N` shares one broker's work among several."""

from __future__ import annotations

from oncelog.core.metadata.leadership import Leadership
from oncelog.core.processes.process_plan import metrics_socket
from oncelog.host.network import LOCAL
from oncelog.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Processes:
    """Process `index` of `count`. `sockets` is a directory that only this user can open: there they talk to one another."""

    index: int = 0
    count: int = 1
    sockets: str = ""

    def leadership(self, node_id: int) -> Leadership:
        """Who leads what: the processes' ids are in a row, and `node_id` is this one's."""
        first = node_id - self.index
        return Leadership(node_id, tuple(range(first, first + self.count)))

    def requests_host(self, node_id: int) -> str:
        """Where a process takes requests of the others."""
        return f"{LOCAL}{self.sockets}/{node_id}"

    def metrics_host(self, node_id: int) -> str:
        """Where a process shows its numbers."""
        return f"{LOCAL}{metrics_socket(self.sockets, node_id)}"

    @property
    def metadata_host(self) -> str:
        """Where the controller is followed."""
        return f"{LOCAL}{self.sockets}/metadata"


ALONE = Processes()
