"""Real mistakes, one line each. The suite has to notice every one of them (`make mutants`)."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """Replace `right`, which occurs once in `file` (below src/oncelog), by `wrong`."""

    name: str
    file: str
    right: str
    wrong: str


MUTANTS = (
    # the transaction coordinator
    Mutant(
        "the marker keeps the transaction's epoch (KAFKA-17754)",
        "core/transactions/transaction.py",
        "return min(transaction.producer_epoch + 1, LAST_PRODUCER_EPOCH)",
        "return transaction.producer_epoch",
    ),
    Mutant(
        "any older epoch is taken for a retry",
        "core/transactions/transaction.py",
        "return present.producer_epoch == identity.producer_epoch + 1",
        "return present.producer_epoch >= identity.producer_epoch + 1",
    ),
    Mutant(
        "after a keep-init the old identity still acts",
        "core/transactions/transaction.py",
        "return following(transaction) if transaction.state is S.ONGOING else own(transaction)",
        "return own(transaction)",
    ),
    Mutant(
        "the last epoch that may write is one too high",
        "core/transactions/transaction.py",
        "EXHAUSTED_PRODUCER_EPOCH = 32766",
        "EXHAUSTED_PRODUCER_EPOCH = 32767",
    ),
    Mutant(
        "a completed transaction keeps its partitions",
        "core/transactions/transaction.py",
        "else S.COMPLETE_ABORT,\n        partitions=frozenset(),",
        "else S.COMPLETE_ABORT,",
    ),
    Mutant(
        "a later partition replaces the earlier ones",
        "core/transactions/transaction.py",
        "partitions=transaction.partitions | partitions if is_open else partitions,",
        "partitions=partitions,",
    ),
    Mutant(
        "a completed transaction goes on with the transaction's own producer id (KIP-890, overflow)",
        "core/transactions/transaction.py",
        "    identity = following(transaction)\n    return replace(",
        "    identity = own(transaction)\n    return replace(",
    ),
    Mutant(
        "a transition under way does not stop the next request",
        "core/transactions/table.py",
        "        if transactional_id in self.pending:\n            return True\n",
        "",
    ),
    Mutant(
        "after a restart no marker is owed",
        "core/transactions/table.py",
        "self.unwritten[transactional_id] = set(record.partitions)",
        "self.unwritten[transactional_id] = set()",
    ),
    Mutant(
        "a late answer of an older transaction completes the newer one (KAFKA-16352)",
        "core/transactions/completion.py",
        "if transaction is None or transaction is not markers.prepared or markers.transactional_id in table.pending:",
        "if transaction is None or transaction.state not in PREPARED or markers.transactional_id in table.pending:",
    ),
    Mutant(
        "a leader that is not there counts as written",
        "core/transactions/completion.py",
        "SETTLED = frozenset({E.NONE,",
        "SETTLED = frozenset({E.NONE, E.NOT_LEADER_OR_FOLLOWER,",
    ),
    Mutant(
        "complete after the first marker",
        "core/transactions/completion.py",
        "    if not unwritten:\n",
        "    if results:\n",
    ),
    Mutant(
        "two-phase transactions time out (KIP-939)",
        "core/transactions/timeouts.py",
        "        and not is_two_phase(transaction)\n",
        "",
    ),
    Mutant(
        "an open transaction's id expires",
        "core/transactions/timeouts.py",
        "        if transaction.state in FINISHED\n        and transaction.last_update_ms <= before_ms",
        "        if transaction.last_update_ms <= before_ms",
    ),
    Mutant(
        "a commit of nothing is a success",
        "core/transactions/end_txn.py",
        "    if commit and transaction.state is not S.ONGOING:\n"
        "        return E.INVALID_TXN_STATE  # there is nothing to commit\n",
        "",
    ),
    Mutant(
        "a repeated end is answered whatever its outcome was",
        "core/transactions/end_txn.py",
        "        return _repeated(transaction.state, commit)\n    refusal = _mismatch",
        "        return E.NONE\n    refusal = _mismatch",
    ),
    Mutant(
        "verification agrees while the end is under way",
        "core/transactions/add_partitions.py",
        "        if refusal is E.NONE and transaction.state in PREPARED:\n            refusal = E.CONCURRENT_TRANSACTIONS\n",
        "",
    ),
    Mutant(
        "an implicit add at an epoch that an old client ended",
        "core/transactions/add_partitions.py",
        "        if transaction.client_transaction_version == ENDED_BY_OLD_PROTOCOL:",
        "        if False:",
    ),
    Mutant(
        "an added partition is answered without a record",
        "core/transactions/add_partitions.py",
        "if is_open and waiting is None and partitions <= transaction.partitions:",
        "if is_open and waiting is None:",
    ),
    Mutant(
        "a keep-init takes a shorter timeout",
        "core/transactions/init_producer_id.py",
        "timeout_ms=max(transaction.timeout_ms, _timeout_ms(request)),",
        "timeout_ms=_timeout_ms(request),",
    ),
    # the partition's leader
    Mutant(
        "the own epoch is fenced",
        "core/leader/produce.py",
        "if producer_epoch >= state.producer_epoch:",
        "if producer_epoch > state.producer_epoch:",
    ),
    Mutant(
        "batches of the next transaction are taken for duplicates",
        "core/leader/produce.py",
        "if batch.is_transactional and supports_implicit_add and state.is_of_ended_transaction(stored):",
        "if False:",
    ),
    Mutant(
        "a guard holds beyond the marker (KIP-890, race)",
        "core/leader/produce.py",
        "        if verifications.entry(guard) is None:\n            return _void_guard(producer)\n",
        "",
    ),
    Mutant(
        "four batches are remembered, five may be in flight",
        "core/leader/producer_state.py",
        "WINDOW_BATCH_COUNT = 5",
        "WINDOW_BATCH_COUNT = 4",
    ),
    Mutant(
        "a duplicate is told by its last sequence only",
        "core/leader/producer_state.py",
        "if stored.last_sequence == last and stored.first_sequence == first), None",
        "if stored.last_sequence == last), None",
    ),
    Mutant(
        "a transaction of the new protocol may begin in the middle",
        "core/leader/producer_state.py",
        "if supports_implicit_add and batch.is_transactional and first != 0:",
        "if False:",
    ),
    Mutant(
        "the last stable offset moves before the marker is synced",
        "core/leader/open_transactions.py",
        "while self._completed and self._completed[0][0] < high_watermark:",
        "while self._completed:",
    ),
    Mutant(
        "the transaction index forgets older open transactions",
        "core/leader/open_transactions.py",
        "return next(iter(self._open), marker_offset + 1)",
        "return marker_offset + 1",
    ),
    Mutant(
        "an older coordinator may still write markers",
        "core/leader/markers.py",
        "if state is not None and coordinator_epoch < state.coordinator_epoch and not is_operators:",
        "if False:",
    ),
    Mutant(
        "a late marker ends the next transaction (KAFKA-19446)",
        "core/leader/markers.py",
        "is_retry = not state.has_open_transaction or producer_epoch == PRODUCER_EPOCH_MAX",
        "is_retry = True",
    ),
    Mutant(
        "an aborted producer stays aborted behind its marker",
        "core/consumer/aborted_filter.py",
        "self._aborted_producer_ids.discard(batch.producer_id)",
        "pass",
    ),
    # groups
    Mutant(
        "a marker decides about offsets of a newer epoch",
        "core/groups/pending_offsets.py",
        "if each.record.producer_epoch <= producer_epoch]",
        "if each.record.producer_epoch >= 0]",
    ),
    # the log and the shell around it
    Mutant(
        "a reader is told of too few aborted transactions",
        "log/transaction_index.py",
        "        if entry.last_stable_offset >= upper_bound_offset:\n",
        "        if entry.last_offset >= fetch_offset:\n",
    ),
    Mutant(
        "an index lookup lands one entry too far",
        "log/offset_index.py",
        "found = bisect_right(self.offsets, min(offset - self.base_offset, 2**31 - 1))",
        "found = min(len(self), 1 + bisect_right(self.offsets, min(offset - self.base_offset, 2**31 - 1)))",
    ),
    Mutant(
        "acknowledged before the sync",
        "broker/partitions/flusher.py",
        '    if policy == "fsync":\n',
        "    if False:\n",
    ),
    Mutant(
        "acknowledged before a thread has written it",
        "broker/partitions/flusher.py",
        "        if not partition.has_later_writes:\n",
        "        if True:\n",
    ),
    Mutant(
        "who opens a file does not find what is to be written later",
        "log/open_files.py",
        "            self.settle(path)\n        return self.as_it_is(path, create=create)\n",
        "            pass\n        return self.as_it_is(path, create=create)\n",
    ),
    Mutant(
        "a failed write leaves what it did not write in the log",
        "log/partition_log.py",
        "        self._active.forget_later()\n",
        "",
    ),
    Mutant(
        "what arrived during the sync counts as synced",
        "broker/partitions/flusher.py",
        "                each.synced(end_offset)\n",
        "                each.synced(each.log_end_offset)\n",
    ),
    # clients, pipelines, dual writes
    Mutant(
        "sequences wrap to 1",
        "wire/record_batch.py",
        "return (sequence + increment) % _SEQUENCE_MODULUS",
        "return (sequence + increment) % _SEQUENCE_MODULUS or 1",
    ),
    Mutant(
        "the last decision of a batch stands, not the first",
        "core/two_phase/exactly_once_sink.py",
        "        if kind == DECISION and before.decision is None:",
        "        if kind == DECISION:",
    ),
    Mutant(
        "a forgotten batch may be decided again",
        "core/two_phase/exactly_once_sink.py",
        "    if known.is_superseded or run_start",
        "    if run_start",
    ),
    Mutant(
        "a version is decided for all destinations",
        "core/two_phase/exactly_once_sink.py",
        'parts = [application_id, topic or "",',
        'parts = [application_id, "",',
    ),
    Mutant(
        "a process uses an id again in the same batch",
        "core/two_phase/transactional_ids.py",
        "if last < batch_id",
        "if last <= batch_id",
    ),
    Mutant(
        "a prepared task is begun without keepPreparedTxn",
        "spark/backend.py",
        "keep_prepared_txn=backend.kind == PREPARED",
        "keep_prepared_txn=False",
    ),
    Mutant(
        "transaction order forgets what was handed out of a transaction",
        "core/consumer/transaction_order.py",
        "self._resume.from_offset if is_begun else 0)",
        "0)",
    ),
)
