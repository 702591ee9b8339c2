# C types for record_buffer.py, used only when Cython compiles it.
import cython
from cpython.bytearray cimport PyByteArray_Resize
from libc.string cimport memcpy

from oncelog.wire.record_codec cimport encode_headers
from oncelog.wire.varint cimport delta_between, put_varint, varint_bytes

cdef Py_ssize_t LENGTH_BYTES_MAX
cdef Py_ssize_t FIRST_BYTES

cdef class RecordBuffer:
    cdef public bytearray content
    cdef public Py_ssize_t content_bytes
    cdef public Py_ssize_t record_count
    cdef public Py_ssize_t size_bytes
    cdef public Py_ssize_t limit_bytes
    cdef public long long base_timestamp_ms
    cdef public long long max_timestamp_ms

    @cython.locals(section=bytes)
    cpdef Py_ssize_t add(
        self, long long timestamp_ms, bytes key, bytes value, headers, Py_ssize_t size_bytes
    ) except -1

    @cython.locals(
        index=Py_ssize_t, delta="long long", key_bytes=Py_ssize_t, value_bytes=Py_ssize_t,
        size=Py_ssize_t, pos=Py_ssize_t, out="unsigned char*",
    )
    cpdef Py_ssize_t put(
        self, long long timestamp_ms, bytes key, bytes value, bytes header_section, Py_ssize_t size_bytes
    ) except -1

    @cython.locals(left=Py_ssize_t)
    cpdef Py_ssize_t give_back(self) except? -1

    @cython.locals(size_bytes=Py_ssize_t)
    cpdef make_room(self, Py_ssize_t needed_bytes)

@cython.locals(source="const unsigned char*")
cdef Py_ssize_t put_bytes(unsigned char* out, Py_ssize_t pos, bytes data, Py_ssize_t size)
