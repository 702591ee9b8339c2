"""Which error of a transaction calls for what."""

from __future__ import annotations

import sqlite3

import psycopg
import pytest
import sqlalchemy.exc

from oncelog import errors
from oncelog.core.processing.verdicts import Verdict, ends_reading, verdict_of


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (errors.IllegalGeneration("x"), Verdict.GROUP),
        (errors.StaleMemberEpoch("x"), Verdict.GROUP),
        (errors.ProducerFenced("x"), Verdict.FENCED),
        (errors.InvalidProducerEpoch("x"), Verdict.FENCED),
        (errors.InstanceFenced("x"), Verdict.FENCED),
        (errors.RecordTooLarge("x"), Verdict.RECORD),
        (errors.InvalidTopic("x"), Verdict.RECORD),
        (errors.InvalidPartitions("x"), Verdict.RECORD),
        (errors.InvalidArgument("x"), Verdict.RECORD),
        (errors.RequestTimedOut("x"), Verdict.OUTAGE),
        (errors.TransactionAbortable("x"), Verdict.OUTAGE),
        (errors.UnknownServer("x"), Verdict.OUTAGE),
        (errors.OutcomeUnknown("x"), Verdict.OUTAGE),
        (ConnectionResetError("x"), Verdict.OUTAGE),
        (errors.FencedInstanceId("x"), Verdict.FATAL),
        (errors.TopicAuthorization("x"), Verdict.FATAL),
        (errors.IllegalState("x"), Verdict.FATAL),
        (AssertionError("x"), Verdict.FATAL),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, BaseException) else each.name,
)
def test_errors_of_brokers_clients_and_the_machine(error, verdict):
    assert verdict_of(error) is verdict


def test_what_no_later_poll_can_read_ends_it():
    assert ends_reading(errors.InvalidTopic("x"))
    assert ends_reading(errors.TopicAuthorization("x"))
    assert not ends_reading(errors.CorruptRecord("x"))
    assert not ends_reading(errors.RequestTimedOut("x"))


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (sqlite3.OperationalError("database is locked"), Verdict.OUTAGE),
        (psycopg.errors.SerializationFailure("again"), Verdict.OUTAGE),
        (sqlalchemy.exc.InterfaceError("select", {}, ValueError()), Verdict.OUTAGE),
        (sqlite3.IntegrityError("UNIQUE"), Verdict.RECORD),
        (psycopg.errors.UniqueViolation("twice"), Verdict.RECORD),
        (sqlalchemy.exc.DataError("insert", {}, ValueError()), Verdict.RECORD),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, BaseException) else each.name,
)
def test_errors_of_databases_by_the_names_of_pep_249(error, verdict):
    """A database that is away is nobody's fault; a row that it refuses is the record's."""
    assert verdict_of(error) is verdict
