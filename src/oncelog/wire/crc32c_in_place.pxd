# C functions for crc32c_in_place.py, used only when Cython compiles it.
cdef extern from *:
    """
    #include <stdint.h>
    #ifndef _WIN32
    #include <dlfcn.h>
    #endif

    static uint32_t (*crc32c_extend_found)(uint32_t, const uint8_t *, size_t);

    static int find_function(const char *path)
    {
        uint32_t (*found)(uint32_t, const uint8_t *, size_t) = NULL;
    #ifndef _WIN32
        void *library = dlopen(path, RTLD_LAZY); /* loaded already: a reference, and what it depends on is searched too */
        if (library != NULL)
            *(void **)&found = dlsym(library, "crc32c_extend");
    #else
        (void)path;
    #endif
        if (found == NULL || found(0, (const uint8_t *)"123456789", 9) != 0xE3069283u)
            return 0;
        crc32c_extend_found = found;
        return 1;
    }

    static long long extend_where_it_lies(PyObject *data, unsigned int crc)
    {
        Py_buffer view;
        if (crc32c_extend_found == NULL) {
            PyErr_SetString(PyExc_NotImplementedError, "the function was not found; ask `find` first");
            return -1;
        }
        if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0)
            return -1;
        crc = crc32c_extend_found(crc, (const uint8_t *)view.buf, (size_t)view.len);
        PyBuffer_Release(&view);
        return crc;
    }
    """
    bint find_function(const char* path)
    long long extend_where_it_lies(object data, unsigned int crc) except -1
