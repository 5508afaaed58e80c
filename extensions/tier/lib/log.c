// SPDX-License-Identifier: MIT
/* Logs in maps: arguments, threads, and texts. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include <hetmap/error.h>
#include <hetmap/hetmap.h>
#include <hetmap/log.h>

#include "engine.h"

struct hm_log {
	struct hm_map *map; /* holds a ref */
	struct pmem_engine *engine;
	uint32_t persist;
	pthread_mutex_t lock; /* protects core */
	struct log_core core;
};

/* ---- opening ---- */

static int look_at_map(struct hm_map *map, struct hm_map_info *info, uint32_t *ret_persist)
{
	struct hm_buffer_info buffer_info = { .struct_size = sizeof(buffer_info) };
	struct hm_pointer_info at;
	int r;

	*info = (struct hm_map_info){ .struct_size = sizeof(*info) };
	r = hm_map_query(map, info);
	if (r)
		return r;
	r = hm_pointer_find(info->address, &at);
	if (!r)
		r = hm_buffer_query(at.buffer, &buffer_info);
	if (r)
		return hm_error_set(r, "hm_log_open: the map is no map any more");
	if (!(info->access & HM_WRITE))
		return hm_error_set(-EACCES, "hm_log_open: the map may only be read");
	if (!buffer_info.persist)
		return hm_error_set(-EOPNOTSUPP,
				    "hm_log_open: the bytes of the map do not outlive a power "
				    "failure: open a file on \"pmem:PATH\"");
	if (info->length < LOG_LEAST)
		return hm_error_set(-EINVAL,
				    "hm_log_open: the map has %" PRIu64
				    " bytes, a log has %u at "
				    "least",
				    info->length, LOG_LEAST);
	*ret_persist = buffer_info.persist;
	return 0;
}

static uint64_t new_epoch(void)
{
	struct timespec now;
	uint64_t epoch;

	if (getrandom(&epoch, sizeof(epoch), GRND_NONBLOCK) == (ssize_t)sizeof(epoch))
		return epoch | 1;
	clock_gettime(CLOCK_REALTIME, &now);
	return ((uint64_t)now.tv_sec << 30 | (uint64_t)now.tv_nsec) | 1;
}

static int refuse_bytes(int r, uint32_t version)
{
	switch (r) {
	case -ENODATA:
		return hm_error_set(r,
				    "hm_log_open: the map has zeros at its start, and no log: "
				    "pass HM_LOG_CREATE");
	case -EPROTO:
		return hm_error_set(r,
				    "hm_log_open: the log is of version %u, and this library "
				    "knows version %u",
				    version, LOG_VERSION);
	default:
		return hm_error_set(r, "hm_log_open: the map has no log, or a damaged one: "
				       "HM_LOG_FORMAT makes a new one, and drops these bytes");
	}
}

static int open_bytes(struct log_core *core, uint32_t flags)
{
	uint32_t version = 0;
	int r;

	if (flags & HM_LOG_FORMAT)
		return log_core_format(core, new_epoch());
	r = log_core_open(core, &version);
	if (r == -ENODATA && flags & HM_LOG_CREATE)
		return log_core_format(core, new_epoch());
	return r ? refuse_bytes(r, version) : 0;
}

int hm_log_open(struct hm_map *map, uint32_t flags, struct hm_log **ret_log)
{
	struct hm_map_info info;
	uint32_t persist = 0;
	struct hm_log *log;
	const char *why;
	int r;

	if (!map || !ret_log)
		return hm_error_set(-EINVAL, "hm_log_open: %s is NULL",
				    map ? "ret_log" : "map");
	if (flags & ~(HM_LOG_CREATE | HM_LOG_FORMAT))
		return hm_error_set(-EINVAL, "hm_log_open: unknown flags 0x%x",
				    flags & ~(HM_LOG_CREATE | HM_LOG_FORMAT));
	r = look_at_map(map, &info, &persist);
	if (r)
		return r;
	log = calloc(1, sizeof(*log));
	if (!log)
		return hm_error_set(-ENOMEM, "no memory for a log");
	r = pmem_engine_make(map, &info, persist, &log->engine, &why);
	if (r) {
		hm_error_set(r, "hm_log_open: libpmem2: %s", why);
		goto err_free;
	}
	log->persist = persist;
	log->core = (struct log_core){
		.base = info.address,
		.size = info.length,
		.engine = &pmem_engine_ops,
		.user = log->engine,
	};
	r = open_bytes(&log->core, flags);
	if (r)
		goto err_engine;
	pthread_mutex_init(&log->lock, NULL);
	log->map = hm_map_ref(map);
	*ret_log = log;
	return 0;

err_engine:
	pmem_engine_end(log->engine);
err_free:
	free(log);
	return r;
}

void hm_log_close(struct hm_log *log)
{
	if (!log)
		return;
	pmem_engine_end(log->engine);
	pthread_mutex_destroy(&log->lock);
	hm_map_unref(log->map);
	free(log);
}

/* ---- records ---- */

static int explain(int r, const char *what)
{
	return r ? hm_error_set(r,
				"%s: the system could not make the bytes last: the log takes "
				"no further ones",
				what) :
		   0;
}

int hm_log_append(struct hm_log *log, const void *bytes, uint64_t length, uint64_t *ret_number)
{
	uint64_t number, room;
	int r;

	if (!log || !bytes || !length)
		return hm_error_set(-EINVAL, "hm_log_append: %s",
				    !log   ? "log is NULL" :
				    !bytes ? "bytes is NULL" :
					     "length is 0");
	pthread_mutex_lock(&log->lock);
	r = log_core_append(&log->core, bytes, length);
	number = log->core.n_record;
	room = log->core.size -
	       (log->core.end < log->core.size ? log->core.end : log->core.size);
	pthread_mutex_unlock(&log->lock);
	if (r == -ENOSPC)
		return hm_error_set(r,
				    "hm_log_append: %" PRIu64 " bytes are left, and the record "
				    "has %" PRIu64
				    " besides 32 of its own: hm_log_clear() drops "
				    "all records",
				    room, length);
	if (r)
		return explain(r, "hm_log_append");
	if (ret_number)
		*ret_number = number;
	return 0;
}

int hm_log_next(struct hm_log *log, uint64_t *position, const void **ret_bytes,
		uint64_t *ret_length)
{
	uint64_t at, end, next;
	int r;

	if (!log || !position || !ret_bytes || !ret_length)
		return hm_error_set(-EINVAL, "hm_log_next: an argument is NULL");
	pthread_mutex_lock(&log->lock);
	end = log->core.end;
	pthread_mutex_unlock(&log->lock);
	at = *position ? *position : LOG_RECORDS;
	if (at == end)
		return hm_error_set(-ENOENT, "hm_log_next: there is no further record");
	r = at < LOG_RECORDS || at % LOG_LINE || at > end ?
		    -ENOENT :
		    log_core_record(&log->core, at, 0, ret_bytes, ret_length, &next);
	if (r)
		return hm_error_set(-EINVAL,
				    "hm_log_next: no record of this log begins at position "
				    "%" PRIu64,
				    at);
	*position = next;
	return 0;
}

int hm_log_clear(struct hm_log *log)
{
	int r;

	if (!log)
		return hm_error_set(-EINVAL, "hm_log_clear: log is NULL");
	pthread_mutex_lock(&log->lock);
	r = log_core_clear(&log->core);
	pthread_mutex_unlock(&log->lock);
	return explain(r, "hm_log_clear");
}

/* ---- the root, and the rest ---- */

int hm_log_root_set(struct hm_log *log, const void *bytes, uint32_t length)
{
	int r;

	if (!log || !bytes)
		return hm_error_set(-EINVAL, "hm_log_root_set: %s is NULL",
				    log ? "bytes" : "log");
	if (!length || length > HM_LOG_ROOT_MAX)
		return hm_error_set(-EINVAL,
				    "hm_log_root_set: length is %u: 1 to %d are possible",
				    length, HM_LOG_ROOT_MAX);
	pthread_mutex_lock(&log->lock);
	r = log_core_root_set(&log->core, bytes, length);
	pthread_mutex_unlock(&log->lock);
	return explain(r, "hm_log_root_set");
}

int hm_log_root_get(struct hm_log *log, void *bytes, uint32_t capacity, uint32_t *ret_length)
{
	if (!log || !ret_length || (capacity && !bytes))
		return hm_error_set(-EINVAL, "hm_log_root_get: an argument is NULL");
	pthread_mutex_lock(&log->lock);
	*ret_length = log->core.root_length;
	if (capacity)
		memcpy(bytes, log->core.root, capacity < *ret_length ? capacity : *ret_length);
	pthread_mutex_unlock(&log->lock);
	return 0;
}

int hm_log_query(struct hm_log *log, struct hm_log_info *ret_info)
{
	struct hm_log_info info;

	if (!log || !ret_info)
		return hm_error_set(-EINVAL, "hm_log_query: %s is NULL",
				    log ? "ret_info" : "log");
	if (ret_info->struct_size > sizeof(info))
		return hm_error_set(-E2BIG, "hm_log_info of %u bytes: this library knows %zu",
				    ret_info->struct_size, sizeof(info));
	if (ret_info->struct_size < offsetof(struct hm_log_info, root))
		return hm_error_set(-EINVAL,
				    "hm_log_info.struct_size is %u: set it to the size of "
				    "the struct",
				    ret_info->struct_size);
	pthread_mutex_lock(&log->lock);
	info = (struct hm_log_info){
		.struct_size = ret_info->struct_size,
		.persist = log->persist,
		.n_record = log->core.n_record,
		.used = log->core.end - LOG_RECORDS,
		.capacity = log->core.size - LOG_RECORDS,
		.root = log->core.root_length,
		.version = LOG_VERSION,
	};
	pthread_mutex_unlock(&log->lock);
	memcpy(ret_info, &info, info.struct_size);
	return 0;
}
