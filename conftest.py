"""Fixtures for all tests: the plugin that users get, loaded from the source tree."""

from __future__ import annotations

import gc
import importlib.metadata
import os
import pathlib
import signal

import pytest
from hypothesis import HealthCheck, settings

installed = any(point.name == "oncelog" for point in importlib.metadata.entry_points(group="pytest11"))
pytest_plugins = [] if installed else ["oncelog.testing.plugin"]

# A busy machine must not decide a test: neither by how long an example took, nor by how long it took to find one.
# Half of hypothesis' usual number of examples keeps the suite short; the long form tries many more.
EXAMPLES = 1000 if os.environ.get("ONCELOG_LONG", "0") != "0" else 50
settings.register_profile("oncelog", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=EXAMPLES)
settings.load_profile("oncelog")


ROOT = pathlib.Path(__file__).parent
# `make test` gives whole files to its workers: what takes longest begins first, and the short ones fill the end.
LONGEST = (
    "tests/spark/test_spark_format.py",
    "tests/spark/test_steps.py",
    "evidence/tutorials/test_tutorials.py",
    "evidence/differential/test_kinds_of_brokers.py",
    "evidence/differential/test_differential.py",
    "evidence/simulator/test_simulated_clusters.py",
    "tests/releasing/test_distribution.py",
    "tests/client/processing/test_processor.py",
    "tests/recipes/test_steps.py",
    "tests/log/test_cleaner_crashes.py",
    "evidence/crash/test_disk_faults.py",
    "tests/spark/test_committer.py",
    "evidence/crash/test_power_cut.py",
    "evidence/chaos/test_chaos.py",
    "evidence/crash/test_life.py",
    "evidence/attacks/test_attacks.py",
    "evidence/simulator/test_defects.py",
    "tests/core/processing/test_machine.py",
    "tests/broker/metadata/test_metadata_store.py",
    "evidence/compat/test_oauthbearer.py",
    "tests/broker/network/test_bearer_tokens.py",
    "tests/core/two_phase/test_transactional_ids.py",
    "tests/broker/test_serve.py",
    "evidence/processing/test_processing.py",
    "evidence/dual_writes/test_crash.py",
    "tests/broker/network/test_secured_connection.py",
    "evidence/compat/test_confluent_kafka.py",
    "tests/client/consumer/test_rebalances_with_broker.py",
    "evidence/scale/test_scale.py",
    "evidence/compat/test_our_clients.py",
    "evidence/chaos/test_java_worker.py",
    "evidence/crash/test_kill.py",
    "evidence/dual_writes/test_simulation.py",
    "tests/log/test_crashes.py",
    "evidence/mutants/test_drawn.py",
    "evidence/syscalls/test_syscalls.py",
    "evidence/upgrade/test_drill.py",
    "evidence/compat/test_security.py",
    "tests/broker/partitions/test_journal_crashes.py",
)
RANK = {ROOT / file: rank for rank, file in enumerate(LONGEST)}


def pytest_configure() -> None:
    """A shell starts what it puts in the background with SIGINT ignored, `nohup` with SIGHUP, and Python then leaves it so:
    the tests of Ctrl-C and of a lost terminal, and the processes that they start, would wait for ever."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, the others and the tests of a file in the order they had (it is drawn).

    The long forms of tests (ONCELOG_LONG) may take longer than what is a hang in the short ones.
    """
    items.sort(key=lambda item: RANK.get(item.path, len(RANK)))
    if os.environ.get("ONCELOG_LONG", "0") != "0":
        for item in items:
            item.add_marker(pytest.mark.timeout(7200))


def pytest_collection_finish() -> None:
    """What collecting made (thousands of tests, every module) lives to the end: no collection of garbage looks at it again."""
    gc.collect()
    gc.freeze()
