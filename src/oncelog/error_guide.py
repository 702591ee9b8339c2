"""For each error that a user can meet: what happened, and what to do. Data for docs/errors.md (tools/errors_page.py).

Nothing imports this while a client or broker runs.
"""

from __future__ import annotations

from typing import NamedTuple


class Advice(NamedTuple):
    """Plain words for one error class."""

    cause: str
    cure: str


_TRIED = "The client retries by itself. If you see it, the time ran out: "
_INSIDE = "Nothing: the client handles it. If you see it, report a bug with the log."

OWN = {
    "MalformedMessage": Advice(
        "The other side sent bytes that do not fit the protocol.",
        "Check that the address is a Kafka broker's and not another service's; then look at what stands between both.",
    ),
    "MalformedFrame": Advice(
        "The other side announced a message of an impossible size; mostly it does not speak Kafka's protocol.",
        "Check host and port, and whether that port expects TLS (`security_protocol`).",
    ),
    "CorruptBatch": Advice(
        "A stored batch of records has a wrong checksum or layout.",
        "`oncelog dump-log FILE` shows where. Keep the files; restore them, or read on behind the batch.",
    ),
    "CorruptIndex": Advice(
        "An index or snapshot file contradicts itself.",
        "Restart the broker: indexes are rebuilt from the log.",
    ),
    "StorageError": Advice(
        "The disk refused a write or a sync: it is full, broken, or not writable. The log that met it goes offline.",
        "Make room or mend the disk, then restart the broker. The broker's log names the file.",
    ),
    "DamagedLog": Advice(
        "Stored data that had been synced is damaged. The broker cuts nothing and keeps the partition offline.",
        "`oncelog dump-log` shows what is damaged; [command line](cli.md#partitions-that-are-damaged-or-offline) "
        "says how to go on.",
    ),
    "ConfigurationError": Advice(
        "An option is unknown, or has a value that it does not take.",
        "The message names the option and the nearest known one: [client options](client-options.md).",
    ),
    "InvalidArgument": Advice(
        "An argument has a wrong type or value. Nothing was done.",
        "Correct the call; producer and transaction can be used on.",
    ),
    "MissingLibrary": Advice(
        "A library that this part of oncelog needs is not installed. It is an `ImportError`, too.",
        "The message names the extra that brings it: `pip install '.[EXTRA]'` in the clone.",
    ),
    "IllegalState": Advice(
        "The call does not fit what the object is doing, for example `send` after `prepare_transaction`.",
        "The message says what is expected next.",
    ),
    "WakeupError": Advice(
        "`Consumer.wakeup` was called, from another task, another thread or a signal handler. No record was lost.",
        "End the loop that polls, or poll on. It is raised once for each time that a poll was to be ended.",
    ),
    "WouldBlock": Advice(
        "`send_nowait` found no room in the buffer, or does not know the topic yet. Nothing was taken.",
        "`await producer.send(...)`, or try again later.",
    ),
    "RecordDeserialization": Advice(
        "Your deserializer raised for one record. The position stays before it.",
        "`error.topic_partition` and `error.offset` name it. Repair the deserializer, or seek behind the record.",
    ),
    "SchemaRegistryError": Advice(
        "A schema registry refused a schema, does not know one, or did not answer in time.",
        "The text says which. Incompatible: change the schema, or the subject's compatibility. No answer: see its address.",
    ),
    "SchemaRegistryUnavailable": Advice(
        "A schema registry did not answer in time, or said that it cannot now (408, 429, 5xx).",
        "Try again later; `oncelog.process` does. If it stays so: see the registry's address, and whether it runs.",
    ),
    "SchemaRegistryRefused": Advice(
        "A schema registry does not know who asks, or does not let them (401, 403). No record is to blame.",
        "See `basic_auth` and `bearer_token`, and whether they have expired; `oncelog.process` waits, and makes no dead letters.",
    ),
    "SchemaNotFound": Advice(
        "A schema registry has no schema of the id that a record names. A Consumer raises `RecordDeserialization` for it.",
        "See who wrote that record, and with which registry; seek behind it, or set `dead_letter_topic`.",
    ),
    "InstanceFenced": Advice(
        "A newer instance of this dual writer took over. Of this transaction nothing was written.",
        "Let the newer one work; if both are to live, give each its own `transactional_id`.",
    ),
    "OutcomeUnknown": Advice(
        "The database was asked to commit and did not answer, and cannot be asked now.",
        "Do not repeat the write. The next start of the writer, or the [janitor](dual-writes.md#the-janitor), finds out.",
    ),
    "NotBegun": Advice(
        "A dual write was to begin while nobody knew what became of the one before. Nothing of it was written.",
        "Try it again, when the database answers. The `outcome` of the transaction before is told by that one.",
    ),
    "ProcessingFailed": Advice(
        "The transform failed at one record, as often as it may; nothing of that record was written.",
        "Look at `error.__cause__`. Repair the transform, or set `dead_letter_topic` ([processing](processing.md)).",
    ),
}

KAFKA = {
    "UnknownServer": Advice(
        "The broker failed in a way for which Kafka has no code, or sent a code that is not known here.",
        "The broker's log has the reason.",
    ),
    "OffsetOutOfRange": Advice(
        "The position lies before the first record that is kept, or behind the last one, and `auto_offset_reset` is `none`.",
        "Seek to the beginning or the end, or choose a reset policy. Longer `retention.ms` keeps records for slow readers.",
    ),
    "CorruptRecord": Advice(
        "A batch's checksum is wrong: it was damaged on its way or on the disk.",
        "Once: retried. Always at the same offset: the file is damaged, `oncelog dump-log` shows it.",
    ),
    "UnknownTopicOrPartition": Advice(
        "The topic or partition does not exist, not yet, or may not be seen.",
        "Check the name; create it (`oncelog topics create`); look at `auto.create.topics.enable` and the access rules.",
    ),
    "InvalidFetchSize": Advice("A fetch asked for an impossible size.", "Check the `fetch_*` options."),
    "LeaderNotAvailable": Advice("The partition has no leader at the moment.", _TRIED + "look at the broker."),
    "NotLeaderOrFollower": Advice(
        "The broker that was asked does not lead the partition: leadership moved, or the partition is offline.",
        _TRIED + "look for an offline partition in the broker's log.",
    ),
    "RequestTimedOut": Advice(
        "No answer in time: the broker is slow, cannot be reached, or waits for something.",
        "Check the network and the broker's load. A record may have been stored; an idempotent producer may retry safely.",
    ),
    "BrokerNotAvailable": Advice("The broker that is needed is not there.", "Start it, or check `bootstrap_servers`."),
    "ReplicaNotAvailable": Advice(
        "A replica cannot be read at the moment.", _TRIED + "look at the cluster's replicas."
    ),
    "RecordTooLarge": Advice(
        "A record is larger than `max_request_size` here or `max.message.bytes` of the topic.",
        "Send smaller records, or raise both. In a transaction: abort it; it cannot be committed any more, also where the"
        " error was caught.",
    ),
    "ControllerMoved": Advice("The cluster's controller changed meanwhile.", "Repeat the call."),
    "OffsetMetadataTooLarge": Advice(
        "The text beside a committed offset is longer than `offset.metadata.max.bytes`.", "Shorten it."
    ),
    "Network": Advice(
        "The connection broke, or could not be made.",
        _TRIED + "check host, port and `security_protocol`, and that the broker runs.",
    ),
    "CoordinatorLoadInProgress": Advice(
        "The coordinator has just started and reads its log.", _TRIED + "wait until the broker is ready (`/readyz`)."
    ),
    "CoordinatorNotAvailable": Advice("The coordinator is not there yet.", _TRIED + "look at the broker's log."),
    "NotCoordinator": Advice(
        "The coordinator moved, or its partition is offline.",
        _TRIED + "look for an offline partition in the broker's log.",
    ),
    "InvalidTopic": Advice(
        "The topic's name is not allowed, or the topic is an internal one.",
        "Use ASCII letters, digits, `.`, `_` and `-`, at most 249.",
    ),
    "RecordBatchTooLarge": Advice(
        "A batch is larger than a segment may be.", "Lower `batch_size` or raise the topic's `segment.bytes`."
    ),
    "NotEnoughReplicas": Advice(
        "Fewer replicas are in sync than `min.insync.replicas` asks for.",
        "Bring replicas back. On oncelog, one node, set `min.insync.replicas` to 1.",
    ),
    "NotEnoughReplicasAfterAppend": Advice(
        "The record was written, but not to as many replicas as asked for.", "Bring replicas back. A retry is safe."
    ),
    "InvalidRequiredAcks": Advice("`acks` is none of 0, 1, all.", "Correct it."),
    "IllegalGeneration": Advice(
        "The group has changed since this member's positions were read: it may no longer commit them.",
        "Abort the transaction and go on with what the member has now; poll more often, or raise `max_poll_interval_ms`.",
    ),
    "InconsistentGroupProtocol": Advice(
        "This member has no assignment strategy in common with the rest, or speaks the other group protocol.",
        "Give all members the same `partition_assignment_strategy` and `group_protocol`.",
    ),
    "InvalidGroupId": Advice("The group's id is empty or missing.", "Set `group_id`."),
    "UnknownMemberId": Advice(
        "The group does not know this member any more: it was silent for too long, or has left.",
        "Abort the transaction; the consumer joins again. Poll more often, or raise `session_timeout_ms`.",
    ),
    "InvalidSessionTimeout": Advice(
        "`session_timeout_ms` lies outside what the broker allows.",
        "Stay between `group.min.session.timeout.ms` and `group.max.session.timeout.ms`.",
    ),
    "RebalanceInProgress": Advice(
        "The group is sharing out its partitions.", "Poll: the consumer takes part. Then commit again."
    ),
    "InvalidCommitOffsetSize": Advice(
        "A commit of offsets is too large for the broker's log.", "Commit fewer at once."
    ),
    "TopicAuthorization": Advice(
        "The access rules do not let you do this to the topic.", "Ask for a rule (`oncelog acls`), or use another user."
    ),
    "GroupAuthorization": Advice(
        "The access rules do not let you use this group.", "Ask for a rule (`oncelog acls`), or use another group."
    ),
    "ClusterAuthorization": Advice(
        "The access rules do not let you do this to the cluster.",
        "Ask for a rule (`oncelog acls`); make a new producer then.",
    ),
    "InvalidTimestamp": Advice(
        "A record's timestamp lies further from the broker's clock than the topic allows.",
        "Check the clock and the unit (milliseconds), or the topic's `message.timestamp.*.max.ms`.",
    ),
    "UnsupportedSaslMechanism": Advice(
        "The broker does not offer the `sasl_mechanism` that was asked for.", "Use one of those that the message names."
    ),
    "IllegalSaslState": Advice(
        "A login came at the wrong place: one side expects SASL, the other does not.", "Check `security_protocol`."
    ),
    "UnsupportedVersion": Advice(
        "The broker does not know this request, or not in the version that the call needs (for example two-phase commit).",
        "Use a newer broker, raise `transaction.version`, or leave the feature out.",
    ),
    "TopicExists": Advice("A topic of that name exists.", "Use it, or choose another name."),
    "InvalidPartitions": Advice(
        "The number of partitions is not possible: below 1, or not more than there are.",
        "Partitions can only be added.",
    ),
    "InvalidReplicationFactor": Advice(
        "More replicas were asked for than there are brokers.", "On oncelog use 1 or -1."
    ),
    "InvalidReplicaAssignment": Advice("An assignment names brokers that do not exist.", "On oncelog leave it out."),
    "InvalidConfiguration": Advice(
        "A config is unknown, or its value is not allowed.", "The message names it: [broker keys](broker-keys.md)."
    ),
    "NotController": Advice("The broker that was asked is not the controller.", _TRIED + "look at the cluster."),
    "InvalidRequest": Advice("The broker finds the request contradictory.", "The message says what; correct the call."),
    "UnsupportedForMessageFormat": Advice(
        "The topic is stored in a format that is too old for transactions.", "Move the data to a new topic."
    ),
    "PolicyViolation": Advice(
        "A bound of the broker is reached, or a policy forbids it.", "The message names the bound: [limits](limits.md)."
    ),
    "OutOfOrderSequence": Advice(
        "The broker misses a batch before this one: an earlier one was lost or refused.",
        "In a transaction: abort it and begin again. Outside: look for the first error before this one.",
    ),
    "DuplicateSequence": Advice(
        "The broker has this batch already.", "It is stored; in a transaction, abort and begin again."
    ),
    "InvalidProducerEpoch": Advice(
        "The partition knows a newer epoch: a timeout ended the transaction, or a newer producer has this `transactional_id`.",
        "Abort and begin again; a newer producer makes that fail with `ProducerFenced`. Raise `transaction_timeout_ms` if "
        "transactions take longer ([fencing](concepts.md#producer-epochs-and-fencing)).",
    ),
    "InvalidTxnState": Advice(
        "The coordinator has the transaction in another state than the producer; mostly its timeout ended it before the commit.",
        "Make a new producer and begin the transaction again; after a timeout nothing of it is visible. Raise "
        "`transaction_timeout_ms` if transactions take longer. Check that nobody else uses this `transactional_id`.",
    ),
    "InvalidPidMapping": Advice(
        "The coordinator does not know this producer under its transactional id: it was silent for too long.",
        "Make a new producer. `transactional.id.expiration.ms` says how long ids are kept.",
    ),
    "InvalidTxnTimeout": Advice(
        "`transaction_timeout_ms` is larger than the broker allows.", "Lower it, or raise `transaction.max.timeout.ms`."
    ),
    "ConcurrentTransactions": Advice(
        "The transaction before this one is still being completed.",
        _TRIED + "a partition that is offline holds the completion up; `oncelog transactions list` shows it.",
    ),
    "TransactionCoordinatorFenced": Advice(
        "A newer coordinator took over from the one that wrote this marker.", "Make a new producer."
    ),
    "TransactionalIdAuthorization": Advice(
        "The access rules do not let you use this transactional id.",
        "Ask for a rule (`oncelog acls`); then a new producer.",
    ),
    "SecurityDisabled": Advice(
        "Access rules are switched off on this broker.", "Set `authorizer.class.name` ([security](security.md))."
    ),
    "OperationNotAttempted": Advice("Another part of the same request failed first.", "Repair that one, then repeat."),
    "KafkaStorage": Advice(
        "The broker's disk refused, and the partition is offline.",
        "Mend the disk and restart the broker; its log says more.",
    ),
    "LogDirNotFound": Advice("The named data directory is none of the broker's.", "Use one that the broker has."),
    "SaslAuthentication": Advice("The login was refused.", "Check user, password or token, and the mechanism."),
    "AuthenticationFailed": Advice(
        "One side does not believe who the other is: a wrong password, or a certificate that cannot be verified.",
        "The message says which side and why: [security](security.md).",
    ),
    "UnknownProducerId": Advice(
        "The broker has forgotten this producer: its records were deleted, or it was silent for too long.",
        "Abort the transaction and begin again.",
    ),
    "ReassignmentInProgress": Advice("A reassignment of this partition is under way.", "Wait for it, or cancel it."),
    "DelegationTokenDisabled": Advice(
        "Delegation tokens are switched off.", "Set `delegation.token.secret.key` on the broker."
    ),
    "DelegationTokenNotFound": Advice("There is no such token; it may have ended.", "Make a new one."),
    "DelegationTokenOwnerMismatch": Advice("The token belongs to somebody else.", "Ask as its owner or a renewer."),
    "UnsupportedByAuthentication": Advice(
        "Tokens can only be asked for over a login that is not itself a token.", "Log in with password or certificate."
    ),
    "DelegationTokenAuthorization": Advice(
        "The access rules do not let you do this.", "Ask for a rule (`oncelog acls`)."
    ),
    "DelegationTokenExpired": Advice("The token has ended.", "Make a new one, and renew it in time."),
    "InvalidPrincipalType": Advice("A principal is not of the form `User:name`.", "Write it so."),
    "GroupNotEmpty": Advice("The group still has members.", "Stop them first."),
    "GroupIdNotFound": Advice("There is no such group, or it is of the other protocol.", "Check the name."),
    "FetchSessionIdNotFound": Advice("The broker gave the fetch session up.", _INSIDE),
    "InvalidFetchSessionEpoch": Advice("Client and broker disagree about a fetch session.", _INSIDE),
    "ListenerNotFound": Advice(
        "The leader has no address on the listener that was used.", "Check `advertised.listeners`."
    ),
    "TopicDeletionDisabled": Advice("Topics may not be deleted here.", "Set `delete.topic.enable=true`."),
    "FencedLeaderEpoch": Advice("The client's idea of the leader is old.", _INSIDE),
    "UnknownLeaderEpoch": Advice("The client's idea of the leader is newer than the broker's.", _INSIDE),
    "UnsupportedCompressionType": Advice("The broker cannot read this codec.", "Choose another `compression_type`."),
    "StaleBrokerEpoch": Advice(
        "A broker spoke with an old registration.", "Look at the cluster; clients do not send this."
    ),
    "OffsetNotAvailable": Advice("A new leader does not know its end offset yet.", _TRIED + "look at the cluster."),
    "MemberIdRequired": Advice("A member has to join a second time, with the id it was given.", _INSIDE),
    "PreferredLeaderNotAvailable": Advice("The preferred leader is not there.", "Bring that broker back."),
    "GroupMaxSizeReached": Advice(
        "The group, or the broker, has as many members as it may have.",
        "Fewer members, or raise the bound: [limits](limits.md).",
    ),
    "FencedInstanceId": Advice(
        "Another member joined with the same `group_instance_id`.", "Give each running member its own."
    ),
    "EligibleLeadersNotAvailable": Advice("No replica can become leader.", "Bring brokers back."),
    "ElectionNotNeeded": Advice("The leader is already the wanted one.", "Nothing."),
    "NoReassignmentInProgress": Advice("There is nothing to cancel.", "Nothing."),
    "GroupSubscribedToTopic": Advice(
        "The offsets belong to a topic that members of the group are reading.", "Stop them before you delete offsets."
    ),
    "InvalidRecord": Advice(
        "The broker refuses what is in the record: mostly a record without a key in a compacted topic.",
        "The message names the record and the reason.",
    ),
    "UnstableOffsetCommit": Advice(
        "Offsets of an open transaction are pending for this partition.",
        _TRIED + "find the transaction with `oncelog transactions list`.",
    ),
    "ThrottlingQuotaExceeded": Advice(
        "You made or deleted topics and partitions faster than your quota allows.", "Wait, or raise the quota."
    ),
    "ProducerFenced": Advice(
        "A newer producer uses this `transactional_id`; this one may write nothing more. Below `transaction.version` 2 a timeout "
        "looks the same.",
        "End this instance. If both are to live, give each its own id ([fencing](concepts.md#producer-epochs-and-fencing)).",
    ),
    "ResourceNotFound": Advice("The named user or resource does not exist.", "Check the name."),
    "DuplicateResource": Advice("The same thing is named twice in one request.", "Name it once."),
    "UnacceptableCredential": Advice(
        "A SCRAM credential has too few or too many iterations, or no name.",
        "Use 4096 to 16384 iterations, and name the user.",
    ),
    "InvalidUpdateVersion": Advice(
        "A feature has no such level, or may not go there.", "`oncelog features` shows what is possible."
    ),
    "FeatureUpdateFailed": Advice("A feature could not be changed.", "The message says what stands in the way."),
    "UnknownTopicId": Advice("The topic was deleted, or made anew.", _TRIED + "check that the topic exists."),
    "InconsistentTopicId": Advice("The topic was made anew under the same name.", _INSIDE),
    "InconsistentClusterId": Advice("The broker belongs to another cluster.", "Check `bootstrap_servers`."),
    "TransactionalIdNotFound": Advice(
        "The coordinator does not know this transactional id; it was never used or has expired.",
        "Check the name: `oncelog transactions list`.",
    ),
    "FetchSessionTopicId": Advice("A fetch session mixes topics by name and by id.", _INSIDE),
    "OffsetMovedToTieredStorage": Advice("The offset lies in tiered storage.", "Read it from a cluster that has that."),
    "InvalidRecordState": Advice(
        "A share consumer acknowledged a record that it does not have any more: the lock was over, and others may have it.",
        'Be done within the lock (`share.record.lock.duration.ms` of the group), or `acknowledge(record, "renew")` in time.',
    ),
    "ShareSessionNotFound": Advice("The broker knows no such share session: its connection ended.", _INSIDE),
    "InvalidShareSessionEpoch": Advice("A share session's request was lost or came twice.", _INSIDE),
    "ShareSessionLimitReached": Advice(
        "As many share consumers read from this broker as it takes.",
        _TRIED + "stop some, or raise `group.share.max.share.sessions`.",
    ),
    "FencedMemberEpoch": Advice("The group has moved on without this member.", "Poll: the consumer joins again."),
    "UnreleasedInstanceId": Advice(
        "The former member with this `group_instance_id` has not left yet.",
        "Stop it, or wait for its session to end; then make a new consumer.",
    ),
    "UnsupportedAssignor": Advice("The broker has no such assignor.", "`group_remote_assignor`: `uniform` or `range`."),
    "StaleMemberEpoch": Advice(
        "The member's assignment changed meanwhile: it may no longer commit these offsets.",
        "Abort the transaction and go on with what the member has now.",
    ),
    "MismatchedEndpointType": Advice(
        "A controller was asked as a broker, or the reverse.", "Check `bootstrap_servers`."
    ),
    "UnsupportedEndpointType": Advice("There is no such kind of endpoint.", "Check `bootstrap_servers`."),
    "UnknownControllerId": Advice("There is no such controller.", "Check the cluster."),
    "TransactionAbortable": Advice(
        "This transaction cannot be committed; the producer is sound.", "Abort and begin again."
    ),
    "InvalidRegularExpression": Advice(
        "The broker cannot read the pattern of a subscription.", "Correct it (RE2's syntax)."
    ),
    "RebootstrapRequired": Advice("The client's addresses of the cluster are out of date.", "Connect anew."),
    "ProducerStopped": Advice(
        "The producer was stopped before an answer was there: records on their way, a commit or an abort may be done or not.",
        "Let `stop` wait (no `timeout_ms`, or a longer one). The next producer with this `transactional_id` ends what is open; "
        "what is committed is visible then, and read with `read_committed`.",
    ),
    "PurgedLocally": Advice("`Producer.purge` gave the record up.", "In a transaction: abort it."),
    "PurgedInQueue": Advice(
        "`Producer.purge` gave the record up before it was sent: it is not stored.", "Send it again if wanted."
    ),
    "PurgedInFlight": Advice(
        "`Producer.purge` gave the record up after it was sent: it may be stored.",
        "In a transaction: abort it. Outside, sending it again may double it.",
    ),
}

ADVICE = {**OWN, **KAFKA}
