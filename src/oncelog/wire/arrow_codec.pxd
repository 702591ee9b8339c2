# C types for arrow_codec.py, used only when Cython compiles it.
import cython
from libc.string cimport memcpy

from oncelog.wire.murmur2 cimport hash_of
from oncelog.wire.varint cimport add_delta, delta_between, put_varint, read_int32, read_size, read_varint, varint_bytes

cdef long long INT32_MAX
cdef long long INT64_MAX
cdef long long MILLISECONDS_MAX
cdef Py_ssize_t RECORD_BYTES_MIN

cdef long long to_microseconds(long long timestamp_ms) noexcept
cdef void copy_bytes(
    unsigned char[::1] target, Py_ssize_t at, const unsigned char* source, Py_ssize_t start, Py_ssize_t size
) noexcept
cdef void set_bit(unsigned char* bits, Py_ssize_t index) noexcept
cdef bytearray grown_bits(bytearray bits, Py_ssize_t count)
@cython.locals(first=Py_ssize_t, kept=int)
cdef void clear_bits(bytearray bits, Py_ssize_t count) except *


cdef class ColumnWriter:
    cdef object allocate
    cdef readonly Py_ssize_t row_capacity, row_count, header_count, column_bytes_max
    cdef readonly Py_ssize_t key_bytes, value_bytes, header_key_bytes, header_value_bytes
    cdef readonly bytearray key_valid, value_valid, headers_valid, header_value_valid
    cdef readonly unsigned char[::1] keys, values, header_keys, header_values
    cdef readonly int[::1] key_offsets, value_offsets, header_offsets, header_key_offsets, header_value_offsets
    cdef readonly long long[::1] offsets, timestamps

    cdef int[::1] int32_buffer(self, Py_ssize_t count)
    cdef int[::1] grown_int32(self, int[::1] numbers, Py_ssize_t count)
    cdef long long[::1] grown_int64(self, long long[::1] numbers, Py_ssize_t count)

    @cython.locals(size_bytes=Py_ssize_t)
    cdef unsigned char[::1] grown(self, unsigned char[::1] buffer, Py_ssize_t used_bytes, Py_ssize_t more_bytes)

    @cython.locals(rows=Py_ssize_t)
    cdef void reserve(self, Py_ssize_t row_count) except *

    @cython.locals(
        header_count=Py_ssize_t, key_bytes=Py_ssize_t, value_bytes=Py_ssize_t, header_key_bytes=Py_ssize_t,
        header_value_bytes=Py_ssize_t,
    )
    cpdef Py_ssize_t append(
        self, bytes section, long long record_count, long long base_offset, long long base_timestamp,
        append_timestamp, long long start_offset, long long end_offset,
    ) except -1

    @cython.locals(
        end=Py_ssize_t, pos=Py_ssize_t, record_end=Py_ssize_t, row=Py_ssize_t, first_row=Py_ssize_t,
        data="const unsigned char*", size="long long", delta="long long", timestamp="long long", offset="long long",
        fixed=bint, fixed_timestamp="long long",
    )
    cdef Py_ssize_t append_records(
        self, bytes section, long long record_count, long long base_offset, long long base_timestamp,
        append_timestamp, long long start_offset, long long end_offset,
    ) except -1

    @cython.locals(size="long long")
    cdef void append_fields(
        self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t record_end, Py_ssize_t row
    ) except *

    @cython.locals(size="long long", count="long long")
    cdef void append_headers(
        self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t record_end, Py_ssize_t row
    ) except *

    @cython.locals(size=Py_ssize_t)
    cdef void append_header_key(self, bytes key) except *

    @cython.locals(headers=Py_ssize_t)
    cdef void reserve_headers(self, Py_ssize_t count) except *


cdef class BytesColumn:
    cdef const int[::1] offsets
    cdef const unsigned char[::1] data
    cdef const unsigned char[::1] valid
    cdef Py_ssize_t start
    cdef bint has_valid

    @cython.locals(index=Py_ssize_t)
    cdef Py_ssize_t size_of(self, Py_ssize_t row) noexcept

    @cython.locals(at=Py_ssize_t)
    cdef Py_ssize_t put(self, Py_ssize_t row, Py_ssize_t size, unsigned char* out, Py_ssize_t pos) noexcept


cdef class RowEncoder:
    cdef BytesColumn values, keys, header_lists, header_keys, header_values
    cdef bint has_keys, has_timestamps, has_rows, has_headers
    cdef long long timestamp_ms
    cdef const long long[::1] timestamps
    cdef const long long[::1] rows

    @cython.locals(
        pos=Py_ssize_t, base="long long", largest="long long", capacity=Py_ssize_t, index=Py_ssize_t, row=Py_ssize_t,
        timestamp="long long", delta="long long", key_bytes=Py_ssize_t, value_bytes=Py_ssize_t, size=Py_ssize_t,
        whole=Py_ssize_t,
    )
    cpdef tuple encode(
        self, bytearray out, Py_ssize_t first, Py_ssize_t end, Py_ssize_t size_bytes_max, Py_ssize_t count_max
    )

    @cython.locals(
        count=Py_ssize_t, size=Py_ssize_t, at=Py_ssize_t, header=Py_ssize_t, key_bytes=Py_ssize_t,
        value_bytes=Py_ssize_t,
    )
    cdef Py_ssize_t headers_bytes(self, Py_ssize_t row) except -1

    @cython.locals(count=Py_ssize_t, at=Py_ssize_t, header=Py_ssize_t)
    cdef Py_ssize_t put_headers(self, Py_ssize_t row, unsigned char* out, Py_ssize_t pos) noexcept


@cython.locals(at=Py_ssize_t)
cdef unsigned long long key_hash(BytesColumn column, Py_ssize_t row, Py_ssize_t size) noexcept

@cython.locals(row=Py_ssize_t, size=Py_ssize_t)
cpdef void assign_partitions(int[::1] out, BytesColumn keys, unsigned long long partition_count, int keyless_partition) except *
