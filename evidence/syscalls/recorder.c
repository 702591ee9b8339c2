/* Preloaded into a broker: writes down each system call that changes a file below one directory or sends to a client.

   One record is one write to a file opened with O_APPEND, so the kernel gives all threads' records one order. What takes
   effect while it runs is written down twice, before and after: a sync covers what was written before it began, and what
   follows a reply follows its beginning. What is not known here shows when the recorded world is compared with the disk.

   ONCELOG_SYSCALLS_TRACE   where to write
   ONCELOG_SYSCALLS_ROOT    the directory whose files are looked at, an absolute path
   <trace>.fail             a part of a path: the next sync of such a file fails with EIO, once
   <trace>.slow             a part of a path: as long as it is there, syncs of such files take long */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define DESCRIPTORS_MAX 65536
#define PARTS_MAX 1024
#define SYNC_NS 300000 /* a sync takes this long at least: who does not wait for it is seen on any disk */
#define SLOW_SYNC_NS 60000000

enum { NOTHING, FILE_OR_DIRECTORY, CONNECTION };
enum { BEGIN = 1, END = 2 };

struct header {
    uint32_t size, pid, tid, phase;
    char name[16];
    int64_t descriptor, descriptor2, offset, result;
    uint32_t path_size, path2_size, data_size, unused;
};

static unsigned char kinds[DESCRIPTORS_MAX];
static int trace = -1;
static char root[4096], trigger[4096], slow[4096];
static size_t root_size;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("ONCELOG_SYSCALLS_TRACE"), *directory = getenv("ONCELOG_SYSCALLS_ROOT");
    if (path == NULL || directory == NULL)
        return;
    snprintf(root, sizeof root, "%s", directory);
    snprintf(trigger, sizeof trigger, "%s.fail", path);
    snprintf(slow, sizeof slow, "%s.slow", path);
    root_size = strlen(root);
    int opened = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    trace = syscall(SYS_fcntl, opened, F_DUPFD_CLOEXEC, 1000); /* out of the way of who counts descriptors */
    syscall(SYS_close, opened);
}

static int kind_of(int descriptor)
{
    return descriptor >= 0 && descriptor < DESCRIPTORS_MAX ? kinds[descriptor] : NOTHING;
}

static void is_now(int descriptor, int kind)
{
    if (descriptor >= 0 && descriptor < DESCRIPTORS_MAX)
        kinds[descriptor] = kind;
}

static int is_seen(int directory, const char *path)
{
    if (trace < 0 || path == NULL)
        return 0;
    if (path[0] == '/')
        return strncmp(path, root, root_size) == 0 && (path[root_size] == '/' || path[root_size] == 0);
    return directory != AT_FDCWD && kind_of(directory) == FILE_OR_DIRECTORY;
}

static void note(int phase, const char *name, int64_t descriptor, const char *path, int64_t descriptor2, const char *path2,
                 int64_t offset, int64_t result, const struct iovec *data, int count, size_t limit)
{
    if (trace < 0)
        return;
    int before = errno;
    struct iovec parts[PARTS_MAX + 3];
    struct header header = {.pid = getpid(), .tid = syscall(SYS_gettid), .phase = phase, .descriptor = descriptor,
                            .descriptor2 = descriptor2, .offset = offset, .result = result};
    snprintf(header.name, sizeof header.name, "%s", name);
    header.path_size = path ? strlen(path) : 0;
    header.path2_size = path2 ? strlen(path2) : 0;
    int used = 3;
    for (int i = 0; i < count && limit > 0; i++, used++) {
        if (i == PARTS_MAX)
            abort();
        parts[used] = data[i];
        if (parts[used].iov_len > limit)
            parts[used].iov_len = limit;
        limit -= parts[used].iov_len;
        header.data_size += parts[used].iov_len;
    }
    header.size = sizeof header + header.path_size + header.path2_size + header.data_size;
    parts[0] = (struct iovec){&header, sizeof header};
    parts[1] = (struct iovec){(void *)path, header.path_size};
    parts[2] = (struct iovec){(void *)path2, header.path2_size};
    if (syscall(SYS_writev, trace, parts, used) != header.size)
        abort(); /* a record that is missing would be a sync or a write that nobody sees */
    errno = before;
}

static int64_t result_of(int64_t result)
{
    return result < 0 ? -errno : result;
}

static void note_path(int phase, const char *name, int directory, const char *path, int64_t flags, int64_t result)
{
    note(phase, name, directory, path, 0, NULL, flags, result, NULL, 0, 0);
}

/* opening and closing */

static int opened(const char *name, int directory, const char *path, int flags, mode_t mode)
{
    int result = syscall(SYS_openat, directory, path, flags, mode);
    int seen = result >= 0 && is_seen(directory, path);
    if (result >= 0)
        is_now(result, seen ? FILE_OR_DIRECTORY : NOTHING);
    if (seen)
        note_path(END, name, directory, path, flags, result);
    return result;
}

#define MODE(flags)                                        \
    mode_t mode = 0;                                       \
    if ((flags) & (O_CREAT | O_TMPFILE)) {                 \
        va_list arguments;                                 \
        va_start(arguments, flags);                        \
        mode = va_arg(arguments, mode_t);                  \
        va_end(arguments);                                 \
    }

int open(const char *path, int flags, ...) { MODE(flags) return opened("open", AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return opened("open", AT_FDCWD, path, flags, mode); }
int __open_2(const char *path, int flags) { return opened("open", AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return opened("open", AT_FDCWD, path, flags, 0); }
int openat(int at, const char *path, int flags, ...) { MODE(flags) return opened("open", at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags) return opened("open", at, path, flags, mode); }
int __openat_2(int at, const char *path, int flags) { return opened("open", at, path, flags, 0); }
int __openat64_2(int at, const char *path, int flags) { return opened("open", at, path, flags, 0); }

int close(int descriptor)
{
    if (kind_of(descriptor))
        note(BEGIN, "close", descriptor, NULL, 0, NULL, 0, 0, NULL, 0, 0);
    is_now(descriptor, NOTHING);
    return syscall(SYS_close, descriptor);
}

/* writing */

static ssize_t written(const char *name, int descriptor, const struct iovec *parts, int count, int64_t offset, ssize_t result)
{
    if (kind_of(descriptor) == FILE_OR_DIRECTORY)
        note(END, name, descriptor, NULL, 0, NULL, offset, result_of(result), parts, count, result < 0 ? 0 : result);
    return result;
}

static ssize_t sent(const char *name, int descriptor, const struct iovec *parts, int count, ssize_t result, int phase)
{
    if (kind_of(descriptor) == CONNECTION)
        note(phase, name, descriptor, NULL, 0, NULL, 0, phase == END ? result_of(result) : 0, parts, phase == END ? 0 : count,
             SIZE_MAX);
    return result;
}

ssize_t write(int descriptor, const void *data, size_t size)
{
    struct iovec part = {(void *)data, size};
    sent("send", descriptor, &part, 1, 0, BEGIN);
    ssize_t result = syscall(SYS_write, descriptor, data, size);
    sent("send", descriptor, &part, 1, result, END);
    return written("write", descriptor, &part, 1, -1, result);
}

ssize_t writev(int descriptor, const struct iovec *parts, int count)
{
    sent("send", descriptor, parts, count, 0, BEGIN);
    ssize_t result = syscall(SYS_writev, descriptor, parts, count);
    sent("send", descriptor, parts, count, result, END);
    return written("write", descriptor, parts, count, -1, result);
}

ssize_t pwrite(int descriptor, const void *data, size_t size, off_t offset)
{
    struct iovec part = {(void *)data, size};
    return written("write", descriptor, &part, 1, offset, syscall(SYS_pwrite64, descriptor, data, size, offset));
}
ssize_t pwrite64(int descriptor, const void *data, size_t size, off64_t offset) { return pwrite(descriptor, data, size, offset); }

ssize_t pwritev(int descriptor, const struct iovec *parts, int count, off_t offset)
{
    return written("write", descriptor, parts, count, offset, syscall(SYS_pwritev, descriptor, parts, count, offset, 0));
}
ssize_t pwritev64(int descriptor, const struct iovec *parts, int count, off64_t offset) { return pwritev(descriptor, parts, count, offset); }

int ftruncate(int descriptor, off_t size)
{
    int result = syscall(SYS_ftruncate, descriptor, size);
    if (kind_of(descriptor))
        note(END, "ftruncate", descriptor, NULL, 0, NULL, size, result_of(result), NULL, 0, 0);
    return result;
}
int ftruncate64(int descriptor, off64_t size) { return ftruncate(descriptor, size); }

/* names */

int renameat2(int at, const char *path, int at2, const char *path2, unsigned flags)
{
    int seen = is_seen(at, path) || is_seen(at2, path2);
    if (seen)
        note(BEGIN, "rename", at, path, at2, path2, flags, 0, NULL, 0, 0);
    int result = syscall(SYS_renameat2, at, path, at2, path2, flags);
    if (seen)
        note(END, "rename", at, path, at2, path2, flags, result_of(result), NULL, 0, 0);
    return result;
}
int renameat(int at, const char *path, int at2, const char *path2) { return renameat2(at, path, at2, path2, 0); }
int rename(const char *path, const char *path2) { return renameat2(AT_FDCWD, path, AT_FDCWD, path2, 0); }

int linkat(int at, const char *path, int at2, const char *path2, int flags)
{
    int result = syscall(SYS_linkat, at, path, at2, path2, flags);
    if (is_seen(at, path) || is_seen(at2, path2))
        note(END, "link", at, path, at2, path2, flags, result_of(result), NULL, 0, 0);
    return result;
}
int link(const char *path, const char *path2) { return linkat(AT_FDCWD, path, AT_FDCWD, path2, 0); }

int unlinkat(int at, const char *path, int flags)
{
    int seen = is_seen(at, path);
    if (seen)
        note_path(BEGIN, "unlink", at, path, flags, 0);
    int result = syscall(SYS_unlinkat, at, path, flags);
    if (seen)
        note_path(END, "unlink", at, path, flags, result_of(result));
    return result;
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdirat(int at, const char *path, mode_t mode)
{
    int result = syscall(SYS_mkdirat, at, path, mode);
    if (is_seen(at, path))
        note_path(END, "mkdir", at, path, 0, result_of(result));
    return result;
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

/* syncs */

static int is_named_in(const char *asked, int descriptor)
{
    char part[4096], link[64], path[4096];
    int file = syscall(SYS_openat, AT_FDCWD, asked, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    ssize_t size = syscall(SYS_read, file, part, sizeof part - 1);
    syscall(SYS_close, file);
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t path_size = readlink(link, path, sizeof path - 1);
    if (size <= 0 || path_size <= 0)
        return 0;
    part[size] = path[path_size] = 0;
    return strstr(path, part) != NULL;
}

static int synced(const char *name, int descriptor, long number)
{
    if (kind_of(descriptor) != FILE_OR_DIRECTORY)
        return syscall(number, descriptor);
    note(BEGIN, name, descriptor, NULL, 0, NULL, 0, 0, NULL, 0, 0);
    int result;
    if (is_named_in(trigger, descriptor) && syscall(SYS_unlinkat, AT_FDCWD, trigger, 0) == 0) {
        errno = EIO;
        result = -1;
    } else {
        struct timespec pause = {0, is_named_in(slow, descriptor) ? SLOW_SYNC_NS : SYNC_NS};
        syscall(SYS_nanosleep, &pause, NULL);
        result = syscall(number, descriptor);
    }
    note(END, name, descriptor, NULL, 0, NULL, 0, result_of(result), NULL, 0, 0);
    return result;
}

int fsync(int descriptor) { return synced("sync", descriptor, SYS_fsync); }
int fdatasync(int descriptor) { return synced("sync", descriptor, SYS_fdatasync); }

/* clients */

static int accepted(int result)
{
    if (result >= 0) {
        is_now(result, CONNECTION);
        note(END, "accept", result, NULL, 0, NULL, 0, result, NULL, 0, 0);
    }
    return result;
}

int accept4(int descriptor, struct sockaddr *address, socklen_t *size, int flags)
{
    return accepted(syscall(SYS_accept4, descriptor, address, size, flags));
}
int accept(int descriptor, struct sockaddr *address, socklen_t *size) { return accept4(descriptor, address, size, 0); }

int socket(int domain, int type, int protocol)
{
    int result = syscall(SYS_socket, domain, type, protocol);
    is_now(result, NOTHING);
    return result;
}

ssize_t sendto(int descriptor, const void *data, size_t size, int flags, const struct sockaddr *address, socklen_t address_size)
{
    struct iovec part = {(void *)data, size};
    sent("send", descriptor, &part, 1, 0, BEGIN);
    return sent("send", descriptor, &part, 1, syscall(SYS_sendto, descriptor, data, size, flags, address, address_size), END);
}
ssize_t send(int descriptor, const void *data, size_t size, int flags) { return sendto(descriptor, data, size, flags, NULL, 0); }

ssize_t sendmsg(int descriptor, const struct msghdr *message, int flags)
{
    sent("send", descriptor, message->msg_iov, message->msg_iovlen, 0, BEGIN);
    ssize_t result = syscall(SYS_sendmsg, descriptor, message, flags);
    return sent("send", descriptor, message->msg_iov, message->msg_iovlen, result, END);
}

static ssize_t received(int descriptor, const struct iovec *parts, int count, ssize_t result)
{
    if (kind_of(descriptor) == CONNECTION)
        note(END, "receive", descriptor, NULL, 0, NULL, 0, result_of(result), parts, count, result < 0 ? 0 : result);
    return result;
}

ssize_t read(int descriptor, void *data, size_t size)
{
    struct iovec part = {data, size};
    return received(descriptor, &part, 1, syscall(SYS_read, descriptor, data, size));
}

ssize_t readv(int descriptor, const struct iovec *parts, int count)
{
    return received(descriptor, parts, count, syscall(SYS_readv, descriptor, parts, count));
}

ssize_t recvfrom(int descriptor, void *data, size_t size, int flags, struct sockaddr *address, socklen_t *address_size)
{
    struct iovec part = {data, size};
    return received(descriptor, &part, 1, syscall(SYS_recvfrom, descriptor, data, size, flags, address, address_size));
}
ssize_t recv(int descriptor, void *data, size_t size, int flags) { return recvfrom(descriptor, data, size, flags, NULL, NULL); }

ssize_t recvmsg(int descriptor, struct msghdr *message, int flags)
{
    ssize_t result = syscall(SYS_recvmsg, descriptor, message, flags);
    return received(descriptor, message->msg_iov, message->msg_iovlen, result);
}
