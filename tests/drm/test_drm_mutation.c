// SPDX-License-Identifier: MIT
/*
 * Every field that a row of runtime/backend/drm sends is changed on its way into the fake kernel,
 * which must refuse it as the real one does, or do something else. A field that the kernel ignores
 * is UNREAD in drm_fields.c, with the reason, and must be taken. A byte of a struct that is in no
 * line of that table fails the test.
 */
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <hetmap/drm.h>

#include "drm/drm_fields.h"
#include "drm/drm_support.h"
#include "base/err.h"
#include "lifecycle/lifecycle.h"
#include "base/sys.h"
#include "base/util.h"
#include "lib/units.h"

#define SIZE (64 * 1024ull)

static const struct fake_drm_control *fake;

/* ---- all that the rows do ---- */

static int use_object(struct drm_node *node, enum drm_place place)
{
	struct drm_object *object, *again;
	int r, fd;

	r = drm_object_create(node, SIZE, place, &object);
	if (r)
		return r;
	if (node->driver->describe)
		r = node->driver->describe(object);
	if (!r && node->driver->wait)
		r = node->driver->wait(object, true, 1000000000);
	if (!r)
		r = drm_object_export(object, true, &fd);
	if (r)
		goto out;
	r = drm_object_import(node, fd, &again);
	if (!r)
		drm_object_put(again);
	close(fd);
	if (!r)
		r = drm_bracket_begin(object, HM_READ | HM_WRITE);
	if (!r)
		r = drm_bracket_end(object, HM_READ | HM_WRITE);
out:
	drm_object_put(object);
	return r;
}

static int use_memory(struct drm_node *node, bool write)
{
	struct drm_object object = { .node = node };
	struct drm_gem_close gem_close = { 0 };
	void *memory;
	int r;

	if (!node->driver->userptr)
		return 0;
	memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK_FATAL(memory != MAP_FAILED);
	r = node->driver->userptr(node, memory, SIZE, write, &object);
	gem_close.handle = object.handle;
	if (!r)
		r = drm_call(node, DRM_IOCTL_GEM_CLOSE, &gem_close);
	munmap(memory, SIZE);
	return r;
}

/* More than a row asks for is made, and given back. */
static int use_short(struct drm_node *node)
{
	struct drm_object *object;
	int r;

	if (!node->primary)
		return 0;
	fake->dumb_short(true);
	r = drm_object_create(node, SIZE, DRM_PLACE_DEFAULT, &object);
	fake->dumb_short(false);
	err_clear();
	if (!r)
		drm_object_put(object);
	return r == -EIO ? 0 : r ? r : -EPROTO;
}

/* A fence into a syncobj, or a point of it, and out: as it went in? */
static int there_and_back(int node, uint32_t handle, uint64_t point, int fd, int expected)
{
	struct hm_fence *fence, *back;
	int r = hm_fence_import_fd(fd, &fence);

	if (r)
		return r;
	r = hm_fence_export_syncobj(fence, node, handle, point);
	hm_fence_unref(fence);
	if (!r)
		r = hm_fence_import_syncobj(node, handle, point, &back);
	if (r)
		return r;
	r = hm_fence_wait(back, 0);
	hm_fence_unref(back);
	return r == expected ? 0 : r ? r : -EPROTO;
}

static int use_syncobj(int node, uint64_t point)
{
	/* A fence that is done, by a call that signals; and a sync_file, which goes on. */
	int fds[2] = { eventfd(1, EFD_CLOEXEC), fake->sync_file(false) }, r;
	struct drm_syncobj_destroy destroy = { 0 };
	struct drm_syncobj_create create = { 0 };

	CHECK_FATAL(fds[0] >= 0 && fds[1] >= 0);
	r = sys_ioctl(node, DRM_IOCTL_SYNCOBJ_CREATE, &create);
	if (r)
		goto out;
	r = there_and_back(node, create.handle, point, fds[0], 0);
	if (!r)
		r = there_and_back(node, create.handle, point ? point + 1 : 0, fds[1], -ETIME);
	destroy.handle = create.handle;
	if (sys_ioctl(node, DRM_IOCTL_SYNCOBJ_DESTROY, &destroy))
		r = r ? r : -ENOTEMPTY;
out:
	close(fds[0]);
	close(fds[1]);
	return r;
}

static int use_fences(struct drm_node *node, uint32_t features)
{
	int r = 0;

	if (features & HM_DRM_SYNCOBJ)
		r = use_syncobj(node->fd, 0);
	if (!r && features & HM_DRM_TIMELINE)
		r = use_syncobj(node->fd, 5);
	return r;
}

static bool makes_vram;               /* on request, where it is no default */
static struct hm_drm_node usual_node; /* as the list has it without a change */

/* An error of a node is none of the list's: its value is missing there. */
static int use_list(const char *path)
{
	struct hm_drm_node nodes[2 * FAKE_DRM_ALL];
	uint32_t n, i;
	int r;

	nodes[0].struct_size = sizeof(nodes[0]);
	r = hm_drm_list(nodes, ARRAY_SIZE(nodes), &n);
	for (i = 0; !r && i < n && strcmp(nodes[i].path, path) != 0; i++)
		;
	if (r || i == n)
		return r ? r : -ENODATA;
	if (!*usual_node.path)
		usual_node = nodes[i];
	return strcmp(nodes[i].driver, usual_node.driver) != 0 ||
			       strcmp(nodes[i].version, usual_node.version) != 0 ||
			       nodes[i].features != usual_node.features ||
			       nodes[i].memory != usual_node.memory ||
			       nodes[i].memory_visible != usual_node.memory_visible ||
			       nodes[i].memory_system != usual_node.memory_system ?
		       -ENODATA :
		       0;
}

static int use_node(struct drm_node *node)
{
	uint64_t total, available;
	int r = 0;

	if (node->driver->memory)
		r = node->driver->memory(node, &total, &available);
	if (!r)
		r = use_object(node, DRM_PLACE_SYSTEM);
	if (!r)
		r = use_object(node, DRM_PLACE_DEFAULT);
	if (!r && makes_vram)
		r = use_object(node, DRM_PLACE_VRAM);
	if (!r)
		r = use_short(node);
	if (!r)
		r = use_memory(node, true);
	if (!r)
		r = use_memory(node, false);
	if (!r)
		r = use_fences(node, usual_node.features);
	/* A handle that was not closed is a failure that no call tells. */
	if (!r && fake->handles())
		r = -ENOTEMPTY;
	return r;
}

static int use_listed(enum fake_drm_node at)
{
	char path[64];

	return use_list(drm_fake_path(at, path, sizeof(path)));
}

/* Each time the node is opened anew, by its first holder. */
static int use_opened(enum fake_drm_node at)
{
	struct drm_node *node;
	char path[64];
	int r = drm_node_get(drm_fake_path(at, path, sizeof(path)), &node);

	if (r)
		return r;
	r = use_node(node);
	drm_node_put(node);
	return r;
}

/* Apart, as listing takes much longer and sends little. */
static int (*const uses[])(enum fake_drm_node at) = { use_listed, use_opened };

/* ---- the changes ---- */

static int (*use)(enum fake_drm_node at); /* one of them */
static char *usual;                       /* its trace without a change */

/* With a change of @field: refused (an errno), something else (1), the same (0). */
static int outcome(enum fake_drm_node at, const struct drm_field *field, unsigned int nth,
		   uint64_t bits, uint64_t add)
{
	int r;

	fake->trace_clear();
	fake->mutate(field->in, nth, field->offset, min_u64(field->size, 8), bits, add);
	lifecycle_is_lenient = true;
	r = use(at);
	lifecycle_is_lenient = false;
	fake->mutate(NULL, 0, 0, 0, 0, 0);
	return !r && strcmp(fake->trace(), usual) != 0 ? 1 : r;
}

static void check(enum fake_drm_node at, const struct drm_field *field, unsigned int nth,
		  uint64_t bits, uint64_t add, bool *refused)
{
	int r = outcome(at, field, nth, bits, add);
	uint64_t changed = bits ? bits : UINT64_MAX;

	*refused |= r < 0;
	if (field->kind == UNREAD   ? !r :
	    field->spared & changed ? true :
	    field->taken & changed  ? r != 0 :
				      r < 0 || field->sometimes)
		return;
	test_fail(__FILE__, __LINE__, "%s.%s, call %u, bits %#llx + %llu: %s%s", field->in,
		  field->name, nth, (unsigned long long)bits, (unsigned long long)add,
		  r < 0 ? strerror(-r) :
		  r     ? "went on to something else" :
			  "went on as usual",
		  field->kind == UNREAD ? ", though nobody looks at it" : "");
}

static void change(enum fake_drm_node at, const struct drm_field *field, unsigned int nth,
		   bool *refused)
{
	unsigned int bits = (unsigned int)min_u64(field->size, 8) * 8, i;

	switch (field->kind) {
	case BITS:
		for (i = 0; i < bits; i++)
			check(at, field, nth, 1ull << i, 0, refused);
		break;
	case LENGTH:
		check(at, field, nth, 0, 1, refused);
		break;
	case HANDLE:
		check(at, field, nth, 0, 1000, refused);
		break;
	case ADDRESS:
		check(at, field, nth, 0, 1, refused);
		check(at, field, nth, 1ull << 62, 0, refused);
		break;
	case POINTER:
		check(at, field, nth, 1ull << 62, 0, refused);
		break;
	case COUNT:
		check(at, field, nth, 1, 0, refused);
		break;
	case ZERO:
		check(at, field, nth, 1, 0, refused);
		check(at, field, nth, 1ull << (bits - 1), 0, refused);
		break;
	case UNREAD:
		check(at, field, nth, UINT64_MAX, 0, refused);
		break;
	}
}

/* Is each byte of the struct in one line of the table, and in one only? */
static void check_complete(const char *in, size_t size)
{
	size_t i, at, lines;

	for (at = 0; at < size; at++) {
		for (i = lines = 0; i < drm_n_field; i++)
			lines += !strcmp(drm_fields[i].in, in) && at >= drm_fields[i].offset &&
				 at < drm_fields[i].offset + drm_fields[i].size;
		if (lines != 1)
			test_fail(__FILE__, __LINE__, "%s: byte %zu is in %zu lines", in, at,
				  lines);
	}
}

struct sent {
	char name[64];
	size_t size;
	unsigned int times;
};

/* The structs that the rows send when nothing is changed. */
static unsigned int list_sent(enum fake_drm_node at, struct sent *sent, unsigned int room)
{
	const char *name;
	unsigned int n;

	fake->trace_clear();
	CHECK_OK_FATAL(use(at));
	usual = strdup(fake->trace());
	CHECK_FATAL(usual != NULL);
	for (n = 0; n < room && fake->read_struct(n, &name, &sent[n].size, &sent[n].times); n++)
		snprintf(sent[n].name, sizeof(sent[n].name), "%s", name);
	CHECK_FATAL(n < room && (n || use == use_listed)); /* card nodes send nothing */
	return n;
}

/* The list is to open this one only. */
static void hide_others(enum fake_drm_node at, bool hidden)
{
	unsigned int other;

	for (other = 0; other < FAKE_DRM_NODES; other++)
		if (other != at)
			fake->hide(other, hidden);
}

/* For each field: was it sent, and was a change of it refused? */
struct fate {
	bool sent, refused;
};

static void mutate(enum fake_drm_node at, struct fate *fate)
{
	unsigned int n, i, nth;
	struct sent sent[48];
	size_t f;

	n = list_sent(at, sent, ARRAY_SIZE(sent));
	for (i = 0; i < n; i++) {
		check_complete(sent[i].name, sent[i].size);
		for (f = 0; f < drm_n_field; f++) {
			if (strcmp(drm_fields[f].in, sent[i].name) != 0)
				continue;
			fate[f].sent = true;
			for (nth = 0; nth < sent[i].times; nth++)
				change(at, &drm_fields[f], nth, &fate[f].refused);
		}
	}
	free(usual);
}

static void mutate_all(enum fake_drm_node at)
{
	AUTO_FREE struct fate *fate = calloc(drm_n_field, sizeof(*fate));
	size_t i;

	CHECK_FATAL(fate != NULL);
	hide_others(at, true);
	memset(&usual_node, 0, sizeof(usual_node));
	for (i = 0; i < ARRAY_SIZE(uses); i++) {
		use = uses[i];
		mutate(at, fate);
	}
	hide_others(at, false);
	for (i = 0; i < drm_n_field; i++)
		if (fate[i].sent && drm_fields[i].sometimes && !fate[i].refused)
			test_fail(__FILE__, __LINE__, "%s.%s was never refused",
				  drm_fields[i].in, drm_fields[i].name);
}

/* A line that spares something says why. */
static void reasons(void)
{
	size_t i;

	for (i = 0; i < drm_n_field; i++)
		if (!drm_fields[i].why &&
		    (drm_fields[i].kind == UNREAD || drm_fields[i].taken ||
		     drm_fields[i].spared || drm_fields[i].sometimes))
			test_fail(__FILE__, __LINE__, "%s.%s: why?", drm_fields[i].in,
				  drm_fields[i].name);
}

static void amdgpu(void)
{
	mutate_all(FAKE_AMDGPU);
}

static void i915(void)
{
	mutate_all(FAKE_I915);
}

static void i915_old(void)
{
	mutate_all(FAKE_I915_OLD);
}

static void i915_integrated(void)
{
	mutate_all(FAKE_I915_INTEGRATED);
}

static void xe(void)
{
	mutate_all(FAKE_XE);
}

static void nouveau(void)
{
	mutate_all(FAKE_NOUVEAU);
}

static void virtio_gpu(void)
{
	mutate_all(FAKE_VIRTIO);
}

static void virtio_gpu_host(void)
{
	makes_vram = true;
	mutate_all(FAKE_VIRTIO_HOST);
	makes_vram = false;
}

static void card(void)
{
	fake->plug_card();
	mutate_all(FAKE_CARD);
}

static const struct test tests[] = {
	{ "reasons", reasons, .seconds = 0 },
	{ "amdgpu", amdgpu, .seconds = 120 },
	{ "i915", i915, .seconds = 120 },
	{ "i915_old", i915_old, .seconds = 120 },
	{ "i915_integrated", i915_integrated, .seconds = 120 },
	{ "xe", xe, .seconds = 120 },
	{ "nouveau", nouveau, .seconds = 120 },
	{ "virtio_gpu", virtio_gpu, .seconds = 120 },
	{ "virtio_gpu_host", virtio_gpu_host, .seconds = 120 },
	{ "card", card, .seconds = 120 },
	{ 0 },
};

int main(int argc, char **argv)
{
	fake = drm_under_fake(argv);
	return harness_main(argc, argv, "drm_mutation", tests);
}
