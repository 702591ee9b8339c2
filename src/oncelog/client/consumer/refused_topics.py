"""Topics that the user may not see, and names that no topic can have: `poll` raises it once for each answer of a broker that
says so, as Java's consumer does.

What else is subscribed is read by the polls between; rights that come later are noticed, as topics that come are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from oncelog.client.cluster.cluster import WHAT_A_NAME_HAS, Cluster
from oncelog.errors import ErrorCode

log = logging.getLogger("oncelog.client")
TOLD = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "",
    ErrorCode.INVALID_TOPIC_EXCEPTION: WHAT_A_NAME_HAS,
}


def tell_missing(cluster: Cluster, topics: Iterable[str], told: set[str]) -> None:
    """A topic that the brokers do not know is logged once (`told`): a wrong name would be waited for in silence."""
    for name in topics:
        view = cluster.view.topics.get(name)
        if view is None or view.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            told.discard(name)
        elif name not in told:
            told.add(name)
            log.warning("topic %r does not exist; it is read when somebody creates it", name)


class RefusedTopics:
    """Of one consumer; `wanted` are the topics that it reads or wants to read now."""

    def __init__(self, cluster: Cluster, wanted: Callable[[], set[str]]) -> None:
        self._cluster, self._wanted = cluster, wanted
        self._untold: dict[str, ErrorCode] = {}

    def is_refused(self, topic: str) -> bool:
        """Whether the newest metadata says so."""
        view = self._cluster.view.topics.get(topic)
        return view is not None and view.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def metadata_came(self) -> None:
        """Look what it says."""
        known = self._cluster.view.topics
        codes = {name: known[name].error_code for name in self._wanted() if name in known}
        self._untold = {name: ErrorCode(code) for name, code in codes.items() if code in TOLD}

    def raise_error(self) -> None:
        """Raise TopicAuthorization or InvalidTopic for what was not told yet, and is still wanted."""
        if not self._untold:
            return
        untold, wanted = self._untold, self._wanted()
        self._untold = {}
        for code, why in TOLD.items():
            if refused := sorted(name for name in wanted if untold.get(name) == code):
                names = ", ".join(map(repr, refused))
                what = "topic" if len(refused) == 1 else "topics"
                raise self._cluster.refusal(code, f"{what} {names} cannot be read{why}", refused[0])
