# C types for delivery.py, used only when Cython compiles it.
import cython

cdef class Delivery:
    cdef object _batch
    cdef Py_ssize_t _index
    cdef long long _timestamp_ms

cdef class Waiting:
    cdef object _ended
    cdef Py_ssize_t _index

@cython.locals(delivery=Delivery)
cdef Delivery delivery_of(batch, Py_ssize_t index, long long timestamp_ms)
