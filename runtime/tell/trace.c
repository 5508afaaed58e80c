// SPDX-License-Identifier: MIT
/* Writes the file of HETMAP_TRACE, through a buffer for each thread. */
#include "tell/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <urcu/list.h>

#include "base/env.h"
#include "base/err.h"
#include "base/object.h"
#include "base/rlimits.h"
#include "base/sys.h"

#define BUFFER_SIZE KIB(32)
#define BUFFER_AGE_NS 1000000000ull

struct trace_thread {
	struct cds_list_head link; /* threads_lock */
	pid_t tid;
	pthread_mutex_t lock; /* protects the fields below; a leaf */
	bool closed;          /* the end of the file is written */
	uint64_t since;       /* time of the oldest line */
	size_t n;
	char text[BUFFER_SIZE];
};

_Atomic bool trace_enabled;
_Atomic bool trace_untold;

static pthread_mutex_t threads_lock = PTHREAD_MUTEX_INITIALIZER; /* protects the next ones */
static CDS_LIST_HEAD(threads);
static char pattern[PATH_MAX]; /* with its "%p" */
static bool is_open;           /* or opening was tried */

static _Atomic int file = -1;
static pid_t pid;
static _Atomic uint64_t written;
static _Atomic int failure; /* of the first write that failed; 0: none */
static pthread_key_t key;   /* frees a thread's buffer at its end */
static _Thread_local struct trace_thread *self;

/* ---- the file ---- */

#define CANT_WRITE "%s can't be written, and the trace ends there: %s"

/*
 * Prints the failure, since the program may not show any text of the library. Prints nothing
 * about a file that another process writes to, as it happens to each process that a traced one
 * starts.
 */
static void give_up(int r)
{
	int none = 0;

	atomic_store(&trace_enabled, false);
	if (!atomic_compare_exchange_strong(&failure, &none, r))
		return;
	atomic_store(&trace_untold, true);
	if (r != -EBUSY)
		fprintf(stderr, "hetmap: HETMAP_TRACE: " CANT_WRITE "\n", pattern, err_name(r));
}

/* Writes the text with one write, because a part of a line is not a line. */
static void write_all(int fd, const char *text, size_t n)
{
	ssize_t r;

	if (!n || atomic_load(&failure))
		return;
	/* Beyond the limit the kernel would send SIGXFSZ. */
	if (atomic_fetch_add(&written, n) + n > rlimits_file_size()) {
		give_up(-EFBIG);
		return;
	}
	r = sys_write(fd, text, n);
	if (r < 0 || (size_t)r < n)
		give_up(r < 0 ? (int)r : -ENOSPC);
}

/* Makes the file's name: this process's number replaces each "%p". */
static int expand(char *path, size_t size)
{
	const char *from = pattern;
	size_t n = 0;

	while (*from && n < size) {
		if (from[0] == '%' && from[1] == 'p') {
			n += (size_t)snprintf(path + n, size - n, "%d", (int)pid);
			from += 2;
		} else {
			path[n++] = *from++;
		}
	}
	if (n >= size)
		return -ENAMETOOLONG;
	path[n] = '\0';
	return 0;
}

/*
 * Opens the file and locks it; -EBUSY: another process has it locked. A fork child closes the
 * descriptor that it inherits, which shares the parent's lock and would not be refused. Waits for
 * nothing, not even for a FIFO's reader.
 */
static int open_file(const char *path, int *ret_fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct stat st;
	int fd, r;

	fd = sys_open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOCTTY | O_NONBLOCK, 0600);
	if (fd < 0)
		return fd;
	r = sys_fstat(fd, &st);
	/* A reader that leaves a pipe would end this process by SIGPIPE. */
	if (!r && !S_ISREG(st.st_mode) && !S_ISCHR(st.st_mode))
		r = -ESPIPE;
	if (r)
		goto err_fd;
	if (S_ISREG(st.st_mode)) {
		r = sys_fcntl(fd, F_OFD_SETLK, (long)(uintptr_t)&lock);
		if (r == -EAGAIN || r == -EACCES)
			r = -EBUSY;
		if (!r)
			r = sys_ftruncate(fd, 0);
		if (r)
			goto err_fd;
	}
	*ret_fd = fd;
	return 0;

err_fd:
	sys_close(fd);
	return r;
}

static void put_process(struct trace_line *line)
{
	trace_put(line,
		  "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":"
		  "{\"name\":",
		  (int)pid, (int)pid);
	trace_put_string(line, program_invocation_short_name);
	trace_put(line, "}},\n");
}

/* Caller holds threads_lock, or is the only thread. */
static void begin_locked(void)
{
	struct trace_line line = { .n = 0 };
	char path[PATH_MAX];
	int r, fd = -1;

	is_open = true;
	pid = getpid();
	atomic_store(&written, 0);
	r = expand(path, sizeof(path));
	if (!r)
		r = open_file(path, &fd);
	if (r) {
		give_up(r);
		return;
	}
	atomic_store(&file, fd);
	trace_put(&line, "[\n");
	put_process(&line);
	write_all(fd, line.text, line.n);
}

void trace_tell_cold(void)
{
	int r = atomic_load(&failure);

	if (!atomic_exchange(&trace_untold, false))
		return;
	if (r == -EBUSY)
		err_warn(
			"HETMAP_TRACE: another process writes its trace to %s, so this one has "
			"none: put %%p, the process's number, into the name",
			pattern);
	else
		err_warn("HETMAP_TRACE: " CANT_WRITE, pattern, err_name(r));
}

/* ---- threads ---- */

static void flush_locked(struct trace_thread *thread)
{
	if (!thread->closed)
		write_all(atomic_load(&file), thread->text, thread->n);
	thread->n = 0;
}

static void end_thread(void *user)
{
	struct trace_thread *thread = user;

	self = NULL;
	pthread_mutex_lock(&threads_lock);
	pthread_mutex_lock(&thread->lock);
	flush_locked(thread);
	pthread_mutex_unlock(&thread->lock);
	cds_list_del(&thread->link);
	pthread_mutex_unlock(&threads_lock);
	pthread_mutex_destroy(&thread->lock);
	free(thread);
}

static void put_thread(struct trace_line *line)
{
	char name[16] = ""; /* prctl(2) */

	sys_prctl(PR_GET_NAME, (uintptr_t)name, 0, 0, 0);
	trace_put(
		line,
		"{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":",
		(int)pid, (int)self->tid);
	trace_put_string(line, name);
	trace_put(line, "}},\n");
}

/* This thread's buffer, made with its first line. NULL: no memory, or no file. */
static struct trace_thread *get_self(void)
{
	struct trace_line line = { .n = 0 };
	struct trace_thread *thread;

	if (likely(self))
		return self;
	thread = sys_calloc(1, sizeof(*thread));
	if (!thread)
		return NULL;
	thread->tid = gettid();
	pthread_mutex_init(&thread->lock, NULL);
	pthread_mutex_lock(&threads_lock);
	/* A fork child opens its file with its first line. */
	if (!is_open)
		begin_locked();
	if (atomic_load(&file) < 0 || atomic_load(&failure) ||
	    pthread_setspecific(key, thread)) {
		pthread_mutex_unlock(&threads_lock);
		pthread_mutex_destroy(&thread->lock);
		free(thread);
		return NULL;
	}
	cds_list_add_tail(&thread->link, &threads);
	self = thread;
	pthread_mutex_unlock(&threads_lock);
	put_thread(&line);
	trace_add(&line);
	return thread;
}

void trace_add(const struct trace_line *line)
{
	struct trace_thread *thread = get_self();
	uint64_t now;

	if (!thread)
		return;
	now = time_now_ns();
	pthread_mutex_lock(&thread->lock);
	if (thread->n &&
	    (thread->n + line->n > sizeof(thread->text) || now - thread->since > BUFFER_AGE_NS))
		flush_locked(thread);
	if (!thread->n)
		thread->since = now;
	memcpy(thread->text + thread->n, line->text, line->n);
	thread->n += line->n;
	pthread_mutex_unlock(&thread->lock);
}

/* @ends: drops all lines from here on. */
static void flush_all(bool ends)
{
	struct trace_thread *thread;

	pthread_mutex_lock(&threads_lock);
	cds_list_for_each_entry(thread, &threads, link) {
		pthread_mutex_lock(&thread->lock);
		flush_locked(thread);
		thread->closed = ends;
		pthread_mutex_unlock(&thread->lock);
	}
	if (ends)
		atomic_store(&file, -1);
	pthread_mutex_unlock(&threads_lock);
}

void trace_flush(void)
{
	flush_all(false);
}

pid_t trace_pid(void)
{
	return pid;
}

pid_t trace_tid(void)
{
	struct trace_thread *thread = get_self();

	return thread ? thread->tid : 0;
}

/* ---- the process ---- */

/* Writes the array's end, and only here, so that readers of a trace see whether it is whole. */
static void end(void)
{
	struct trace_line line = { .n = 0 };
	uint64_t now = time_now_ns();
	int fd = atomic_load(&file);

	atomic_store(&trace_enabled, false);
	if (fd < 0)
		return;
	flush_all(true);
	/* Threads that go on must not call end_thread() any more: the code may be unloaded. */
	pthread_key_delete(key);
	trace_put(&line,
		  "{\"name\":\"trace_end\",\"ph\":\"i\",\"s\":\"p\",\"pid\":%d,\"tid\":%d,"
		  "\"ts\":%llu.%03llu}\n]\n",
		  (int)pid, (int)pid, (unsigned long long)now / 1000,
		  (unsigned long long)now % 1000);
	write_all(fd, line.text, line.n);
	sys_close(fd);
}

void trace_init(void)
{
	const char *value = env_get("HETMAP_TRACE");
	size_t n = value ? strlen(value) : 0;

	if (!n)
		return;
	snprintf(pattern, sizeof(pattern), "%s", value);
	if (n >= sizeof(pattern) || pthread_key_create(&key, end_thread)) {
		give_up(n >= sizeof(pattern) ? -ENAMETOOLONG : -EAGAIN);
		return;
	}
	begin_locked();
	if (atomic_load(&failure))
		return;
	atexit(end);
	atomic_store(&trace_enabled, true);
}

void trace_fork_prepare(void)
{
	pthread_mutex_lock(&threads_lock);
}

void trace_fork_parent(void)
{
	pthread_mutex_unlock(&threads_lock);
}

/* Drops the lines in the buffers, which the parent writes. */
void trace_fork_child(void)
{
	struct trace_thread *thread, *next;
	int fd = atomic_load(&file);

	cds_list_for_each_entry_safe(thread, next, &threads, link)
		fork_free(thread);
	CDS_INIT_LIST_HEAD(&threads);
	self = NULL;
	if (fd >= 0) {
		sys_close(fd);
		pthread_setspecific(key, NULL);
		atomic_store(&file, -1);
		is_open = !strstr(pattern, "%p");
		if (is_open)
			atomic_store(&trace_enabled, false);
	}
	pthread_mutex_unlock(&threads_lock);
}

/* ---- lines ---- */

void trace_put(struct trace_line *line, const char *format, ...)
{
	size_t room = sizeof(line->text) - line->n;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(line->text + line->n, room, format, args);
	va_end(args);
	/* Lines have bounded parts, so there is room. */
	line->n += min_u64((uint64_t)n, room - 1);
}

/* Length of the character at @s in well-formed UTF-8 [RFC 3629]; 0: not well-formed. */
static size_t utf8_length(const unsigned char *s)
{
	size_t i, n;

	if (s[0] < 0x80)
		return 1;
	n = s[0] >= 0xc2 && s[0] <= 0xdf ? 2 : (s[0] & 0xf0) == 0xe0 ? 3 : 0;
	if (s[0] >= 0xf0 && s[0] <= 0xf4)
		n = 4;
	for (i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	/* Overlong forms, surrogates, and code points beyond the last one. */
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}

#define STRING_MAX 64 /* characters of a name; only kernels have longer ones */

void trace_put_string(struct trace_line *line, const char *string)
{
	const unsigned char *s = (const unsigned char *)string;
	size_t n, left = STRING_MAX;

	trace_put(line, "\"");
	for (; *s && left--; s += n ? n : 1) {
		n = utf8_length(s);
		if (!n)
			trace_put(line, "\\ufffd");
		else if (*s == '"' || *s == '\\')
			trace_put(line, "\\%c", *s);
		else if (*s < 0x20 || *s == 0x7f)
			trace_put(line, "\\u%04x", *s);
		else
			trace_put(line, "%.*s", (int)n, (const char *)s);
	}
	trace_put(line, "\"");
}
