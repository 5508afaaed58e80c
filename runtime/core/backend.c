// SPDX-License-Identifier: MIT
/*
 * Table of backends. Each is copied at registration with defaults for missing ops, so that no
 * caller ever tests an op for NULL.
 */
#include <string.h>

#include "core/core.h"

#define BACKENDS_MAX 16

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

static int no_check(void *device)
{
	(void)device;
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

/* An op without its capability bit would never be called; a bit without its op would be a lie. */
static int check_caps(const struct hm_backend_ops *ops)
{
	const struct {
		const char *name;
		uint64_t cap;
		bool there;
	} optional[] = {
		{ "create", HM_CAP_CREATE, ops->create != NULL },
		{ "from_file", HM_CAP_FROM_FILE, ops->from_file != NULL },
		{ "import_fd", HM_CAP_IMPORT, ops->import_fd != NULL },
		{ "export_fd", HM_CAP_EXPORT, ops->export_fd != NULL },
		{ "resize", HM_CAP_RESIZE, ops->resize != NULL },
		{ "begin_cpu", HM_CAP_BRACKET, ops->begin_cpu != NULL },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(optional); i++)
		if (!!(ops->caps & optional[i].cap) != optional[i].there)
			return err_set(-EINVAL,
				       "backend %s: %s and its capability bit disagree: "
				       "the op is %s",
				       ops->name, optional[i].name,
				       optional[i].there ? "there" : "missing");
	if (!ops->map_keep != !ops->map_take)
		return err_set(-EINVAL,
			       "backend %s: of map_keep and map_take one is missing: both or "
			       "neither",
			       ops->name);
	if (!ops->create && !ops->from_file && !ops->import_fd)
		return err_set(-EINVAL,
			       "backend %s: none of create, from_file and import_fd "
			       "is there: no buffer could exist",
			       ops->name);
	return 0;
}

static void fill_defaults(struct hm_backend_ops *ops)
{
	if (!ops->create)
		ops->create = no_create;
	if (!ops->from_file)
		ops->from_file = no_fd;
	if (!ops->import_fd)
		ops->import_fd = no_fd;
	if (!ops->export_fd)
		ops->export_fd = no_export;
	if (!ops->resize)
		ops->resize = no_resize;
	if (!ops->begin_cpu)
		ops->begin_cpu = no_begin_cpu;
	if (!ops->end_cpu)
		ops->end_cpu = no_end_cpu;
	if (!ops->device_check)
		ops->device_check = no_check;
	if (!ops->map_keep) {
		ops->map_keep = no_map_keep;
		ops->map_take = no_map_take;
	}
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

/*
 * Not checked: the built-in backends are correct by construction, and tests register them by
 * hand, too.
 */
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

	if (!ops)
		return err_set(-EINVAL, "hm_backend_register: ops is NULL");
	init();
	pthread_mutex_lock(&lock);
	r = add_locked(ops);
	pthread_mutex_unlock(&lock);
	return r;
}

int backend_explain(const struct hm_backend_ops *ops, int r, const char *op)
{
	if (!r || *hm_errmsg())
		return r;
	return err_set(r, "backend %s: %s: %s", ops->name, op, err_name(r));
}

bool backend_ends_cpu(const struct hm_backend_ops *ops)
{
	return ops->end_cpu != no_end_cpu;
}

bool backend_can_go(const struct hm_backend_ops *ops)
{
	return ops->device_check != no_check;
}

enum ask backend_asks(const struct hm_backend_ops *ops)
{
	if (!backend_can_go(ops))
		return ASK_NOBODY;
	return ops->device_ask == ops->device_check ? ASK_CHECK : ASK_DEVICE;
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
