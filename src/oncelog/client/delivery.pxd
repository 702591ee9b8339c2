# C types for delivery.py, used only when Cython compiles it.
import cython

cdef class Delivery:
    cdef object _batch
    cdef Py_ssize_t _index
    cdef object _timestamp_ms
