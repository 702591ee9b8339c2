"""Requests of the bench: what they say, and that no error in a reply goes unseen."""

from __future__ import annotations

import pytest

from bench import frames
from oncelog.wire.api import APIS, ApiKey
from oncelog.wire.frame import decode_request, decode_request_header, encode_response
from oncelog.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from oncelog.wire.messages.end_txn import EndTxnResponse
from oncelog.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from oncelog.wire.record_batch import batches


def request_in(frame: bytes):
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    view = memoryview(frame)[4:]
    header, position = decode_request_header(view)
    return header, decode_request(header, view, position)


def test_produce_has_one_batch_of_the_given_records():
    sent = frames.produce(
        "t", 3, [b"a", b"b"], 1000, producer=(7, 2), sequence=5, transactional_id="x", correlation_id=9
    )
    header, message = request_in(sent)
    assert (header.api_key, header.api_version, header.correlation_id) == (ApiKey.PRODUCE, 10, 9)
    assert (message.acks, message.transactional_id, message.topic_data[0].name) == (-1, "x", "t")
    [part] = message.topic_data[0].partition_data
    [batch] = batches(part.records)
    assert (part.index, batch.producer_id, batch.producer_epoch, batch.base_sequence) == (3, 7, 2, 5)
    assert batch.is_transactional
    assert [bytes(record.value) for record in batch.records()] == [b"a", b"b"]


def test_a_batch_without_a_producer_may_be_sent_again():
    _, message = request_in(frames.produce("t", 0, [b"a"], 1000))
    [batch] = batches(message.topic_data[0].partition_data[0].records)
    assert (batch.producer_id, batch.base_sequence, batch.is_transactional) == (-1, -1, False)


def test_fetch_names_its_topic_by_id_and_waits_for_a_byte():
    topic_id = bytes(range(16))
    header, message = request_in(frames.fetch(topic_id, 2, 40, max_bytes=1000, committed=True))
    assert header.api_version == 16
    [wanted] = message.topics[0].partitions
    assert bytes(message.topics[0].topic_id) == topic_id
    assert (wanted.partition, wanted.fetch_offset, wanted.partition_max_bytes) == (2, 40, 1000)
    assert (message.min_bytes, message.isolation_level) == (1, 1)


@pytest.mark.parametrize(
    ("frame", "key", "version"),
    [
        (frames.add_partitions("x", (7, 0), "t", 0), ApiKey.ADD_PARTITIONS_TO_TXN, 0),
        (frames.end_transaction("x", (7, 0), version=1), ApiKey.END_TXN, 1),
        (frames.metadata(["a", "b"]), ApiKey.METADATA, 12),
        (frames.create_topics(["a", "b"], 3), ApiKey.CREATE_TOPICS, 7),
        (frames.delete_topics(["a", "b"]), ApiKey.DELETE_TOPICS, 5),
    ],
)
def test_a_request_says_what_it_is(frame, key, version):
    assert frames.request_of(frame) == (key, version)
    request_in(frame)


def test_topics_are_created_with_their_configs():
    _, message = request_in(frames.create_topics(["a", "b"], 3, file_delete_delay_ms="0"))
    assert [(topic.name, topic.num_partitions) for topic in message.topics] == [("a", 3), ("b", 3)]
    [config] = message.topics[1].configs
    assert (config.name, config.value) == ("file.delete.delay.ms", "0")


def reply(message, version):
    return b"".join(encode_response(message.KEY, version, 1, message))


def test_a_reply_is_read_behind_its_size():
    message = frames.reply_of(ApiKey.END_TXN, 1, reply(EndTxnResponse(error_code=0), 1))
    assert isinstance(message, APIS[ApiKey.END_TXN].response)
    assert frames.error_codes(message) == [0]


def test_error_codes_are_found_wherever_they_are():
    part = PartitionProduceResponse(index=0, error_code=51)
    topic = TopicProduceResponse(name="t", partition_responses=[PartitionProduceResponse(), part])
    assert frames.error_codes(ProduceResponse(responses=[topic])) == [0, 51]
    assert frames.error_codes(CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_code=36)])) == [36]
