"""The examples with other people's frameworks; each is skipped where its framework is not installed.

`order_service_orm.py` needs a PostgreSQL: `tests/recipes/test_dual_writer.py` has one.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest
from evidence.world.committed import committed_values

from oncelog.testing import TestBroker
from tests.test_examples import ROOT

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
