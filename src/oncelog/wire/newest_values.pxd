# C types for newest_values.py, used only when Cython compiles it.
import cython

from oncelog.wire.varint cimport read_int32, read_size, read_varint


cdef inline long long int64_at(const unsigned char* data, Py_ssize_t pos) noexcept:
    return <long long>((<unsigned long long>int32_at(data, pos) << 32) | <unsigned int>int32_at(data, pos + 4))


cdef inline int int32_at(const unsigned char* data, Py_ssize_t pos) noexcept:
    return <int>(
        (<unsigned int>data[pos] << 24) | (<unsigned int>data[pos + 1] << 16)
        | (<unsigned int>data[pos + 2] << 8) | data[pos + 3]
    )


cdef inline int int16_at(const unsigned char* data, Py_ssize_t pos) noexcept:
    return (data[pos] << 8) | data[pos + 1]


cdef long long INT32_MAX
cdef long long UINT32_MAX
cdef long long OFFSET_MAX
cdef Py_ssize_t HEADER_BYTES
cdef Py_ssize_t LOG_OVERHEAD_BYTES
cdef Py_ssize_t COVERED_FROM
cdef int MAGIC
cdef int NOT_PLAIN
cdef Py_ssize_t RECORD_BYTES_MIN

@cython.locals(
    head="const unsigned char*", end=Py_ssize_t, base_offset="long long", last_offset_delta="long long", batch_end=Py_ssize_t,
)
cpdef tuple take_newest(bytes data, Py_ssize_t pos, long long due_offset, dict newest)

@cython.locals(
    section="const unsigned char*", size="long long", delta="long long", record_end=Py_ssize_t, key=bytes,
)
cdef bint take_records(bytes data, Py_ssize_t pos, Py_ssize_t end, long long count, dict newest) except -1
