"""Who is refused learns which right is missing, and what to type."""

from __future__ import annotations

import pytest

from oncelog.errors import (
    ClusterAuthorization,
    KafkaError,
    TopicAuthorization,
    TransactionalIdAuthorization,
    UnknownTopicOrPartition,
)
from oncelog.spark.rights import right_to_ids_named, rights_named


def told(error: KafkaError, operation: str = "read", topics: tuple[str, ...] = ("a", "b")) -> str:
    with pytest.raises(type(error)) as found, rights_named({"sasl.username": "bob"}, operation, topics):
        raise error
    return str(found.value)


def test_the_topic_that_was_refused_is_named() -> None:
    assert told(TopicAuthorization("topic 'b'")) == (
        "TOPIC_AUTHORIZATION_FAILED: topic 'b'; User:bob needs the right to read topic 'b' (create too where it does not exist "
        "yet): oncelog acls add --topic b --principal User:bob --operation read"
    )


def test_so_is_a_right_to_the_cluster() -> None:
    text = told(ClusterAuthorization("Cluster authorization failed."), "describe-configs", ())
    assert text.endswith("oncelog acls add --cluster --principal User:bob --operation describe-configs")
    assert "failed; User:bob" in text


@pytest.mark.parametrize(
    "error", [UnknownTopicOrPartition("b"), TopicAuthorization("b; bob needs the right to write it")]
)
def test_what_says_it_already_is_left_alone(error: KafkaError) -> None:
    assert told(error) == str(error)


def test_a_right_that_comes_with_the_one_that_is_needed_is_not_asked_for_by_itself() -> None:
    rule = "oncelog acls add --topic b --principal User:bob --operation describe"
    hint = f"; User:bob needs the right to describe topic 'b': {rule}"
    assert told(TopicAuthorization(f"topic 'b'{hint}")) == told(TopicAuthorization("topic 'b'"))
    assert told(TopicAuthorization(f"topic 'b'{hint}"), "create").endswith("--operation describe")


def test_the_rule_for_a_tasks_id_is_one_for_all_of_its_query() -> None:
    """A rule for the id that was refused would help nobody: the next task has another one."""
    of_this_id = (
        "INIT_PRODUCER_ID was refused; User:bob needs the right to write transactional id 'p.q.0' (…): oncelog acls add"
    )
    for prepares, operations in ((True, "write --operation two-phase-commit"), (False, "write")):
        with pytest.raises(TransactionalIdAuthorization) as found, right_to_ids_named("p", prepares=prepares):
            raise TransactionalIdAuthorization(of_this_id)
        assert str(found.value) == (
            "TRANSACTIONAL_ID_AUTHORIZATION_FAILED: INIT_PRODUCER_ID was refused; User:bob needs the right to "
            f"{operations.replace(' --operation', ' and')} each transactional id that begins with 'p': "
            f"oncelog acls add --transactional-id p --prefixed --principal User:bob --operation {operations}"
        )
    with pytest.raises(TransactionalIdAuthorization, match="its user needs"), right_to_ids_named("p", prepares=False):
        raise TransactionalIdAuthorization("refused")
