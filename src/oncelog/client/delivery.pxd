# C types for delivery.py, used only when Cython compiles it.
import cython

cdef class Delivery:
    cdef object _batch
    cdef Py_ssize_t _index
    cdef long long _timestamp_ms

@cython.locals(delivery=Delivery)
cdef Delivery delivery_of(batch, Py_ssize_t index, long long timestamp_ms)
