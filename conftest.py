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
# Fewer examples than hypothesis' usual hundred keep the suites short; the long form of a test tries many more.
IS_LONG_FORM = os.environ.get("ONCELOG_LONG", "0") != "0"
EXAMPLES = {"short": 30, "long": 50, "all": 50}
EXAMPLES_OF_LONG_FORMS = 1000


ROOT = pathlib.Path(__file__).parent
# `make test` leaves these to `make test-long`; `.ci/run` runs both, `pytest` alone everything. What is here costs most of the
# processors (`make suite-cost`), and something shorter of its kind stays in `make test`. Whoever takes longest begins first.
LONG = (
    "tests/spark/test_spark_format.py",
    "tests/spark/test_steps.py",
    "evidence/simulator/test_defects.py",
    "evidence/tutorials/test_tutorials.py",
    "evidence/simulator/test_simulated_clusters.py",
    "tests/recipes/test_steps.py",
    "evidence/crash/test_power_cut.py",
    "tests/log/test_cleaner_crashes.py",
    "tests/releasing/test_distribution.py",
    "tests/spark/test_committer.py",
    "evidence/crash/test_life.py",
    "evidence/crash/test_disk_faults.py",
    "evidence/differential/test_differential.py",
    "tests/core/processing/test_machine.py",
    "tests/broker/metadata/test_metadata_store.py",
    "tests/client/test_exit.py",
    "evidence/crash/test_kill.py",
    "tests/broker/config/test_read_keys.py",
    "tests/cli/test_interruption.py",
    "tests/spark/test_option_lines.py",
    "tests/core/two_phase/test_exactly_once_sink.py",
    "tests/client/consumer/test_transaction_order.py",
    "tests/core/two_phase/test_transactional_ids.py",
    "tests/core/consumer/test_aborted_filter.py",
    "tests/broker/coordinators/test_producer_id_blocks.py",
    "evidence/crash/test_power_cut_cleaning.py",
    "evidence/fuzz/test_fuzz.py",
    "evidence/damaged_starts/test_damaged_starts.py",
    "tests/wire/test_messages_match_kio.py",
    "tests/cli/migrate/test_migrate.py",
    "tests/cli/migrate/test_groups.py",
    "tests/console/test_journey.py",
    "tests/broker/handlers/test_every_version.py",
    "evidence/simulator/test_coverage.py",
    "tests/testing/test_told_addresses.py",
    "tests/cli/commands/test_secure.py",
    "tests/spark/test_database_sink.py",
    "evidence/dual_writes/test_crash.py",
    "evidence/processes/test_simulation.py",
    "tests/cli/commands/test_serve_processes.py",
    "tests/broker/test_sharing_out.py",
    "tests/log/test_crashes.py",
    "tests/bench/in_process/test_runs.py",
    "evidence/simulator/test_knobs.py",
    "evidence/syscalls/test_syscalls.py",
    "evidence/simulator/test_shrink.py",
    "evidence/chaos/test_java_worker.py",
    "evidence/chaos/test_chaos.py",
    "evidence/scale/test_scale.py",
    "evidence/reconcile/test_reconcile.py",
    "evidence/processing/test_processing.py",
    "evidence/dual_writes/test_simulation.py",
    "evidence/mutants/test_drawing.py",
    "evidence/mutants/test_drawn.py",
    "evidence/compat/test_injected_errors.py",
    "evidence/compat/test_kafka_tests.py",
    "evidence/model/test_model.py",
    "evidence/upgrade/test_drill.py",
    "evidence/migration/test_migration.py",
    "tests/test_architecture.py",  # `make lint` runs it, too
    "evidence/healthy_load/test_healthy_load.py",
    "evidence/freezes/test_freezes.py",
    "evidence/mutants/test_reasons.py",
    "evidence/compaction/test_compaction.py",
    "evidence/spark_ids/test_spark_ids.py",
    "tests/demo/test_loader_and_verify.py",
    "tests/faststream/test_subscriber.py",
    "tests/faststream/test_exactly_once.py",
)
# Of the others, what takes longest (much of it waiting) begins first, and the short ones fill the end.
LONGEST = (
    "evidence/attacks/test_attacks.py",
    "evidence/differential/test_kinds_of_brokers.py",
    "tests/client/processing/test_processor.py",
    "tests/broker/test_serve.py",
    "evidence/compat/test_oauthbearer.py",
    "tests/broker/network/test_bearer_tokens.py",
    "tests/broker/network/test_secured_connection.py",
    "evidence/compat/test_confluent_kafka.py",
    "evidence/compat/test_our_clients.py",
    "tests/client/consumer/test_rebalances_with_broker.py",
    "tests/console/test_routes.py",
    "tests/recipes/test_sync.py",
    "evidence/compat/test_security.py",
    "tests/broker/partitions/test_journal_crashes.py",
)
LONG_PATHS = frozenset(ROOT / file for file in LONG)
RANK = {ROOT / file: rank for rank, file in enumerate((*LONG, *LONGEST))}


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--part`: what `make test` and `make test-long` run."""
    parser.addoption("--part", choices=["all", "short", "long"], default="all", help="which of the test files run")


def pytest_ignore_collect(collection_path: pathlib.Path, config: pytest.Config) -> bool | None:
    """Files of the other part are not even imported."""
    part = config.getoption("--part")
    if part == "all" or not collection_path.name.startswith("test_"):
        return None
    return True if (collection_path in LONG_PATHS) != (part == "long") else None


def pytest_configure(config: pytest.Config) -> None:
    """Set what the tests begin with."""
    _choose_examples(config)
    _hear_signals()


def _choose_examples(config: pytest.Config) -> None:
    count = EXAMPLES_OF_LONG_FORMS if IS_LONG_FORM else EXAMPLES[config.getoption("--part")]
    settings.register_profile(
        "oncelog", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=count
    )
    settings.load_profile("oncelog")


def _hear_signals() -> None:
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
    if IS_LONG_FORM:
        for item in items:
            item.add_marker(pytest.mark.timeout(7200))


def pytest_collection() -> None:
    """What collecting makes (thousands of tests, every module) lives to the end: collecting garbage meanwhile finds nothing."""
    gc.disable()


def pytest_collection_finish() -> None:
    """And no later collection of garbage looks at it again."""
    gc.collect()
    gc.freeze()
    gc.enable()
