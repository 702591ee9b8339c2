# C types for appending.py, used only when Cython compiles it.
import cython

from oncelog.client.delivery cimport Delivery, delivery_of
from oncelog.core.producer.record_buffer cimport RecordBuffer
from oncelog.wire.murmur2 cimport murmur2
from oncelog.wire.record_codec cimport encode_headers

cdef extern from "pythread.h":
    unsigned long PyThread_get_thread_ident()

cdef object IN_TRANSACTION
cdef object ABORTABLE_ERROR
cdef object FATAL_ERROR
cdef object TIMESTAMP_MAX_MS
cdef Py_ssize_t RECORD_BYTES
cdef bytes NO_HEADERS
cdef Py_ssize_t KEYLESS

cdef class Lane:
    cdef public str topic
    cdef public object topics
    cdef public object view
    cdef public Py_ssize_t partition_count
    cdef public list partitions
    cdef public Py_ssize_t keyless_partition
    cdef public Py_ssize_t keyless_left_bytes

cdef class Appender:
    cdef readonly object view
    cdef readonly object manager
    cdef readonly object accumulator
    cdef readonly object sticky
    cdef dict open
    cdef object choose_partition
    cdef bint is_javas
    cdef Py_ssize_t batch_size_bytes
    cdef Py_ssize_t record_size_bytes_max
    cdef object now_ms
    cdef bint is_real_time
    cdef object loop_now_ms
    cdef object wake
    cdef bint is_transactional
    cdef readonly object home
    cdef object home_is_running
    cdef unsigned long home_thread
    cdef readonly dict lanes
    cdef public bint owes_turn

    cpdef append(self, topic, value, key, headers, partition, timestamp_ms)

    cpdef append_beside(self, topic, value, key, headers, partition, timestamp_ms)

    @cython.locals(
        lane=Lane, size_bytes=Py_ssize_t, number=Py_ssize_t, batch=RecordBuffer, index=Py_ssize_t, section=bytes,
        is_keyless=bint, moment_ms="long long",
    )
    cdef taken(self, topic, value, key, headers, partition, timestamp_ms, bint is_beside)

    cdef append_slowly(self, where, timestamp_ms, key, value, pairs, Py_ssize_t size_bytes)

    @cython.locals(now_ns="long long")
    cdef long long moment_ms(self) except? -1

    cpdef put(self, where, record, Py_ssize_t size_bytes)

    cdef bint takes_records(self) except -1

    cdef bint is_home(self) except -1

    cdef bint is_home_thread(self) noexcept

    @cython.locals(known=Lane, lane=Lane)
    cdef Lane new_lane(self, topic)

    @cython.locals(count=Py_ssize_t)
    cdef Py_ssize_t partition_of(self, Lane lane, key, partition) except -3

    cdef Py_ssize_t keyless_partition(self, Lane lane, Py_ssize_t size_bytes, bint is_beside) except -3

cdef class SendsNow:
    cdef Appender _appends
    cdef object _sends_else

cdef object check_is_sender(object sender)

cdef bint is_content(content) noexcept

cdef Py_ssize_t size_of(bytes content) noexcept

cdef checked_pairs(headers)
