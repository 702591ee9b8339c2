"""A refusal of the authorizer names the right that is missing, and the command that gives it, where an admin asked, too."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping

from oncelog.client.rights import Rights, named_user, without_right
from oncelog.core.producer.manager_config import WRITE_PREPARED
from oncelog.errors import ClusterAuthorization, TopicAuthorization, TransactionalIdAuthorization

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


@contextlib.contextmanager
def right_to_ids_named(prefix: str, *, prepares: bool) -> Iterator[None]:
    """Puts a rule of all ids of a query in the place of one of the id that was refused: the next task has another one."""
    try:
        yield
    except TransactionalIdAuthorization as error:
        text = error.message or "refused"
        way_out = Rights("", named_user(text)).way_out(
            error.code, prefix, WRITE_PREPARED if prepares else "write", prefix=prefix
        )
        raise TransactionalIdAuthorization(f"{without_right(text)}{way_out}") from error
