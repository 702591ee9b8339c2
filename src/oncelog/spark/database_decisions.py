"""Decisions in a database table: for the option decisionUrl, and for dual writes, where the decision is committed together
with the business rows. The primary key (query, batch) is the compare-and-set: of two deciders one gets the row.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from oncelog.core.two_phase import exactly_once_sink as sink
from oncelog.core.two_phase.decision_homes import database_home
from oncelog.errors import ConfigurationError
from oncelog.recipes.sqlalchemy import check_durable
from oncelog.spark.backend import DecisionsOutOfReach

metadata = sa.MetaData()
decisions = sa.Table(
    "oncelog_decisions",
    metadata,
    sa.Column("query_id", sa.String(sink.QUERY_ID_LENGTH_MAX), primary_key=True),
    sa.Column("batch_id", sa.String(sink.DIGITS_MAX), primary_key=True),
    sa.Column("decision", sa.Text, nullable=False),
    sa.Column("is_done", sa.Boolean, nullable=False, default=False),
)
vetoes = sa.Table(
    "oncelog_vetoes",
    metadata,
    sa.Column("query_id", sa.String(sink.QUERY_ID_LENGTH_MAX), primary_key=True),
    sa.Column("batch_id", sa.String(sink.DIGITS_MAX), primary_key=True),
    sa.Column("run_start", sa.String(40), primary_key=True),
)

queries = sa.Table(
    "oncelog_queries",
    metadata,
    sa.Column("query_id", sa.String(sink.QUERY_ID_LENGTH_MAX), primary_key=True),
    sa.Column(
        "spark_query_id", sa.String(200)
    ),  # of dual writes: whose query_id it is; tables of earlier versions lack it
)


_NO_FILE = ("", ":memory:", "file:", "file::memory:")
"""SQLite's names for a database in memory, or in a file that is gone with the connection."""


def refuse_in_memory(name: str, url: str) -> None:
    """Raises ConfigurationError for a database of SQLite's that ends with its process, or connection, and knows no decision after
    a restart. Nothing is opened: a file would be made."""
    where = sa.engine.make_url(url)
    if where.get_backend_name() != "sqlite":
        return
    path, query = where.database or "", where.query
    is_uri = path.startswith("file:") and str(query.get("uri")).lower() in ("true", "1", "yes", "on", "t", "y")
    is_named_so = path in _NO_FILE and (is_uri or not path.startswith("file:"))
    if is_named_so or (is_uri and (query.get("mode") == "memory" or query.get("vfs") == "memdb")):
        raise ConfigurationError(
            f"{name} {url!r}: a database in memory forgets the decisions when its process ends, and batches that were written "
            "are written again: name a file (sqlite:////path/to/file.db has four slashes) or a server (postgresql+psycopg://...)"
        )


@contextlib.contextmanager
def _told_where_it_is_away() -> Iterator[None]:
    """Its driver's error says nothing of batches, and comes with forty frames."""
    try:
        yield
    except (sa.exc.OperationalError, sa.exc.InterfaceError) as error:
        why = " ".join(str(error.orig).split())
        raise DecisionsOutOfReach(
            f"the database of the decisions does not do it now ({why}). Nothing is lost: start again when it does, what was "
            "decided is completed then, and what was not is written again"
        ) from error


THE_DATABASE = "@database"
"""The row of `queries` that has, for its query of Spark's, the identity of the database: no query has such a name."""


class DatabaseDecisionStore:
    """The tables, made when they are missing. `url` is SQLAlchemy's (sqlite:///file, postgresql+psycopg://...).

    Raises:
        ConfigurationError: the database may lose a commit that it acknowledged.
    """

    def __init__(self, url: str) -> None:
        try:
            refuse_in_memory("decisionUrl", url)
            postgresql = sa.engine.make_url(url).get_backend_name() == "postgresql"
        except (sa.exc.ArgumentError, ValueError) as error:
            raise ConfigurationError(
                f"decisionUrl: {error} (wanted: sqlite:///file.db, postgresql+psycopg://...)"
            ) from error
        # Behind `_lock` each must see what the other wrote while it waited; a snapshot from before would not.
        more = {"isolation_level": "READ COMMITTED"} if postgresql else {}
        try:
            self.engine = sa.create_engine(url, pool_pre_ping=True, **more)
        except (sa.exc.ArgumentError, ImportError, TypeError) as error:  # also a driver that is not installed
            raise ConfigurationError(f"decisionUrl: {error}") from error
        if self.engine.dialect.name == "sqlite":
            sa.event.listen(self.engine, "connect", _sqlite_waits_for_writers)
            sa.event.listen(self.engine, "begin", _sqlite_locks_at_begin)
        try:
            metadata.create_all(self.engine, checkfirst=True)
            _add_missing_column(self.engine)
            with self.engine.connect() as connection:
                check_durable(connection)
            self.home = database_home(self._identity())
        except sa.exc.DBAPIError as error:
            self.engine.dispose()
            raise ConfigurationError(f"decisionUrl: {str(error.orig).strip()}") from None
        except BaseException:
            self.engine.dispose()
            raise
        self._lockable: set[str] = set()

    def _identity(self) -> str:
        """Of the database, which keeps it; whoever comes first makes it."""
        wanted = sa.select(queries.c.spark_query_id).where(queries.c.query_id == THE_DATABASE)
        with self.engine.connect() as connection:
            found = connection.execute(wanted).scalars().first()
        if found is None:
            made = {"query_id": THE_DATABASE, "spark_query_id": uuid.uuid4().hex}
            with contextlib.suppress(IntegrityError), self.engine.begin() as connection:
                connection.execute(queries.insert().values(**made))
            with self.engine.connect() as connection:
                found = connection.execute(wanted).scalars().one()
        return str(found)

    @_told_where_it_is_away()
    def _make_lockable(self, query_id: str) -> None:
        """One row per query, so that deciding and vetoing wait for one another: each reads what the other writes, and two
        that overlap could both go through."""
        if query_id not in self._lockable:
            with contextlib.suppress(IntegrityError), self.engine.begin() as connection:
                if connection.execute(sa.select(queries).where(queries.c.query_id == query_id)).first() is None:
                    connection.execute(queries.insert().values(query_id=query_id))
            self._lockable.add(query_id)

    @staticmethod
    def _lock(connection: sa.Connection, query_id: str) -> None:
        connection.execute(sa.select(queries).where(queries.c.query_id == query_id).with_for_update()).one()

    @_told_where_it_is_away()
    def claim(self, query_id: str, spark_query_id: str | None, batch_id: str) -> sink.Refuse | None:
        """Let a Spark query use a query_id from now on, alone, or say why it may not."""
        self._make_lockable(query_id)
        with self.engine.begin() as connection:
            self._lock(connection, query_id)
            mine = queries.c.query_id == query_id
            owner = connection.execute(sa.select(queries.c.spark_query_id).where(mine)).scalars().one()
            decided = sa.select(decisions.c.batch_id).where(decisions.c.query_id == query_id)
            batch_ids = connection.execute(decided).scalars().all()
            refusal = sink.on_claim(query_id, owner, spark_query_id, batch_id, batch_ids)
            if refusal is None and owner is None and spark_query_id is not None:
                connection.execute(queries.update().where(mine).values(spark_query_id=spark_query_id))
            return refusal

    @_told_where_it_is_away()
    def known(self, query_id: str, batch_id: str) -> sink.KnownRecords:
        """What stands of a batch."""
        with self.engine.begin() as connection:
            return self._known(connection, query_id, batch_id)

    def _known(self, connection: sa.Connection, query_id: str, batch_id: str) -> sink.KnownRecords:
        where = (decisions.c.query_id == query_id) & (decisions.c.batch_id == batch_id)
        row = connection.execute(sa.select(decisions).where(where)).first()
        those = (vetoes.c.query_id == query_id) & vetoes.c.batch_id.in_([batch_id, sink.ANY_BATCH])
        vetoed = frozenset(connection.execute(sa.select(vetoes.c.run_start).where(those)).scalars())
        # All rows are read: a result with rows left holds SQLite's shared lock beyond the commit, and no other can commit.
        others = sa.select(decisions.c.batch_id).where(decisions.c.query_id == query_id)
        if row is None:
            batch_ids = connection.execute(others).scalars().all()
            floor = sink.oldest_kept(query_id, batch_ids)
            return sink.KnownRecords(None, vetoed, False, sink.is_below(batch_id, floor), bool(batch_ids))
        decision = sink.decision_from_value(query_id, batch_id, row.decision.encode())
        return sink.KnownRecords(decision, vetoed, bool(row.is_done), False, True)

    def decide(
        self,
        decision: sink.BatchDecision,
        business: Callable[[sa.Connection], Any] | None = None,
        *,
        last_look: Callable[[], object] | None = None,
    ) -> sink.KnownRecords:
        """Insert the business rows, and behind them the decision in the same transaction; another decider's row wins over both.

        Behind them: a `business` that commits by itself and then fails would leave a decision of half of its rows, which every
        later run honours.

        Args:
            last_look: asked right before the commit. What it raises rolls everything back.

        Raises:
            ConfigurationError: `business` has ended the transaction.
        """
        # An error of the business rows is their own, as it is.
        told = _told_where_it_is_away() if business is None else contextlib.nullcontext()
        self._make_lockable(decision.query_id)
        try:
            with told, self.engine.begin() as connection:
                self._lock(connection, decision.query_id)
                known = self._known(connection, decision.query_id, decision.batch_id)
                is_vetoed = sink.run_start(decision.run_id) in known.vetoed_runs
                if known.decision is not None or known.is_superseded or is_vetoed:
                    return known
                if business is not None:
                    _in_one_transaction(connection, business)
                    check_durable(connection)  # business may have changed it for this transaction
                connection.execute(
                    decisions.insert().values(
                        query_id=decision.query_id,
                        batch_id=decision.batch_id,
                        decision=sink.decision_value(decision).decode(),
                        is_done=False,
                    )
                )
                if last_look is not None:
                    last_look()  # locks and business rows may have taken any time
        except IntegrityError:
            known = self.known(decision.query_id, decision.batch_id)
            if known.decision is None:
                raise  # the business rows broke a constraint, not the decision
            return known
        return self.known(decision.query_id, decision.batch_id)

    @_told_where_it_is_away()
    def veto(self, query_id: str, batch_id: str, run_id: str) -> sink.KnownRecords:
        """Insert a veto unless the batch is decided."""
        self._make_lockable(query_id)
        try:
            with self.engine.begin() as connection:
                self._lock(connection, query_id)
                known = self._known(connection, query_id, batch_id)
                if known.decision is not None:
                    return known
                row = {"query_id": query_id, "batch_id": batch_id, "run_start": sink.run_start(run_id)}
                connection.execute(vetoes.insert().values(**row))
        except IntegrityError:
            pass  # vetoed before
        return self.known(query_id, batch_id)

    @_told_where_it_is_away()
    def done(self, decision: sink.BatchDecision, note: bytes = b"{}") -> None:  # noqa: ARG002
        """Mark done and drop older batches of the query that are done; the newest decision stays, so that a batch that
        is run again after a crash, or by a driver that slept, is recognised."""
        mine = decisions.c.query_id == decision.query_id
        with self.engine.begin() as connection:
            self._make_done(connection, decision)
            rows = connection.execute(sa.select(decisions.c.batch_id, decisions.c.is_done).where(mine)).all()
            floor = sink.oldest_kept(decision.query_id, [row.batch_id for row in rows])
            for row in rows:
                older = sink.BatchDecision(decision.query_id, row.batch_id, "", ())
                if sink.may_be_forgotten(older, bool(row.is_done), floor):
                    connection.execute(decisions.delete().where(mine & (decisions.c.batch_id == row.batch_id)))

    @staticmethod
    def _make_done(connection: sa.Connection, decision: sink.BatchDecision) -> None:
        for table in (decisions, vetoes):
            where = (table.c.query_id == decision.query_id) & (table.c.batch_id == decision.batch_id)
            if table is decisions:
                connection.execute(table.update().where(where).values(is_done=True))
            else:
                connection.execute(table.delete().where(where))

    @_told_where_it_is_away()
    def decided(self, query_id: str | None = None) -> list[tuple[sink.BatchDecision, bool]]:
        """All decisions that are kept."""
        query = sa.select(decisions)
        if query_id is not None:
            query = query.where(decisions.c.query_id == query_id)
        with self.engine.connect() as connection:
            rows = connection.execute(query).all()
        found = [(sink.decision_from_value(r.query_id, r.batch_id, r.decision.encode()), bool(r.is_done)) for r in rows]
        return sorted(found, key=lambda pair: (pair[0].query_id, len(pair[0].batch_id), pair[0].batch_id))

    def close(self) -> None:
        """Let go of the connections."""
        self.engine.dispose()


SAVEPOINT = "oncelog_business"
# They end a savepoint with its transaction, and say so.
SAVEPOINT_DIALECTS = ("sqlite", "postgresql", "mysql", "mariadb")
ENDED = (
    "to_database has ended the transaction (a commit or rollback of its own, or of something that it calls): nothing of the "
    "batch is decided, and no record of it is visible; rows that it has committed are in the database, and come again with the "
    "batch. Take the commit out of to_database, and those rows out of the database"
)

PASSED_OVER = (
    "to_database passed over an error of the database: nothing of the batch is decided, and no record and no row of it is there. "
    "Let the error out, or try what may fail in a savepoint (with connection.begin_nested(): ...)"
)
LOST = (
    "to_database lost its connection to the database and passed over the error: nothing is decided. Let the error out"
)


def _in_one_transaction(connection: sa.Connection, business: Callable[[sa.Connection], Any]) -> None:
    """Carry out `business`; a savepoint says afterwards whether the transaction is still the one that it began in."""
    has_savepoints = connection.dialect.name in SAVEPOINT_DIALECTS
    if has_savepoints:
        connection.exec_driver_sql(f"SAVEPOINT {SAVEPOINT}")
    try:
        business(connection)
    except BaseException as error:
        # Rolled back to, and not released: that is what a transaction with a failed statement still does.
        if has_savepoints and isinstance(error, Exception) and _is_ended(connection, "ROLLBACK TO", when_gone=False):
            raise ConfigurationError(f"{ENDED}; then it raised {type(error).__name__}: {error}") from error
        raise
    if connection.invalidated:
        raise ConfigurationError(LOST)
    if has_savepoints and _is_ended(connection, "RELEASE", when_gone=None):
        # PostgreSQL takes nothing more in a transaction with a failed statement, and may well have the savepoint.
        raise ConfigurationError(ENDED if _is_ended(connection, "ROLLBACK TO", when_gone=False) else PASSED_OVER)


def _is_ended(connection: sa.Connection, verb: str, *, when_gone: bool | None) -> bool:
    """Whether the savepoint is not there any more. `when_gone`: the answer where the connection is; None: that is raised."""
    if connection.invalidated and when_gone is not None:
        return when_gone
    try:
        connection.exec_driver_sql(f"{verb} SAVEPOINT {SAVEPOINT}")
    except sa.exc.DBAPIError as error:
        if not error.connection_invalidated:
            return True
        if when_gone is None:
            raise
        return when_gone
    except sa.exc.InvalidRequestError:  # SQLAlchemy itself knows that its transaction is over
        return True
    return False


def _add_missing_column(engine: sa.Engine) -> None:
    """Tables of earlier versions have no `spark_query_id`. Raises ConfigurationError where it may not be added."""

    def has_it() -> bool:
        return "spark_query_id" in {column["name"] for column in sa.inspect(engine).get_columns(queries.name)}

    if has_it():
        return
    statement = f"ALTER TABLE {queries.name} ADD COLUMN spark_query_id VARCHAR(200)"
    try:
        with engine.begin() as connection:
            connection.execute(sa.text(statement))
    except sa.exc.DBAPIError as error:
        if not has_it():  # else another process was faster
            raise ConfigurationError(
                f"the table {queries.name} is of an earlier oncelog and cannot be changed ({error.orig}); have its owner "
                f"do this: {statement}"
            ) from error


def _sqlite_waits_for_writers(connection: Any, _record: Any) -> None:
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA busy_timeout = 30000")
    cursor.execute("PRAGMA synchronous = EXTRA")
    cursor.close()


def _sqlite_locks_at_begin(connection: sa.Connection) -> None:
    # A reader that turns writer can fail at once in SQLite; BEGIN IMMEDIATE makes deciders wait for one another instead.
    connection.exec_driver_sql("BEGIN IMMEDIATE")
