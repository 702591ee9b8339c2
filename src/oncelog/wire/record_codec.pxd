# C types for record_codec.py, used only when Cython compiles it.
import cython
from cpython.buffer cimport PyBuffer_IsContiguous

from oncelog.wire.varint cimport add_delta, delta_between, read_int32, read_size, read_varint, varint_bytes, write_varint

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        pass

    object PyType_GenericAlloc(PyTypeObject* kind, Py_ssize_t count)
    void PyObject_GC_UnTrack(object made)
    void PyTuple_SET_ITEM(object made, Py_ssize_t index, object item)
    void Py_INCREF(object item)
    bint PyMemoryView_Check(object item)
    Py_buffer* PyMemoryView_GET_BUFFER(object view)

cdef extern from *:
    """
    #if PY_VERSION_HEX >= 0x030e0000
    #define forget_tuple_hash(made) (((PyTupleObject *)(made))->ob_hash = -1)  /* a tuple keeps its hash: none yet */
    #else
    #define forget_tuple_hash(made)
    #endif
    """
    void forget_tuple_hash(object made)


cdef inline const unsigned char* bytes_of(object section) except NULL:
    # In place: the caller holds the section, and nothing runs before the last byte of it is looked at.
    if PyMemoryView_Check(section):
        if not PyBuffer_IsContiguous(PyMemoryView_GET_BUFFER(section), b"C"):
            raise BufferError("a section is contiguous")
        return <const unsigned char*>PyMemoryView_GET_BUFFER(section).buf
    if not isinstance(section, bytes):
        raise TypeError(f"a section is bytes or a memoryview, not {type(section).__name__}")
    return <const unsigned char*><bytes>section


cdef inline void put_item(object made, Py_ssize_t index, object item):
    Py_INCREF(item)
    PyTuple_SET_ITEM(made, index, item)


cdef inline object new_placed(
    object kind, object topic, object partition, object offset, object timestamp, object timestamp_type,
    object key, object value, object headers,
):
    # As tuple.__new__(kind, (...)), without the tuple in between: that is a third of a record's cost.
    cdef object made = PyType_GenericAlloc(<PyTypeObject*>kind, 8)
    forget_tuple_hash(made)
    put_item(made, 0, topic)
    put_item(made, 1, partition)
    put_item(made, 2, offset)
    put_item(made, 3, timestamp)
    put_item(made, 4, timestamp_type)
    put_item(made, 5, key)
    put_item(made, 6, value)
    put_item(made, 7, headers)
    # Texts, numbers and bytes are in no circle of references: the collector need not visit millions of them.
    PyObject_GC_UnTrack(made)
    return made


cdef long long INT32_MAX
cdef Py_ssize_t RECORD_BYTES_MIN
cdef long long NO_TIMESTAMP
cdef Py_ssize_t PLACED_FIELDS

@cython.locals(
    data="const unsigned char*", end=Py_ssize_t, pos=Py_ssize_t, record_end=Py_ssize_t, size="long long",
    delta="long long", timestamp="long long", offset="long long", records=list,
)
cpdef list parse_records(
    bytes section, long long record_count, long long base_offset, long long base_timestamp, append_timestamp, place=*
)

@cython.locals(count="long long", size="long long", headers=list)
cdef tuple parse_headers(const unsigned char* data, Py_ssize_t pos, Py_ssize_t record_end)

@cython.locals(raw="long long", shift=int, byte="long long")
cdef (long long, Py_ssize_t) short_varint(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept

@cython.locals(
    data="const unsigned char*", end=Py_ssize_t, pos=Py_ssize_t, after=Py_ssize_t, record_end=Py_ssize_t, index="long long",
    size="long long", delta="long long", timestamp="long long", largest="long long",
)
cpdef tuple check_records(
    section, long long record_count, long long base_timestamp, bint needs_key,
    long long timestamp_min, long long timestamp_max,
)

@cython.locals(count="long long", size="long long")
cdef int check_headers(const unsigned char* data, Py_ssize_t pos, Py_ssize_t record_end, long long index) except -1

@cython.locals(
    out=bytearray, index="long long", timestamp="long long", timestamp_delta="long long",
    key_bytes="Py_ssize_t", value_bytes="Py_ssize_t", size="Py_ssize_t",
)
cpdef bytearray encode_records(records, long long base_timestamp)

cdef bytearray encode_headers(headers)
