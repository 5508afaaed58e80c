// SPDX-License-Identifier: MIT
/* Accelerators: the kinds, listing, opening, query. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accel/accel.h"
#include "hook/hook.h"
#include "base/sys.h"
#include "tell/trace.h"

#define KIND_MAX 16

/*
 * The kinds, best first; those that every process has come last. Only appended to, under the
 * mutex; readers need none.
 */
static const struct hm_accel_ops *kinds[KIND_MAX];
static _Atomic uint32_t n_kind;
static pthread_mutex_t kinds_mutex = PTHREAD_MUTEX_INITIALIZER;

static const struct hm_accel_ops *const *last_kinds;
static size_t n_last_kind;

void accel_set_builtin(const struct hm_accel_ops *first, const struct hm_accel_ops *const *last,
		       size_t n_last)
{
	kinds[0] = first;
	n_kind = 1;
	last_kinds = last;
	n_last_kind = n_last;
}

static const struct hm_accel_ops *kind_at(uint32_t index)
{
	uint32_t n = atomic_load_explicit(&n_kind, memory_order_acquire);

	if (index < n)
		return kinds[index];
	return index - n < n_last_kind ? last_kinds[index - n] : NULL;
}

/* The name of a missing op, or NULL. */
static const char *missing_op(const struct hm_accel_ops *ops)
{
	const struct {
		const char *name;
		bool there;
	} mandatory[] = {
		{ "list", ops->list },
		{ "open", ops->open },
		{ "close", ops->close },
		{ "query", ops->query },
		{ "kernel_build", ops->kernel_build },
		{ "kernel_free", ops->kernel_free },
		{ "queue_create", ops->queue_create },
		{ "queue_destroy", ops->queue_destroy },
		{ "submit", ops->submit },
		{ "wait", ops->wait },
		{ "notify", ops->notify },
		{ "work_release", ops->work_release },
	}, views[] = {
		{ "view_create", ops->view_create },
		{ "view_destroy", ops->view_destroy },
		{ "view_acquire", ops->view_acquire },
		{ "view_release", ops->view_release },
	}, ranges[] = {
		{ "range_advise", ops->range_advise },
		{ "range_prefetch", ops->range_prefetch },
		{ "range_query", ops->range_query },
		{ "range_events", ops->range_events },
		{ "range_counts", ops->range_counts },
		{ "range_learn", ops->range_learn },
	};
	uint32_t i, n = 0, n_range = 0;

	for (i = 0; i < ARRAY_SIZE(mandatory); i++)
		if (!mandatory[i].there)
			return mandatory[i].name;
	for (i = 0; i < ARRAY_SIZE(views); i++)
		n += views[i].there;
	for (i = 0; n && i < ARRAY_SIZE(views); i++)
		if (!views[i].there)
			return views[i].name;
	for (i = 0; i < ARRAY_SIZE(ranges); i++)
		n_range += ranges[i].there;
	for (i = 0; n_range && i < ARRAY_SIZE(ranges); i++)
		if (!ranges[i].there)
			return ranges[i].name;
	return NULL;
}

int hm_accel_register(const struct hm_accel_ops *ops)
{
	const size_t least = offsetof(struct hm_accel_ops, view_create);
	const struct hm_accel_ops *kind;
	struct hm_accel_ops *copy = NULL;
	const char *missing;
	uint32_t i;
	int r = 0;

	err_begin();
	if (!ops || ops->size < least || !ops->name || !ops->name[0] ||
	    strchr(ops->name, ':') || !ops->form)
		return err_set(-EINVAL,
			       "an accelerator needs a table of %zu bytes at least, a name "
			       "without ':' and the form of kernels it runs",
			       least);
	if (ops->size > sizeof(*ops))
		return err_set(-E2BIG,
			       "accelerator %s: its table has %zu bytes, this library "
			       "knows %zu",
			       ops->name, ops->size, sizeof(*ops));
	if (ops->size < sizeof(*ops)) {
		copy = sys_calloc(1, sizeof(*copy));
		if (!copy)
			return err_set(-ENOMEM, "accelerator %s: no memory", ops->name);
		memcpy(copy, ops, ops->size);
		ops = copy;
	}
	missing = missing_op(ops);
	if (missing) {
		r = err_set(-EINVAL, "accelerator %s: %s is missing", ops->name, missing);
		goto err_free;
	}
	pthread_mutex_lock(&kinds_mutex);
	for (i = 0; (kind = kind_at(i)); i++)
		if (!strcmp(kind->name, ops->name))
			r = err_set(-EEXIST, "there is an accelerator %s already", ops->name);
	if (!r && n_kind == KIND_MAX)
		r = err_set(-ENOSPC,
			    "accelerator %s: %d kinds are registered already, and no "
			    "more are possible",
			    ops->name, KIND_MAX);
	if (!r) {
		kinds[n_kind] = ops;
		atomic_store_explicit(&n_kind, n_kind + 1, memory_order_release);
	}
	pthread_mutex_unlock(&kinds_mutex);
	if (!r)
		return 0;
err_free:
	free(copy);
	return r;
}

/* The @index-th accelerator over all kinds; -ENODEV past the last. */
static int list_at(uint32_t index, struct hm_accel_info *info)
{
	const struct hm_accel_ops *ops;
	uint32_t kind, i;

	for (kind = 0; (ops = kind_at(kind)); kind++)
		for (i = 0;; i++, index--) {
			memset(info, 0, sizeof(*info));
			snprintf(info->forms, sizeof(info->forms), "%s", ops->form);
			if (ops->list(i, info))
				break;
			if (!index)
				return 0;
		}
	return -ENODEV;
}

int hm_accel_list(struct hm_accel_info *infos, uint32_t capacity, uint32_t *ret_n)
{
	struct hm_accel_info info;
	uint32_t n, stride = 0;
	int r;

	err_begin();
	if (!ret_n || (capacity && !infos))
		return err_set(-EINVAL, "hm_accel_list: %s is NULL", ret_n ? "infos" : "ret_n");
	if (capacity) {
		stride = infos[0].struct_size;
		r = struct_check_out(stride, sizeof(info),
				     offsetof(struct hm_accel_info, units), "hm_accel_info");
		if (r)
			return r;
	}
	fork_init();
	for (n = 0; !list_at(n, &info); n++) {
		struct hm_accel_info *to;

		if (n >= capacity)
			continue;
		to = (struct hm_accel_info *)((char *)infos + (size_t)n * stride);
		to->struct_size = stride;
		struct_write(to, &info, stride);
	}
	err_clear(); /* a kind that this machine lacks may have left a text */
	*ret_n = n;
	return 0;
}

static int refuse_name(const char *name)
{
	struct hm_accel_info info;
	char text[512];
	size_t length = 0;
	uint32_t n;

	text[0] = '\0';
	for (n = 0; !list_at(n, &info) && length < sizeof(text); n++)
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%s",
					   n ? ", " : "", info.name);
	return err_set(-ENODEV, "there is no accelerator \"%.64s\" here: there are %s", name,
		       text);
}

/* The kind with the name @name up to a ':'. */
static const struct hm_accel_ops *find_kind(const char *name, const char **ret_rest)
{
	size_t length = strcspn(name, ":");
	const struct hm_accel_ops *ops;
	uint32_t i;

	for (i = 0; (ops = kind_at(i)); i++)
		if (strlen(ops->name) == length && !memcmp(ops->name, name, length)) {
			*ret_rest = name[length] ? name + length + 1 : name + length;
			return ops;
		}
	return NULL;
}

static int read_desc(struct hm_accel_desc *to, const struct hm_accel_desc *from)
{
	const uint32_t known = HM_ACCEL_FORCE_COPY | HM_ZERO_COPY_ONLY | HM_ACCEL_NO_QUIRKS |
			       HM_ACCEL_IMPLICIT;
	int r;

	memset(to, 0, sizeof(*to));
	if (!from)
		return 0;
	r = struct_read(to, sizeof(*to), from, from->struct_size, sizeof(*to), "hm_accel_desc");
	if (r)
		return r;
	if (to->flags & ~known)
		return err_set(-EINVAL, "hm_accel_open: unknown flags 0x%" PRIx32,
			       to->flags & ~known);
	if ((to->flags & HM_ACCEL_FORCE_COPY) && (to->flags & HM_ZERO_COPY_ONLY))
		return err_set(-EINVAL, "hm_accel_open: HM_ACCEL_FORCE_COPY and "
					"HM_ZERO_COPY_ONLY exclude each other");
	return 0;
}

static int query(struct hm_accel *accel, struct hm_accel_info *info)
{
	int r;

	memset(info, 0, sizeof(*info));
	snprintf(info->forms, sizeof(info->forms), "%s", accel->ops->form);
	snprintf(info->name, sizeof(info->name), "%s", accel->name);
	r = accel->ops->query(accel->data, info);
	/* A kind whose table lacks the operation can't have the capability. */
	if (!accel->ops->any_acquire)
		info->caps &= ~(uint32_t)HM_ACCEL_ANY_POINTER;
	if (!accel->ops->range_advise)
		info->caps &= ~(uint32_t)(HM_ACCEL_MIRROR | HM_ACCEL_MIGRATE | HM_ACCEL_TOLD);
	return r;
}

int hm_accel_open(const char *name, const struct hm_accel_desc *desc,
		  struct hm_accel **ret_accel)
{
	const struct hm_accel_ops *ops;
	struct hm_accel_desc known;
	struct hm_accel_info info;
	struct hm_accel *accel;
	const char *rest;
	uint32_t said;
	int r;

	err_begin();
	if (!ret_accel)
		return err_set(-EINVAL, "hm_accel_open: ret_accel is NULL");
	r = read_desc(&known, desc);
	if (r)
		return r;
	fork_init();
	if (!name) {
		list_at(0, &info);
		name = info.name;
	}
	ops = find_kind(name, &rest);
	if (!ops || strlen(name) >= sizeof(accel->name))
		return refuse_name(name);
	r = hook_open(NULL, name);
	if (r)
		return r;

	accel = sys_calloc(1, sizeof(*accel));
	if (!accel)
		return err_set(-ENOMEM, "no memory for the accelerator \"%s\"", name);
	object_init(&accel->object, OBJECT_ACCEL);
	accel->ops = ops;
	accel->flags = known.flags;
	memcpy(accel->name, name, strlen(name));
	CDS_INIT_LIST_HEAD(&accel->views);
	CDS_INIT_LIST_HEAD(&accel->builds);
	said = err_count();
	r = ops->open(rest, &known, &accel->data);
	/* A kind that knows the reason has set a text. */
	if (r == -ENODEV && !err_said_since(said))
		r = refuse_name(name);
	if (r)
		goto err_free;
	r = query(accel, &info);
	if (r)
		goto err_close;
	if (known.flags & HM_ACCEL_IMPLICIT && !(info.caps & HM_ACCEL_FENCES)) {
		r = err_set(-EOPNOTSUPP,
			    "%s: its work has no part in the fences of dma-bufs: open it "
			    "without HM_ACCEL_IMPLICIT, and order work by "
			    "hm_fence_import_dmabuf()",
			    info.name);
		goto err_close;
	}
	/* "opencl" opens "opencl:0": tells the full name. */
	memcpy(accel->name, info.name, sizeof(accel->name));
	accel->window = info.window;
	accel->caps = info.caps;
	*ret_accel = accel;
	trace_tell();
	return 0;

err_close:
	ops->close(accel->data);
err_free:
	free(accel);
	return r;
}

int hm_accel_query(struct hm_accel *accel, struct hm_accel_info *ret_info)
{
	struct hm_accel_info info;
	int r;

	err_begin();
	r = object_check((struct hm_object *)accel, OBJECT_ACCEL);
	if (r)
		return r;
	if (!ret_info)
		return err_set(-EINVAL, "hm_accel_query: ret_info is NULL");
	r = struct_check_out(ret_info->struct_size, sizeof(info),
			     offsetof(struct hm_accel_info, units), "hm_accel_info");
	if (!r)
		r = query(accel, &info);
	if (!r)
		struct_write(ret_info, &info, ret_info->struct_size);
	return r;
}

struct hm_accel *hm_accel_ref(struct hm_accel *accel)
{
	if (accel)
		object_ref(&accel->object);
	return accel;
}

static void end(struct hm_accel *accel)
{
	accel_view_detach_all(accel);
	kernel_end_builds(accel);
	accel->ops->close(accel->data);
	accel->object.kind = OBJECT_FREED;
	free(accel);
}

static void end_deferred(struct view_deferred *deferred)
{
	struct hm_accel *accel = caa_container_of(deferred, struct hm_accel, deferred);

	/* In a child of a callback the locks are as the parent had them. */
	if (accel->object.fork_gen == fork_generation)
		end(accel);
}

void hm_accel_unref(struct hm_accel *accel)
{
	if (!accel || !object_put(&accel->object))
		return;
	err_hold();
	/* This thread, or another, may be changing maps of its views. */
	if (unlikely(view_in_callback()))
		view_defer(&accel->deferred, end_deferred);
	else
		end(accel);
	err_release();
}
