# C types for varint.py, used only when Cython compiles it.
import cython

cdef long long INT64_MAX
cdef long long INT32_MAX
cdef Py_ssize_t INT32_BYTES_MAX

@cython.locals(raw="unsigned long long", shift=int, byte="unsigned long long")
cpdef (long long, Py_ssize_t) read_varint(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) except *

@cython.locals(start=Py_ssize_t, value="long long")
cpdef (long long, Py_ssize_t) read_int32(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) except *

@cython.locals(size="long long")
cpdef (long long, Py_ssize_t) read_size(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) except *

@cython.locals(raw="unsigned long long")
cpdef void write_varint(bytearray out, long long value) except *

@cython.locals(raw="unsigned long long")
cpdef Py_ssize_t put_varint(unsigned char* out, Py_ssize_t pos, long long value) noexcept

@cython.locals(raw="unsigned long long", size=Py_ssize_t)
cpdef Py_ssize_t varint_bytes(long long value) noexcept

cpdef long long add_delta(long long start, long long delta) except? -1

cpdef long long delta_between(long long start, long long value) except? -1
