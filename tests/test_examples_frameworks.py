"""The examples with other people's frameworks; each is skipped where its framework is not installed.

`order_service_orm.py` needs a PostgreSQL: `tests/recipes/test_dual_writer.py` has one.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest
from evidence.world.committed import committed_values

from oncelog import ConsumerRecord, sync
from oncelog.testing import TestBroker
from tests.test_examples import ROOT, example

MISUSED = """
import sys
from django.db import DatabaseError, transaction
import django_orders as module
from oncelog.errors import IllegalState
from oncelog.recipes.sync import DualWriter

broker, file = sys.argv[1:]
module.set_up(file)
assert module.main(broker, ["apples", "nothing"]) == ["apples"]
with DualWriter(module.DjangoDatabase(), transactional_id="django-orders", bootstrap_servers=broker) as writer:
    try:
        with writer.transaction() as tx:
            tx.send(module.TOPIC, b"void")
            try:
                with transaction.atomic(savepoint=False):
                    raise DatabaseError
            except DatabaseError:
                pass  # Django lets nothing of this block be committed
    except IllegalState as error:
        print(error)
    try:
        with transaction.atomic(), writer.transaction() as tx:
            tx.send(module.TOPIC, b"inside of another")
    except RuntimeError as error:
        print(error)
assert module.main(broker, ["pears"]) == ["apples", "pears"]
"""


def test_a_model_of_django_and_its_event_stay_together(oncelog_broker: TestBroker, tmp_path: pathlib.Path) -> None:
    """In a process of its own: Django's settings are a process's."""
    pytest.importorskip("django", reason="needs django")
    script = tmp_path / "misused.py"
    script.write_text(f"import sys\nsys.path.insert(0, {str(ROOT / 'examples')!r})\n{MISUSED}")
    command = [sys.executable, "-W", "error", str(script), oncelog_broker.bootstrap_servers, str(tmp_path / "orders")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "nothing was not ordered: CHECK constraint failed: something",
        "the transaction was ended by the application, or an error inside made it void",
        "A durable atomic block cannot be nested within another atomic block.",
    ]
    assert committed_values(oncelog_broker.bootstrap_servers, "django-orders") == [b"apples", b"pears"]


def test_an_order_is_priced_and_noted_by_faststream_or_is_a_dead_letter() -> None:
    faststream = pytest.importorskip("faststream", reason="needs faststream")
    module = example("faststream_orders")
    with TestBroker() as broker:
        where = broker.bootstrap_servers
        with sync.Admin(bootstrap_servers=where) as admin:
            admin.create_topics(["orders", "priced", "notes", "orders.dead"])
        orders = [
            b'{"what": "apples", "count": 3}',
            b'{"what": "apples", "count": 0}',
            b'{"what": "pears", "count": 5}',
        ]
        with sync.Producer(bootstrap_servers=where) as producer:
            producer.send_many("orders", [(b"k", order) for order in orders])
        with (
            sync.Consumer(
                "priced", bootstrap_servers=where, isolation_level="read_committed", auto_offset_reset="earliest"
            ) as consumer,
            faststream.TestApp(module.application(where, logger=None)),
        ):
            priced: list[ConsumerRecord] = []
            while len(priced) < 2:
                priced += consumer.poll(timeout_ms=10_000)
        assert [(record.key, record.value) for record in priced] == [
            (b"k", b'{"what":"apples","count":3,"price":6}'),
            (b"k", b'{"what":"pears","count":5,"price":10}'),
        ]
        assert committed_values(where, "notes") == [b"3 apples", b"5 pears"]
        assert committed_values(where, "orders.dead") == orders[1:2]


def test_the_page_of_faststream_shows_the_example_that_runs() -> None:
    page = (ROOT / "docs" / "faststream.md").read_text()
    code = page.split("```python\n")[1].split("```")[0]
    assert code.strip() in (ROOT / "examples" / "faststream_orders.py").read_text()
