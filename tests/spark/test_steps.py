"""Committer, sweep, abort, recovery and task of the Spark sink with a failure between every two of their steps; decisions in
the topic, and in a database."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Iterator

import pytest

from oncelog.spark.backend import complete
from oncelog.spark.decision_store import DecisionStore
from oncelog.testing import TestBroker
from tests.recipes.steps import Cancelled, Died, Steps, cases, watching
from tests.spark.world import Cluster, Query

ALL = bool(os.environ.get("ONCELOG_ALL_STEPS"))
Scenario = Callable[[Query, DecisionStore], None]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with TestBroker() as broker:
        made = Cluster(broker.bootstrap_servers)
        yield made
        made.close()


def commit(query: Query, store: DecisionStore) -> None:
    """A first commit; an orphan of a failed task attempt is there. Spark aborts after a commit that raised."""
    orphan = query.attempt("0", "run-1", 0)
    try:
        query.run_batch(store, "0", "run-1")
    except Exception:
        query.steps.happen_late()
        query.abort(store, "0", "run-1")
        raise
    assert orphan.transactional_id


def commit_again(query: Query, store: DecisionStore) -> None:
    """An earlier life decided, completed one of two winners and died."""
    left_half_done(query)
    query.run_batch(store, "0", "run-2")


def abort_undecided(query: Query, store: DecisionStore) -> None:
    query.attempts("0", "run-1")
    query.abort(store, "0", "run-1")


def abort_decided(query: Query, store: DecisionStore) -> None:
    left_half_done(query)
    query.abort(store, "0", "run-1")


def recover(query: Query, store: DecisionStore) -> None:
    left_half_done(query)
    query.recover(store)


def abandon(query: Query, store: DecisionStore) -> None:
    left_half_done(query)
    with query.steps.off():
        query.recover(store)  # a batch begins only when the one before is done
    query.attempts("1", "run-1")
    query.recover(store, abandon=True)


def task(query: Query, store: DecisionStore) -> None:
    """A task attempt that fails is made again, beside what the first one left."""
    first = None
    try:
        first = query.attempt("0", "run-1", 0, steps=True)
    except Exception:  # noqa: BLE001
        query.steps.happen_late()
        first = query.attempt("0", "run-1", 0)
    with query.steps.off():
        from oncelog.spark.committer import Committer

        committer = Committer(query.options, store)
        committer.commit(query.query_id, "0", "run-1", [first, query.attempt("0", "run-1", 1)], query.backend)
        committer.close()


def left_half_done(query: Query) -> None:
    with query.steps.off():
        query.attempt("0", "run-0", 1)  # an orphan
        attempts = query.attempts("0", "run-1")
        query.watcher.decide(query.decision("0", "run-1", attempts))
        complete(query.cluster.admin, query.options.client, attempts[0])


SCENARIOS: list[Scenario] = [commit, commit_again, abort_undecided, abort_decided, recover, abandon, task]


def run(cluster: Cluster, scenario: Scenario, kinds: tuple[str, str], url: str, steps: Steps) -> list[str]:
    """One life that is struck, then lives that are not; what is wrong after them."""
    with watching(steps):
        query = Query(cluster, *kinds, url, steps)
        with query.watched():
            try:
                with query.process() as store:
                    scenario(query, store)
            except (Died, Cancelled):
                pass
            except Exception:  # noqa: BLE001
                assert steps.was_struck
            steps.happen_late()
            with steps.off(), query.process() as store:
                if scenario is abandon:
                    query.recover(store, abandon=True)
                    batches = ["0"]
                else:
                    query.run_batch(store, "0", "run-2")
                    query.run_batch(store, "1", "run-2")
                    batches = ["0", "1"]
            found = query.judge(batches)
    return found


KINDS = [("topic", "prepared"), ("database", "prepared")]
CASES = [
    (scenario, kinds) for kinds in KINDS for scenario in SCENARIOS if ALL or kinds[0] == "topic" or scenario is not task
]


@pytest.mark.parametrize(
    ("scenario", "kinds"), CASES, ids=lambda given: given.__name__ if callable(given) else "-".join(given)
)
def test_a_failure_between_every_two_steps(
    cluster: Cluster, scenario: Scenario, kinds: tuple[str, str], tmp_path: pathlib.Path
) -> None:
    url = f"sqlite:///{tmp_path / 'decisions.db'}"
    clean = Steps()
    assert run(cluster, scenario, kinds, url, clean) == []
    found = []
    for at, how in cases(clean.names, all_of_them=ALL):
        if not ALL and kinds[0] == "database" and clean.names[at] != "commit":
            continue  # what is not the store's is the same with the topic
        steps = Steps(at, how)
        wrong = run(cluster, scenario, kinds, url, steps)
        assert steps.was_struck
        if wrong:
            found.append(f"{at} {clean.names[at]} {how.name}: {wrong}")
    assert not found, "\n".join(found)
