"""Django: a model's rows and their event, together or not at all. The end of `transaction.atomic` is the decision.

    pip install . django
    oncelog serve -c transaction.two.phase.commit.enable=true
    python django_orders.py BROKER FILE

`DjangoDatabase` is an adapter of Django's own connection, so the ORM works inside `writer.transaction()`. It is for SQLite, where
a newer instance waits for the file's lock; others need what the adapters of oncelog.recipes do for them (docs/dual-writes.md).
Each thread has a connection of its own, and one writer serves them one after the other. In a view: no ATOMIC_REQUESTS around it.
"""

import functools
import sys
from collections.abc import Mapping
from typing import Any

import django
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connections, transaction

from oncelog.core.two_phase.dual_write import StoredState
from oncelog.errors import ConfigurationError, IllegalState
from oncelog.recipes import statements
from oncelog.recipes.database import NotCommitted
from oncelog.recipes.sync import DualWriter

TOPIC = "django-orders"


class DjangoTransaction:
    """An outermost `atomic` block, held open until the dual write ends it."""

    def __init__(self, alias: str) -> None:
        self.handle = connections[alias]
        self._atomic = transaction.atomic(using=alias, durable=True)  # durable: refused inside of another block
        self._atomic.__enter__()
        self._is_over = False

    def store(self, transactional_id: str, stored: StoredState) -> bool:
        """The state, in the transaction of the rows."""
        if not self.handle.in_atomic_block or self.handle.needs_rollback:
            raise IllegalState("the transaction was ended by the application, or an error inside made it void")
        with self.handle.cursor() as cursor:
            values = (str(stored.prepared_state), transactional_id, stored.instance_version)
            cursor.execute(statements.STORE, values)
            return bool(cursor.rowcount == 1)

    def commit(self) -> None:
        """The decision. Of a void block, or a connection that was closed inside, Django would say nothing."""
        if self.handle.needs_rollback or self.handle.closed_in_transaction:
            self.rollback()
            raise NotCommitted("an error inside the block made it void, or closed its connection")
        self._is_over = True
        self._atomic.__exit__(None, None, None)

    def rollback(self) -> None:
        """Give it up; a connection that cannot is closed."""
        if not self._is_over:
            self._is_over = True
            try:
                self.handle.set_rollback(True)
                self._atomic.__exit__(None, None, None)
            except (DatabaseError, InterfaceError, transaction.TransactionManagementError):
                self.handle.close()


class DjangoDatabase:
    """A database of Django's settings."""

    errors: tuple[type[Exception], ...] = (DatabaseError, InterfaceError)

    def __init__(self, alias: str = "default") -> None:
        options = connections[alias].settings_dict.get("OPTIONS", {})
        if connections[alias].vendor != "sqlite" or options.get("transaction_mode") != "IMMEDIATE":
            raise ConfigurationError(
                f'{alias}: this adapter is for SQLite with OPTIONS = {{"transaction_mode": "IMMEDIATE"}}'
            )
        if "synchronous=extra" not in str(options.get("init_command", "")).lower().replace(" ", ""):
            raise ConfigurationError(
                f'{alias}: OPTIONS needs {{"init_command": "PRAGMA synchronous=EXTRA"}}: a commit must last'
            )
        self._alias = alias

    def migrate(self) -> None:
        """Create `kafka_transaction_state`; in a project, `migrations.RunSQL(statements.CREATE)`."""
        with connections[self._alias].cursor() as cursor:
            cursor.execute(statements.CREATE)

    def begin(self) -> DjangoTransaction:
        """`handle` is Django's connection; the ORM uses it by itself."""
        return DjangoTransaction(self._alias)

    def take_over(self, transactional_id: str, expected_version: int | None) -> int | None:
        """Raise the version, in a transaction that waits for whoever writes to the file."""
        with transaction.atomic(using=self._alias, durable=True), connections[self._alias].cursor() as cursor:
            if expected_version is None:
                cursor.execute(statements.TAKE_OVER, (transactional_id,))
            else:
                cursor.execute(statements.TAKE_OVER_EXPECTED, (transactional_id, expected_version))
            row = cursor.fetchall()
            return int(row[0][0]) if row else None

    def read(self, transactional_id: str) -> StoredState | None:
        """The committed row."""
        with connections[self._alias].cursor() as cursor:
            cursor.execute(statements.READ, (transactional_id,))
            row = cursor.fetchone()
        return None if row is None else statements.stored_state(*row)

    def read_all(self) -> Mapping[str, StoredState]:
        """Every committed row."""
        with connections[self._alias].cursor() as cursor:
            cursor.execute(statements.READ_ALL)
            return {row[0]: statements.stored_state(*row[1:]) for row in cursor.fetchall()}

    def close(self) -> None:
        """Of this thread."""
        connections[self._alias].close()


def set_up(file: str) -> None:
    """What a project has in its settings."""
    options = {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA synchronous=EXTRA", "timeout": 5}
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": file, "OPTIONS": options}
    settings.configure(DATABASES={"default": database}, DEFAULT_AUTO_FIELD="django.db.models.BigAutoField", USE_TZ=True)
    django.setup()


@functools.cache
def order_model() -> Any:
    """A project has it in its models.py, with a migration."""
    from django.db import models

    class Order(models.Model):
        item = models.CharField(max_length=64)

        class Meta:
            app_label = "orders"
            constraints = (models.CheckConstraint(condition=~models.Q(item="nothing"), name="something"),)

    return Order


def main(bootstrap_servers: str, items: list[str]) -> list[str]:
    """Place an order for each item; "nothing" is refused. The orders that are there."""
    Order = order_model()  # noqa: N806 - a class
    if Order._meta.db_table not in connections["default"].introspection.table_names():
        with connections["default"].schema_editor() as editor:
            editor.create_model(Order)
    database = DjangoDatabase()
    database.migrate()
    with DualWriter(database, transactional_id="django-orders", bootstrap_servers=bootstrap_servers) as writer:
        for item in items:
            try:
                with writer.transaction() as tx:
                    tx.send(TOPIC, item.encode())
                    Order.objects.create(item=item)
            except DatabaseError as error:
                print(f"{item} was not ordered: {error}")
        writer.complete()  # readers see it now, not in a moment
    found = list(Order.objects.order_by("id").values_list("item", flat=True))
    database.close()
    return found


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python examples/django_orders.py BOOTSTRAP_SERVERS DATABASE_FILE [ORDER ...]")
    set_up(sys.argv[2])
    print(*main(sys.argv[1], sys.argv[3:] or ["apples", "nothing", "pears"]), sep=", ")
