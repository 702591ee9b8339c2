"""Why `oncelog recover` leaves a query's open transactions as they are, in words, and what to do: it looked for their decisions
in a place that may not be the query's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oncelog.core.two_phase.decision_homes import NOT_SAID, why_elsewhere
from oncelog.core.two_phase.exactly_once_sink import AttemptName, committed_ids, in_words
from oncelog.core.two_phase.transactional_ids import LeasedName

NAMED_MAX = 20  # of the queries that are there, where one was meant that is not


def decided_elsewhere(
    prefix: str, name: AttemptName | LeasedName, looked_at: str, states: Mapping[str, str], topics: Iterable[str]
) -> str | None:
    """Of a query of which nothing is decided in `looked_at` (a home): that it decides somewhere else, and the way out.

    Args:
        states: of the cluster's transactions, by id. Only a decision commits one of the sink's.
        topics: all of the cluster.
    """
    query_id = name.query_id
    reason = why_elsewhere(in_words(query_id), name.decision_home, looked_at, topics)
    if reason is not None or not committed_ids(prefix, query_id, states):
        return reason
    return (
        f"{in_words(query_id)} has committed transactions on this cluster, and no decision of it is kept here: what it left open "
        "may be decided somewhere else, and is left as it is. Give the --decision-topic or --decision-url of the query"
    )


def decided_anywhere(name: AttemptName | LeasedName, looked_at: str) -> str | None:
    """Of a query of which nothing was found in `looked_at` (in words): why that does not say that it decided nothing."""
    if name.decision_home != NOT_SAID:
        return None
    return (
        f"{in_words(name.query_id)} is of an older oncelog, whose transactions do not say where it keeps its decisions. Nothing "
        f"of it is in {looked_at}, and a dual_write has them in its database: it may have decided what is open. Say where, with "
        "--query and --decision-topic or --decision-url; without them --abandon ends nothing of it"
    )


def none_is_meant(prefix: str, query_id: str | None, there: Iterable[str]) -> str:
    """That no transaction and no decision is of the query, or of the prefix, and which there are."""
    whose = (
        f"of a query {query_id!r} under the prefix {prefix!r}" if query_id is not None else f"of the prefix {prefix!r}"
    )
    named = sorted(set(there))
    more = f" and {len(named) - NAMED_MAX} more" if len(named) > NAMED_MAX else ""
    what = f"there are: {', '.join(named[:NAMED_MAX])}{more}" if named else "nothing of the sink's is there"
    return f"there is no transaction and no decision {whose}; {what}"
