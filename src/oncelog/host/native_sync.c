/* Threads that wait for the disk without the interpreter's lock.

   A call is a few file descriptors. Each is given to fdatasync once, or what stands beside it to pwrite, by whichever thread is
   free; when the last of a call is through, the call goes to the list of the ended and the event descriptor becomes readable: the
   loop is woken once, and no Python runs in any of these threads. A descriptor must stay open until its call has ended, and what
   is written must not change.

   Built where there is a compiler on Linux; host/syncer.py does without. */

#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

typedef struct {
    int descriptor;
    long long position;
    Py_buffer data; /* .obj is NULL where nothing is to be written: then it is a sync */
} Item;

typedef struct Call {
    struct Call *next;
    unsigned long long token;
    Py_ssize_t count;     /* of items */
    Py_ssize_t taken;     /* by threads */
    Py_ssize_t left;      /* not yet through */
    Py_ssize_t failed;    /* which one failed first, when error is set */
    int error;            /* errno */
    int has_writes;
    Item items[];
} Call;

typedef struct {
    PyObject_HEAD
    pthread_mutex_t lock; /* held for a few instructions, never while waiting for the interpreter or the disk */
    pthread_cond_t wanted;
    Call *first, *last;   /* with items that nobody has taken */
    Call *ended, *ended_last;
    unsigned long long next_token;
    pthread_t *threads;
    Py_ssize_t thread_count, threads_max, idle_count;
    int is_closing, event_descriptor;
} Pool;

static int sync_item(Item *item)
{
    while (fdatasync(item->descriptor) < 0)
        if (errno != EINTR) /* interrupted before it began; every other failure is final: the pages may be lost */
            return errno;
    return 0;
}

static int write_item(Item *item)
{
    const char *rest = item->data.buf;
    size_t left = (size_t)item->data.len;
    off_t position = (off_t)item->position;
    while (left > 0) { /* a disk that is nearly full writes less than was asked for, and refuses the next time */
        ssize_t written = pwrite(item->descriptor, rest, left, position);
        if (written < 0 && errno != EINTR)
            return errno;
        if (written == 0)
            return EIO;
        if (written > 0) {
            rest += written;
            position += written;
            left -= (size_t)written;
        }
    }
    return 0;
}

static void free_call(Call *call) /* with the interpreter's lock */
{
    for (Py_ssize_t i = 0; i < call->count; i++)
        if (call->items[i].data.obj != NULL)
            PyBuffer_Release(&call->items[i].data);
    free(call);
}

static void take_and_do(Pool *pool) /* with the lock */
{
    Call *call = pool->first;
    Py_ssize_t index = call->taken++;
    if (call->taken == call->count) {
        pool->first = call->next;
        if (pool->first == NULL)
            pool->last = NULL;
    }
    if (pool->first != NULL && pool->idle_count > 0)
        pthread_cond_signal(&pool->wanted); /* threads wake one another: the loop wakes only the first */
    Py_ssize_t count = call->count;
    pthread_mutex_unlock(&pool->lock);
    /* The data of all files on its way before the first is waited for: fewer commits of the file system's journal (a
       quarter less time and work for five files). It promises nothing; what goes wrong is fdatasync's to say. */
    for (Py_ssize_t i = 0; index == 0 && count > 1 && !call->has_writes && i < count; i++)
        sync_file_range(call->items[i].descriptor, 0, 0, SYNC_FILE_RANGE_WRITE);
    Item *item = &call->items[index];
    int error = item->data.obj == NULL ? sync_item(item) : write_item(item);
    pthread_mutex_lock(&pool->lock);
    if (error && !call->error) {
        call->error = error;
        call->failed = index;
    }
    if (--call->left)
        return;
    call->next = NULL;
    int is_first = pool->ended == NULL;
    if (is_first)
        pool->ended = call;
    else
        pool->ended_last->next = call;
    pool->ended_last = call;
    if (is_first) {
        uint64_t one = 1;
        while (write(pool->event_descriptor, &one, sizeof one) < 0 && errno == EINTR)
            ;
    }
}

static void *work(void *argument)
{
    Pool *pool = argument;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        if (pool->first != NULL) {
            take_and_do(pool);
        } else if (pool->is_closing) {
            break;
        } else {
            pool->idle_count++;
            pthread_cond_wait(&pool->wanted, &pool->lock);
            pool->idle_count--;
        }
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static int start_thread(Pool *pool)
{
    sigset_t all, before;
    sigfillset(&all); /* signals are the interpreter's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&pool->threads[pool->thread_count], NULL, work, pool);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error)
        pool->thread_count++;
    return error;
}

static int fill_item(Item *item, PyObject *wanted) /* a descriptor, or (descriptor, position, data) */
{
    long descriptor;
    if (PyTuple_Check(wanted)) {
        if (!PyArg_ParseTuple(wanted, "lLy*", &descriptor, &item->position, &item->data))
            return -1;
    } else {
        descriptor = PyLong_AsLong(wanted);
        if (descriptor == -1 && PyErr_Occurred())
            return -1;
    }
    item->descriptor = (int)descriptor;
    return 0;
}

static PyObject *pool_submit(Pool *pool, PyObject *argument)
{
    PyObject *wanted = PySequence_Fast(argument, "descriptors must be a sequence");
    if (wanted == NULL)
        return NULL;
    Py_ssize_t count = PySequence_Fast_GET_SIZE(wanted);
    Call *call = count > 0 ? calloc(1, sizeof(Call) + (size_t)count * sizeof(Item)) : NULL;
    if (call == NULL) {
        Py_DECREF(wanted);
        if (count == 0)
            PyErr_SetString(PyExc_ValueError, "no descriptors");
        else
            PyErr_NoMemory();
        return NULL;
    }
    call->count = call->left = count;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (fill_item(&call->items[i], PySequence_Fast_GET_ITEM(wanted, i)) < 0) {
            Py_DECREF(wanted);
            free_call(call);
            return NULL;
        }
        call->has_writes |= call->items[i].data.obj != NULL;
    }
    Py_DECREF(wanted);
    pool->is_closing = 0;
    while (pool->thread_count < pool->threads_max && pool->thread_count < count) {
        int error = start_thread(pool);
        if (error && pool->thread_count == 0) {
            free_call(call);
            errno = error;
            return PyErr_SetFromErrno(PyExc_OSError);
        }
        if (error)
            break;
    }
    unsigned long long token = call->token = pool->next_token++;
    pthread_mutex_lock(&pool->lock);
    if (pool->first == NULL)
        pool->first = call;
    else
        pool->last->next = call;
    pool->last = call;
    int must_wake = pool->idle_count > 0;
    pthread_mutex_unlock(&pool->lock);
    if (must_wake)
        pthread_cond_signal(&pool->wanted);
    return PyLong_FromUnsignedLongLong(token);
}

static PyObject *pool_ended(Pool *pool, PyObject *Py_UNUSED(none))
{
    uint64_t counted;
    while (read(pool->event_descriptor, &counted, sizeof counted) < 0 && errno == EINTR)
        ;
    pthread_mutex_lock(&pool->lock);
    Call *call = pool->ended;
    pool->ended = pool->ended_last = NULL;
    pthread_mutex_unlock(&pool->lock);
    PyObject *found = PyList_New(0);
    while (call != NULL) {
        Call *next = call->next;
        if (found != NULL) {
            PyObject *row = Py_BuildValue("Kin", call->token, call->error, call->failed);
            if (row == NULL || PyList_Append(found, row) < 0)
                Py_CLEAR(found);
            Py_XDECREF(row);
        }
        free_call(call);
        call = next;
    }
    return found;
}

static void join_all(Pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->is_closing = 1;
    pthread_cond_broadcast(&pool->wanted);
    pthread_mutex_unlock(&pool->lock);
    for (Py_ssize_t i = 0; i < pool->thread_count; i++)
        pthread_join(pool->threads[i], NULL);
    pool->thread_count = 0;
}

static PyObject *pool_close(Pool *pool, PyObject *Py_UNUSED(none))
{
    Py_BEGIN_ALLOW_THREADS
    join_all(pool);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *pool_fileno(Pool *pool, PyObject *Py_UNUSED(none))
{
    return PyLong_FromLong(pool->event_descriptor);
}

static PyObject *pool_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"threads_max", NULL};
    Py_ssize_t threads_max;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "n", names, &threads_max))
        return NULL;
    if (threads_max < 1 || threads_max > 1024) {
        PyErr_SetString(PyExc_ValueError, "threads_max must be between 1 and 1024");
        return NULL;
    }
    Pool *pool = (Pool *)type->tp_alloc(type, 0);
    if (pool == NULL)
        return NULL;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wanted, NULL);
    pool->threads_max = threads_max;
    pool->threads = calloc((size_t)threads_max, sizeof(pthread_t));
    pool->event_descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (pool->threads == NULL || pool->event_descriptor < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        Py_DECREF(pool);
        return NULL;
    }
    return (PyObject *)pool;
}

static void pool_dealloc(Pool *pool)
{
    PyTypeObject *type = Py_TYPE(pool);
    Py_BEGIN_ALLOW_THREADS
    join_all(pool);
    Py_END_ALLOW_THREADS
    for (Call *call = pool->ended, *next; call != NULL; call = next) {
        next = call->next;
        free_call(call);
    }
    if (pool->event_descriptor >= 0)
        close(pool->event_descriptor);
    free(pool->threads);
    pthread_cond_destroy(&pool->wanted);
    pthread_mutex_destroy(&pool->lock);
    type->tp_free(pool);
    Py_DECREF(type);
}

static PyMethodDef pool_methods[] = {
    {"submit", (PyCFunction)pool_submit, METH_O,
     "submit(items) -> token. Begin to sync descriptors, and to write (descriptor, position, data), side by side; each must stay\n"
     "open, and no data change, until the token is in ended()."},
    {"ended", (PyCFunction)pool_ended, METH_NOARGS,
     "ended() -> [(token, errno or 0, index of the item that failed first)]: the calls that ended since the last time."},
    {"fileno", (PyCFunction)pool_fileno, METH_NOARGS, "The descriptor that is readable while ended() has something."},
    {"close", (PyCFunction)pool_close, METH_NOARGS, "Finish what was submitted and end the threads."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot pool_slots[] = {
    {Py_tp_new, pool_new},
    {Py_tp_dealloc, pool_dealloc},
    {Py_tp_methods, pool_methods},
    {Py_tp_doc, "Pool(threads_max): threads that call fdatasync and pwrite. Used by one thread of Python only."},
    {0, NULL},
};

static PyType_Spec pool_spec = {
    .name = "oncelog.host.native_sync.Pool",
    .basicsize = sizeof(Pool),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = pool_slots,
};

static int fill_module(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&pool_spec);
    if (type == NULL)
        return -1;
    int failed = PyModule_AddObjectRef(module, "Pool", type);
    Py_DECREF(type);
    return failed;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, fill_module},
    {0, NULL},
};

static PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "oncelog.host.native_sync",
    .m_doc = "fdatasync and pwrite in threads of their own, without the interpreter's lock.",
    .m_size = 0,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit_native_sync(void)
{
    return PyModuleDef_Init(&module_definition);
}
