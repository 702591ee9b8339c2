"""Writes docs/client-options.md from the clients' configuration classes: every option, Kafka's key, default and meaning.

`python tools/client_options_page.py`; a test says when the page is old or an option has no meaning here.
"""

from __future__ import annotations

import dataclasses
import pathlib

from oncelog.client.config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig, ShareConsumerConfig

PAGE = pathlib.Path(__file__).parent.parent / "docs" / "client-options.md"

OURS = {
    "keep_prepared_txn",
    "order",
    "transaction_order_memory_bytes",
    "transaction_order_disk_bytes",
    "partitioner",
    "stats_cb",
    "tracing",
    "sasl_oauth_token_provider",
    "oauth_cb",
    "sasl_tokenauth",
    "sasl_oauthbearer_config",
    "sasl_oauthbearer_extensions",
    "https_ca_location",
    "https_ca_pem",
}

MEANINGS = {
    "bootstrap_servers": "brokers to begin with, `HOST:PORT[,HOST:PORT]`",
    "client_id": "the name that brokers see: in logs, metrics and quotas",
    "request_timeout_ms": "how long one request waits for its answer",
    "retry_backoff_ms": "the first pause before a retry; it doubles, with jitter, up to `retry_backoff_max_ms`",
    "retry_backoff_max_ms": "upper limit of the retry back-off",
    "reconnect_backoff_ms": "the first pause before connecting again; it doubles up to `reconnect_backoff_max_ms`",
    "reconnect_backoff_max_ms": "upper limit of the reconnect back-off",
    "metadata_max_age_ms": "maximum age of cached metadata before it is refreshed",
    "socket_connection_setup_timeout_ms": "how long connecting may take",
    "default_api_timeout_ms": "how long a call may take in all, its retries included",
    "enable_metrics_push": "ask the broker which of the client's metrics it wants, and push those "
    "([KIP-714](metrics.md#metrics-that-clients-push)); one that takes none is asked nothing",
    "sasl_mechanism": "`PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512` or `OAUTHBEARER` (also `sasl_mechanisms`)",
    "sasl_username": "who logs in (also `sasl_plain_username`)",
    "sasl_password": "the password (also `sasl_plain_password`); shown nowhere",
    "sasl_jaas_config": "both as Java clients have them, in one JAAS line; shown nowhere",
    "sasl_tokenauth": "with SCRAM: `sasl_username` is a delegation token's id, `sasl_password` its MAC in base64",
    "sasl_oauth_token_provider": "of OAUTHBEARER: a function, or an object with `token()` (aiokafka's, kafka-python's), async "
    "or not, that gives a token, or a token and when it ends (seconds since 1970)",
    "oauth_cb": "the same as librdkafka has it: called with `sasl_oauthbearer_config`",
    "sasl_oauthbearer_config": "what `oauth_cb` is called with",
    "sasl_oauthbearer_token_endpoint_url": "who gives tokens for this client's credentials, `https:` (`http:` on this machine); "
    "`file:PATH` reads one",
    "sasl_oauthbearer_client_credentials_client_id": "this client's name there (also `sasl_oauthbearer_client_id`)",
    "sasl_oauthbearer_client_credentials_client_secret": "its secret (also `sasl_oauthbearer_client_secret`); shown nowhere",
    "sasl_oauthbearer_scope": "what the token is to be for",
    "sasl_oauthbearer_extensions": "said beside the token, `name=value,...`",
    "sasl_oauthbearer_header_urlencode": "whether name and secret are encoded in the header, as some providers want it",
    "https_ca_location": "a PEM file with the authorities of the token endpoint; default: the system's (librdkafka's name)",
    "https_ca_pem": "the same as PEM text",
    "security_protocol": "`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`",
    "ssl_endpoint_identification_algorithm": "`https` checks that a broker's certificate names the host that was asked for; "
    "empty: whoever has a trusted certificate can be the broker",
    "ssl_truststore_location": "a PEM file with the authorities that brokers' certificates come from (also `ssl_ca_location`, "
    "`ssl_cafile`); default: the system's",
    "ssl_truststore_certificates": "the same as PEM text (also `ssl_ca_pem`)",
    "ssl_truststore_type": "`PEM`, `PKCS12` or `JKS`; default: what the content says",
    "ssl_truststore_password": "of a store in PKCS12; shown nowhere",
    "ssl_keystore_location": "a PEM file with our certificate chain, and our key unless `ssl_key_location` says where it is "
    "(also `ssl_certificate_location`, `ssl_certfile`); refused where others can read it",
    "ssl_keystore_certificate_chain": "our certificate chain as PEM text (also `ssl_certificate_pem`)",
    "ssl_keystore_key": "our private key as PEM text (also `ssl_key_pem`); shown nowhere",
    "ssl_keystore_type": "`PEM`, `PKCS12` or `JKS`; default: what the content says",
    "ssl_keystore_password": "of a store in PKCS12; shown nowhere",
    "ssl_key_location": "a PEM file with our private key (also `ssl_keyfile`); refused where others can read it",
    "ssl_key_password": "of an encrypted private key; shown nowhere",
    "ssl_cipher_suites": "suites of TLS 1.2, by their names at IANA or in OpenSSL; default: ECDHE with AES-GCM or ChaCha20",
    "ssl_enabled_protocols": "`TLSv1.2,TLSv1.3`, or one of them",
    "transactional_id": "the producer's name over its lives; makes transactions possible",
    "transaction_timeout_ms": "after which time the coordinator aborts an open transaction; excludes two-phase commit",
    "transaction_two_phase_commit_enable": "KIP-939: transactions wait for their decision without a timeout",
    "keep_prepared_txn": "whether `start` keeps what an earlier life prepared (None: with two-phase commit)",
    "enable_idempotence": "batches carry sequences, so that a retry is stored once",
    "acks": "`all`: stored safely; `1`: written by the leader; `0`: no answer. The last two need `enable_idempotence=False`, "
    "which Kafka's Java client turns off by itself then: here it has to be said, as a retry may be stored twice",
    "linger_ms": "how long a batch waits for more records",
    "batch_size": "bytes after which a batch is closed; `0`: each record is a batch of its own",
    "metadata_max_idle_ms": "after which time a topic to which nothing is sent is forgotten: its metadata is not asked for any "
    "more, and nothing is remembered of it",
    "buffer_memory": "bytes of records that wait; then `send` waits",
    "compression_type": "`none` (or `None`), `gzip`, `snappy`, `lz4`, `zstd`",
    "compression_gzip_level": "with gzip: 1 (fast) to 9 (small); -1: its own default",
    "compression_lz4_level": "with lz4: 1 to 17, slow from 3 on (Kafka's default is 9); 0: its own default, fast",
    "compression_zstd_level": "with zstd: -131072 (fast) to 22 (small)",
    "max_request_size": "the largest record, and the largest request, in bytes",
    "max_block_ms": "how long a call waits for room, metadata, the end of a transaction, the start of a transactional producer",
    "delivery_timeout_ms": "how long a record may take until its outcome is told",
    "retries": "how often a batch is sent again; `delivery_timeout_ms` is the better bound",
    "max_in_flight_requests_per_connection": "Produce requests under way to one broker; 1 to 5 with idempotence",
    "partitioner": "`murmur2_random` (Java's), `consistent_random` (librdkafka's), `murmur2`, `consistent`, `random`, or a "
    "function of key and partition count",
    "key_serializer": "a function that makes bytes of a key",
    "value_serializer": "a function that makes bytes of a value",
    "interceptor_classes": "a list of `ProducerInterceptor` or `ConsumerInterceptor` objects (or classes): `on_send`, "
    "`on_acknowledgement`; `on_consume`, `on_commit`",
    "tracing": "`oncelog.opentelemetry.Tracing()`: spans of sends, transactions and polls, with their context in the records' "
    "headers ([tracing](tracing.md))",
    "stats_cb": "a function that gets `metrics()` every `statistics_interval_ms` (librdkafka's callback; a typed object "
    "instead of JSON, `as_dict()` has that); it must not block",
    "statistics_interval_ms": "how often; 0: never (librdkafka's `statistics.interval.ms`)",
    "share_acknowledgement_mode": "`implicit`: accepted with the next poll; `explicit`: `acknowledge` says it of each",
    "share_acquire_mode": "`batch_optimized`: whole batches, perhaps a few more than `max_poll_records`; `record_limit`: no more",
    "group_id": "the group that shares the partitions and keeps the positions",
    "group_instance_id": "a static member's name: it may come back without a rebalance",
    "group_protocol": "`classic`, or `consumer` (KIP-848: the broker assigns)",
    "group_remote_assignor": "with `group_protocol=consumer`: the broker's assignor, `uniform` or `range`",
    "client_rack": "where this consumer is: it reads from the replica there that the leader names (KIP-392)",
    "isolation_level": "`read_committed` hides open and aborted transactions",
    "order": "`offset`, or `transaction`: whole transactions as they are committed ([more](transaction-order.md))",
    "transaction_order_memory_bytes": "how much of open transactions is kept in memory",
    "transaction_order_disk_bytes": "how much of them is kept in a temporary file",
    "auto_offset_reset": "where to begin without a position: `latest`, `earliest`, `none`, or `by_duration:PT1H` "
    "(KIP-1106: at the first record of the last hour, else at the end)",
    "enable_auto_commit": "positions are committed by themselves",
    "auto_commit_interval_ms": "and how often",
    "session_timeout_ms": "without a heartbeat for so long a member is out of its group",
    "heartbeat_interval_ms": "how often a classic member says that it lives",
    "max_poll_interval_ms": "without a `poll` for so long a member leaves",
    "max_poll_records": "records of one `poll` at most",
    "fetch_min_bytes": "a broker waits until it has so much",
    "fetch_max_bytes": "bytes of one fetch at most, and of all that is here when more is fetched ahead",
    "fetch_max_wait_ms": "and no longer than this",
    "max_partition_fetch_bytes": "bytes of one partition in a fetch at most",
    "check_crcs": "verify each batch's checksum",
    "allow_auto_create_topics": "subscribing may create a topic",
    "exclude_internal_topics": "patterns do not match internal topics",
    "partition_assignment_strategy": "`range`, `roundrobin`, `sticky`, `cooperative-sticky`, in the order of preference",
    "key_deserializer": "a function that reads a key's bytes; for `poll`, not for `poll_arrow`",
    "value_deserializer": "the same for the value; a record that it cannot read is named, and the position stays there",
}
OF_SHARE_CONSUMERS = {
    "group_id": "the group that shares the records; it must be given",
    "fetch_max_bytes": "bytes of one fetch at most",
    "key_deserializer": "a function that reads a key's bytes",
    "value_deserializer": "the same for the value; a record that it cannot read is named, and released",
}


def render() -> str:
    """The page."""
    parts = [
        "# Every option of the clients",
        "Keyword arguments of `Producer`, `Consumer`, `ShareConsumer` and `Admin` (and of those in `oncelog.sync`), or Kafka's",
        "dotted keys through",
        "`from_config({...})` and properties files. An unknown one is refused with the nearest known name; keys of Kafka's",
        "that mean nothing here are taken with a warning. Written by `tools/client_options_page.py`.",
        "",
        "For mypy, pyright and editors they are typed (PEP 692): a wrong name or kind of value is a red line. Options in a dict",
        "of several types want an annotation: `options: oncelog.ProducerOptions = {...}` (`ConsumerOptions`, `AdminOptions`,",
        "`ProcessOptions`), or `dict[str, Any]`.",
    ]
    for title, config in (
        ("All clients", ClientConfig),
        ("Producer", ProducerConfig),
        ("Consumer", ConsumerConfig),
        ("ShareConsumer", ShareConsumerConfig),
        ("Admin", AdminConfig),
    ):
        inherited = set() if config is ClientConfig else {field.name for field in dataclasses.fields(ClientConfig)}
        fields = [field for field in dataclasses.fields(config) if field.name not in inherited]
        if fields:
            parts += ["", f"## {title}", "| option | Kafka's key | default | meaning |", "|---|---|---|---|"]
            others = OF_SHARE_CONSUMERS if config is ShareConsumerConfig else {}
            parts += [_row(field, others.get(field.name, MEANINGS[field.name])) for field in fields]
    return "\n".join(parts) + "\n"


def _row(field: dataclasses.Field[object], meaning: str) -> str:
    key = "ours" if field.name in OURS else f"`{field.name.replace('_', '.')}`"
    return f"| `{field.name}` | {key} | `{field.default}` | {meaning} |"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
    print(f"{PAGE.name} written")
