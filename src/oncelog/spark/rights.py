"""A refusal of the authorizer names the right that is missing, and the command that gives it, where an admin asked, too."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping

from oncelog.client.rights import Rights, without_right
from oncelog.errors import ClusterAuthorization, TopicAuthorization

SAYS_IT = "needs the right"
SMALLER = "needs the right to describe topic"  # which reading and writing bring along: one rule is enough


@contextlib.contextmanager
def rights_named(client: Mapping[str, str], operation: str, topics: Collection[str] = ()) -> Iterator[None]:
    """Puts the way out behind such an error.

    Args:
        client: the clients' options, with the user's name where there is one.
        operation: the right that the block needs (Kafka's name in lower case).
        topics: to which of them, where it is one of topics; the first that the error names.
    """
    try:
        yield
    except (ClusterAuthorization, TopicAuthorization) as error:
        text = str(error)
        if SAYS_IT in text and not (SMALLER in text and operation in ("read", "write")):
            raise
        name = next((topic for topic in topics if repr(topic) in text), next(iter(topics), ""))
        way_out = Rights("", client.get("sasl.username", "")).way_out(error.code, name, operation)
        raise type(error)(f"{without_right(error.message or 'refused').rstrip('.')}{way_out}") from error
