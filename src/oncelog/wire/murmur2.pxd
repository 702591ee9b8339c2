# C types for murmur2.py, used only when Cython compiles it.
import cython

cdef unsigned long long HASH_SEED
cdef unsigned long long HASH_FACTOR
cdef unsigned long long UINT32_MAX

cpdef unsigned long long murmur2(bytes data) except? 0

@cython.locals(
    whole=Py_ssize_t, pos=Py_ssize_t, index=Py_ssize_t, value="unsigned long long", word="unsigned long long",
)
cdef unsigned long long hash_of(const unsigned char* data, Py_ssize_t start, Py_ssize_t size) noexcept
