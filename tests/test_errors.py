"""Kafka's codes and what a user may do after each error: a wrong number or a wrong flag ends, or keeps, the wrong producer."""

from __future__ import annotations

import copy
import pickle

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from oncelog import errors
from oncelog.errors import ErrorCode, KafkaError

CLASSES = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, KafkaError)]
KIOS = {int(each): each for each in KioErrorCode}
# Abort the transaction and go on: the producer is sound. Kafka's client as of 4.3, docs/differences-from-kafka.md.
ABORTABLE = {
    "DuplicateSequence",
    "FencedInstanceId",
    "GroupAuthorization",
    "GroupIdNotFound",
    "IllegalGeneration",
    "InvalidProducerEpoch",
    "OutOfOrderSequence",
    "PurgedInFlight",
    "PurgedInQueue",
    "PurgedLocally",
    "RecordBatchTooLarge",
    "RecordTooLarge",
    "StaleMemberEpoch",
    "TopicAuthorization",
    "TransactionAbortable",
    "UnknownMemberId",
    "UnknownProducerId",
}
# This producer is over: another one has its place, or it may never do what it was asked for.
FATAL = {
    "ClusterAuthorization",
    "InvalidPidMapping",
    "InvalidTxnState",
    "InvalidTxnTimeout",
    "ProducerFenced",
    "ProducerStopped",
    "TransactionCoordinatorFenced",
    "TransactionalIdAuthorization",
    "UnsupportedForMessageFormat",
    "UnsupportedVersion",
}


def test_numbers_and_names_are_kios():
    assert {int(code): code.name for code in ErrorCode if int(code) in KIOS} == {
        int(code): KIOS[int(code)].name.upper() for code in ErrorCode if int(code) in KIOS
    }
    assert len([code for code in ErrorCode if int(code) in KIOS]) > 100


def test_what_kafka_calls_retriable_is():
    ours = {int(each.code): each for each in CLASSES if "code" in vars(each)}
    assert {code: each.retriable for code, each in ours.items()} == {code: KIOS[code].retriable for code in ours}


def test_what_may_be_aborted_and_what_is_over():
    assert {each.__name__ for each in CLASSES if each.abortable} == ABORTABLE
    assert {each.__name__ for each in CLASSES if each.fatal} == FATAL


@pytest.mark.parametrize("each", CLASSES, ids=lambda each: each.__name__)
def test_an_error_is_one_of_the_kinds_at_most(each):
    assert each.retriable + each.abortable + each.fatal <= 1


MORE = {errors.RecordDeserialization: (("t", 0), 5), errors.ProcessingFailed: (("t", 0), 5, 6)}
RAISED = [
    each("why", *MORE.get(each, ()))
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, errors.OncelogError)
]


@pytest.mark.parametrize("each", RAISED, ids=lambda each: type(each).__name__)
def test_an_error_arrives_in_another_process_as_it_was(each):
    """The text was made once more of the text: NETWORK_EXCEPTION: NETWORK_EXCEPTION: why; the offset was missing."""
    for arrived in (pickle.loads(pickle.dumps(each)), copy.copy(each)):
        assert type(arrived) is type(each)
        assert (str(arrived), arrived.args, vars(arrived)) == (str(each), each.args, vars(each))


def test_a_code_has_one_class_and_a_subclass_of_it_takes_nothing_away():
    class Later(errors.RequestTimedOut, retriable=True):
        """No broker sends it."""

    assert Later.code is ErrorCode.REQUEST_TIMED_OUT
    assert type(errors.error_for(ErrorCode.REQUEST_TIMED_OUT)) is errors.RequestTimedOut
    with pytest.raises(TypeError, match="REQUEST_TIMED_OUT has a class: RequestTimedOut"):

        class Another(errors.KafkaError, code=ErrorCode.REQUEST_TIMED_OUT):
            """A second one."""
