# C types for record_codec.py, used only when Cython compiles it.
import cython

from oncelog.wire.varint cimport add_delta, delta_between, read_int32, read_size, read_varint, varint_bytes, write_varint

cdef long long INT32_MAX
cdef Py_ssize_t RECORD_BYTES_MIN
cdef long long NO_TIMESTAMP

@cython.locals(
    data="const unsigned char*", end=Py_ssize_t, pos=Py_ssize_t, record_end=Py_ssize_t, size="long long",
    delta="long long", timestamp="long long", offset="long long", records=list,
)
cpdef list parse_records(
    bytes section, long long record_count, long long base_offset, long long base_timestamp, append_timestamp, place=*
)

@cython.locals(count="long long", size="long long", headers=list)
cdef tuple parse_headers(const unsigned char* data, Py_ssize_t pos, Py_ssize_t record_end)

@cython.locals(
    data="const unsigned char*", end=Py_ssize_t, pos=Py_ssize_t, record_end=Py_ssize_t, index="long long",
    size="long long", delta="long long", timestamp="long long", largest="long long",
)
cpdef tuple check_records(
    bytes section, long long record_count, long long base_timestamp, bint needs_key,
    long long timestamp_min, long long timestamp_max,
)

@cython.locals(count="long long", size="long long")
cdef void check_headers(const unsigned char* data, Py_ssize_t pos, Py_ssize_t record_end, long long index) except *

@cython.locals(
    out=bytearray, index="long long", timestamp="long long", timestamp_delta="long long",
    key_bytes="Py_ssize_t", value_bytes="Py_ssize_t", size="Py_ssize_t",
)
cpdef bytearray encode_records(records, long long base_timestamp)

cdef bytearray encode_headers(headers)
