// SPDX-License-Identifier: MIT
/*
 * Table of backends. Each is copied at registration with defaults for missing ops, so that no
 * caller ever tests an op for NULL.
 */
#include <string.h>

#include "core/core.h"

#define BACKENDS_MAX 32

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects registration */
static struct hm_backend_ops table[BACKENDS_MAX];        /* entries below n never change */
static _Atomic uint32_t n_backend;

static int no_create(void *device, const struct hm_buffer_desc *desc,
		     struct hm_recipe *ret_recipe)
{
	(void)device, (void)desc, (void)ret_recipe;
	return -EOPNOTSUPP;
}

static int no_fd(void *device, int fd, const struct hm_buffer_desc *desc,
		 struct hm_recipe *ret_recipe)
{
	(void)device, (void)fd, (void)desc, (void)ret_recipe;
	return -EOPNOTSUPP;
}

static int no_export(void *device, const struct hm_segment *segment, uint32_t flags,
		     int *ret_fd)
{
	(void)device, (void)segment, (void)flags, (void)ret_fd;
	return -EOPNOTSUPP;
}

static int no_resize(void *device, struct hm_segment *segment, uint64_t old_size,
		     uint64_t new_size)
{
	(void)device, (void)segment, (void)old_size, (void)new_size;
	return -EOPNOTSUPP;
}

static int no_begin_cpu(void *device, const struct hm_segment *segments, uint32_t n_segment,
			uint64_t offset, uint64_t length, uint32_t access)
{
	(void)device, (void)segments, (void)n_segment;
	(void)offset, (void)length, (void)access;
	return -EOPNOTSUPP;
}

static int no_end_cpu(void *device, const struct hm_segment *segments, uint32_t n_segment,
		      uint64_t offset, uint64_t length, uint32_t access)
{
	(void)device, (void)segments, (void)n_segment;
	(void)offset, (void)length, (void)access;
	return 0;
}

/* No device has this name besides the backend's own, which the core knows. */
static int no_each(int (*each)(void *user, const char *name), void *user)
{
	(void)each, (void)user;
	return 0;
}

static int no_loss(void *device)
{
	(void)device;
	return 0;
}

static int no_signal(void *device, const struct hm_segment *segment)
{
	(void)device, (void)segment;
	return 0;
}

static int all_in_reach(void *device, const struct hm_segment *segment, uint64_t offset,
			uint64_t length, uint64_t *ret_length)
{
	(void)device, (void)segment, (void)offset;
	*ret_length = length;
	return 0;
}

static int no_map_keep(void *device, const struct hm_segment *segment, void *address)
{
	(void)device, (void)segment, (void)address;
	return -EOPNOTSUPP;
}

static void *no_map_take(void *device, const struct hm_segment *segment)
{
	(void)device, (void)segment;
	return NULL;
}

static const uint64_t *no_evictions(void *device, const struct hm_segment *segment)
{
	(void)device, (void)segment;
	return NULL;
}

static int check_mandatory(const struct hm_backend_ops *ops)
{
	const struct {
		const char *name;
		bool there;
	} mandatory[] = {
		{ "name", ops->name && *ops->name },
		{ "description", ops->description != NULL },
		{ "device_open", ops->device_open != NULL },
		{ "device_close", ops->device_close != NULL },
		{ "device_query", ops->device_query != NULL },
		{ "object_destroy", ops->object_destroy != NULL },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(mandatory); i++)
		if (!mandatory[i].there)
			return err_set(-EINVAL, "backend %s: the mandatory %s is missing",
				       ops->name ? ops->name : "(no name)", mandatory[i].name);
	return 0;
}

/* One row an optional op: its bit, and its default for tables without it. */
#define OPTIONAL(ROW)                                      \
	ROW(create, HM_CAP_CREATE, no_create)              \
	ROW(from_file, HM_CAP_FROM_FILE, no_fd)            \
	ROW(import_fd, HM_CAP_IMPORT, no_fd)               \
	ROW(export_fd, HM_CAP_EXPORT, no_export)           \
	ROW(resize, HM_CAP_RESIZE, no_resize)              \
	ROW(each_device, HM_BACKEND_LIST, no_each)         \
	ROW(device_check, HM_BACKEND_LOSS, no_loss)        \
	ROW(hidden, HM_BACKEND_REACH, all_in_reach)        \
	ROW(begin_cpu, HM_CAP_BRACKET, no_begin_cpu)       \
	ROW(end_cpu, HM_BACKEND_BRACKET_END, no_end_cpu)   \
	ROW(map_keep, HM_BACKEND_MAP_CACHE, no_map_keep)   \
	ROW(map_take, HM_BACKEND_MAP_CACHE, no_map_take)   \
	ROW(evictions, HM_BACKEND_EVICTIONS, no_evictions) \
	ROW(device_ask, HM_BACKEND_LOSS_ASK, no_loss)      \
	ROW(lost_signal, HM_BACKEND_LOSS_SIGNAL, no_signal)

/* Bits that mean nothing without another one. */
static const struct {
	uint64_t cap, needs;
	const char *cap_name, *needs_name;
} groups[] = {
#define GROUP(cap, needs)                \
	{                                \
		cap, needs, #cap, #needs \
	}
	GROUP(HM_BACKEND_LOSS_ASK, HM_BACKEND_LOSS),
	GROUP(HM_BACKEND_LOSS_SIGNAL, HM_BACKEND_LOSS_ASK),
	GROUP(HM_BACKEND_BRACKET_END, HM_CAP_BRACKET),
	GROUP(HM_BACKEND_BRACKET_DMABUF, HM_BACKEND_BRACKET_END),
};

/* An op without its bit would never be called; a bit without its op would be a lie. */
static int check_op(const struct hm_backend_ops *ops, const char *op, bool there, uint64_t cap,
		    const char *cap_name)
{
	if (backend_has(ops, cap) == there)
		return 0;
	return there ? err_set(-EINVAL,
			       "backend %s: the op %s is there, and caps lacks its bit, %s: set "
			       "the bit",
			       ops->name, op, cap_name) :
		       err_set(-EINVAL,
			       "backend %s: caps has %s, and the op of this bit, %s, is missing",
			       ops->name, cap_name, op);
}

static int check_caps(const struct hm_backend_ops *ops)
{
	size_t i;
	int r = 0;

#define CHECK_OP(op, cap, fallback) \
	if (!r)                     \
		r = check_op(ops, #op, ops->op != NULL, cap, #cap);
	OPTIONAL(CHECK_OP)
	if (r)
		return r;
	for (i = 0; i < ARRAY_SIZE(groups); i++)
		if (backend_has(ops, groups[i].cap) && !backend_has(ops, groups[i].needs))
			return err_set(-EINVAL, "backend %s: caps has %s, which needs %s, too",
				       ops->name, groups[i].cap_name, groups[i].needs_name);
	if (!backend_has(ops, HM_CAP_CREATE | HM_CAP_FROM_FILE | HM_CAP_IMPORT))
		return err_set(-EINVAL,
			       "backend %s: none of create, from_file and import_fd "
			       "is there: no buffer could exist",
			       ops->name);
	return 0;
}

static void fill_defaults(struct hm_backend_ops *ops)
{
#define FILL(op, cap, fallback) \
	if (!ops->op)           \
		ops->op = fallback;
	OPTIONAL(FILL)
}

static int add_locked(const struct hm_backend_ops *ops)
{
	struct hm_backend_ops full = { 0 };
	uint32_t i, n = n_backend;
	int r;

	if (ops->size < offsetof(struct hm_backend_ops, create) || ops->size > sizeof(full))
		return err_set(-EINVAL,
			       "backend table of %zu bytes: this library takes %zu to "
			       "%zu",
			       ops->size, offsetof(struct hm_backend_ops, create),
			       sizeof(full));
	memcpy(&full, ops, ops->size);
	full.size = sizeof(full);
	r = check_mandatory(&full);
	if (!r)
		r = check_caps(&full);
	if (r)
		return r;
	for (i = 0; i < n; i++)
		if (!strcmp(table[i].name, full.name))
			return err_set(-EEXIST, "a backend named %s is registered already",
				       full.name);
	if (n == BACKENDS_MAX)
		return err_set(-ENOSPC, "backend %s: all %d places are taken", full.name,
			       BACKENDS_MAX);
	fill_defaults(&full);
	table[n] = full;
	n_backend = n + 1; /* releases the entry to readers without the lock */
	return 0;
}

static const struct hm_backend_ops *const *builtin;
static size_t n_builtin;

void backend_set_builtin(const struct hm_backend_ops *const *all, size_t n)
{
	builtin = all;
	n_builtin = n;
}

const struct hm_backend_ops *backend_builtin(size_t index)
{
	return index < n_builtin ? builtin[index] : NULL;
}

/* A table that is refused here would be missing: a test registers each by hand, too. */
static void add_builtin(void)
{
	size_t i;

	for (i = 0; i < n_builtin; i++)
		add_locked(builtin[i]);
}

static void init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, add_builtin);
}

int hm_backend_register(const struct hm_backend_ops *ops)
{
	int r;

	err_begin();
	if (!ops)
		return err_set(-EINVAL, "hm_backend_register: ops is NULL");
	init();
	pthread_mutex_lock(&lock);
	r = add_locked(ops);
	pthread_mutex_unlock(&lock);
	return r;
}

int backend_explain(const struct hm_backend_ops *ops, uint32_t said, int r, const char *op)
{
	if (!r || err_said_since(said))
		return r;
	return err_set(r, "backend %s: %s: %s", ops->name, op, err_name(r));
}

const struct hm_backend_ops *backend_at(uint32_t index)
{
	init();
	return index < n_backend ? &table[index] : NULL;
}

const struct hm_backend_ops *backend_find(const char *name, const char **ret_rest)
{
	const struct hm_backend_ops *ops;
	size_t length = strcspn(name, ":");
	uint32_t i;

	for (i = 0; (ops = backend_at(i)); i++)
		if (strlen(ops->name) == length && !memcmp(ops->name, name, length)) {
			*ret_rest = name[length] ? name + length + 1 : "";
			return ops;
		}
	return NULL;
}
