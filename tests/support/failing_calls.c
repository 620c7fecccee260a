/* Calls of the system that fail on demand, below everything that a process runs: to be preloaded.

   `failing_calls_arm` says which kind of call fails, from which call on, how and how often. Only
   calls about files below the watched folder count, and memory of MANY_BYTES or more. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MANY_BYTES = 4096, KINDS = 8 };
enum { WRITE, TRUNCATE, FLUSH, NAME, CREATE, REMOVE, LOCK, MEMORY };

static char watched[4096];
static atomic_int kind = -1, error, for_good;
static atomic_long to_fail;
static atomic_long calls[KINDS];

void failing_calls_arm(const char *folder, int of_kind, long call, int with, int from_then_on) {
  strncpy(watched, folder, sizeof watched - 1);
  for (int i = 0; i < KINDS; i++) atomic_store(&calls[i], 0);
  to_fail = call;
  error = with;
  for_good = from_then_on;
  kind = of_kind;
}

long failing_calls_count(int of_kind) { return calls[of_kind]; }

/* Whether this call fails; errno then says why. */
static int fails(int of_kind) {
  long call = atomic_fetch_add(&calls[of_kind], 1) + 1;
  if (of_kind != kind || !to_fail || (for_good ? call < to_fail : call != to_fail)) return 0;
  errno = error;
  return 1;
}

static int below(const char *path) {
  size_t length = strlen(watched);
  return length && path && !strncmp(path, watched, length);
}

static int is_below(int descriptor) {
  char link[64], path[4096];
  if (!*watched) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return below(path);
}

#define REAL(name) ((__typeof__(&name))real(#name))
static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

static int write_fails(int descriptor) {
  return is_below(descriptor) && fails(WRITE);
}

/* A disk that fills up takes a part of the last write. */
static size_t taken(size_t bytes) { return error == ENOSPC && bytes > 1 ? bytes / 2 : 0; }

ssize_t write(int descriptor, const void *data, size_t bytes) {
  return write_fails(descriptor) ? -1 : REAL(write)(descriptor, data, bytes);
}

ssize_t pwrite64(int descriptor, const void *data, size_t bytes, off64_t place) {
  if (!write_fails(descriptor)) return REAL(pwrite64)(descriptor, data, bytes, place);
  int why = errno;
  if (taken(bytes)) REAL(pwrite64)(descriptor, data, taken(bytes), place);
  errno = why;
  return -1;
}

ssize_t pwrite(int descriptor, const void *data, size_t bytes, off_t place) {
  return pwrite64(descriptor, data, bytes, place);
}

int ftruncate64(int descriptor, off64_t bytes) {
  if (is_below(descriptor) && fails(TRUNCATE)) return -1;
  return REAL(ftruncate64)(descriptor, bytes);
}

int ftruncate(int descriptor, off_t bytes) { return ftruncate64(descriptor, bytes); }

int fsync(int descriptor) {
  return is_below(descriptor) && fails(FLUSH) ? -1 : REAL(fsync)(descriptor);
}

int fdatasync(int descriptor) {
  return is_below(descriptor) && fails(FLUSH) ? -1 : REAL(fdatasync)(descriptor);
}

int rename(const char *from, const char *to) {
  return below(to) && fails(NAME) ? -1 : REAL(rename)(from, to);
}

int link(const char *from, const char *to) {
  return below(to) && fails(NAME) ? -1 : REAL(link)(from, to);
}

int linkat(int base, const char *from, int other, const char *to, int flags) {
  return below(to) && fails(NAME) ? -1 : REAL(linkat)(base, from, other, to, flags);
}

int open64(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return flags & O_CREAT && below(path) && fails(CREATE) ? -1 : REAL(open64)(path, flags, mode);
}

int open(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open64(path, flags, mode);
}

int mkdir(const char *path, mode_t mode) {
  return below(path) && fails(CREATE) ? -1 : REAL(mkdir)(path, mode);
}

int unlink(const char *path) { return below(path) && fails(REMOVE) ? -1 : REAL(unlink)(path); }

int rmdir(const char *path) { return below(path) && fails(REMOVE) ? -1 : REAL(rmdir)(path); }

int flock(int descriptor, int operation) {
  return is_below(descriptor) && fails(LOCK) ? -1 : REAL(flock)(descriptor, operation);
}

/* dlsym asks for memory itself: these are the names of the C library below. */
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);

void *malloc(size_t bytes) {
  return bytes >= MANY_BYTES && fails(MEMORY) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t many, size_t bytes) {
  return many * bytes >= MANY_BYTES && fails(MEMORY) ? NULL : __libc_calloc(many, bytes);
}

void *realloc(void *old, size_t bytes) {
  return bytes >= MANY_BYTES && fails(MEMORY) ? NULL : __libc_realloc(old, bytes);
}
