"""Topics that the user may not see: `poll` raises it once for each answer of a broker that says so, as Java's consumer does.

What else is subscribed is read by the polls between; rights that come later are noticed, as topics that come are.
"""

from __future__ import annotations

from collections.abc import Callable

from oncelog.client.cluster.cluster import Cluster
from oncelog.errors import ErrorCode


class RefusedTopics:
    """Of one consumer; `wanted` are the topics that it reads or wants to read now."""

    def __init__(self, cluster: Cluster, wanted: Callable[[], set[str]]) -> None:
        self._cluster, self._wanted = cluster, wanted
        self._untold: set[str] = set()

    def is_refused(self, topic: str) -> bool:
        """Whether the newest metadata says so."""
        view = self._cluster.view.topics.get(topic)
        return view is not None and view.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def metadata_came(self) -> None:
        """Look what it says."""
        self._untold = {name for name in self._wanted() if self.is_refused(name)}

    def raise_error(self) -> None:
        """Raise TopicAuthorization for what was not told yet, and is still wanted."""
        refused, self._untold = sorted(self._untold & self._wanted()), set()
        if refused:
            names = ", ".join(map(repr, refused))
            what = "topic" if len(refused) == 1 else "topics"
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            raise self._cluster.refusal(code, f"{what} {names} cannot be read", refused[0])
