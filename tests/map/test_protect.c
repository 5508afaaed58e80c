// SPDX-License-Identifier: MIT
/*
 * Protection scopes: a page has the rights that were given, less those that open scopes take,
 * whatever begins, ends, protects and resizes in between. Each page is touched, and compared
 * with the registry.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "accel/accel_support.h"
#include "lib/units.h"

#define PAGES 8
#define RW (HM_READ | HM_WRITE)

static struct rig set_up(uint32_t flags, uint64_t max_size)
{
	return rig_make("host", DESC(hm_buffer_desc, .flags = flags, .size = PAGES * PAGE,
				     .max_size = max_size));
}

static struct hm_scope *begin(struct rig *w, uint64_t page, uint64_t n, uint32_t access)
{
	struct hm_scope *scope = NULL;

	CHECK_OK_FATAL(hm_map_protect_begin(w->map, page * PAGE, n * PAGE, access, &scope));
	return scope;
}

static uint32_t found(const char *byte)
{
	struct hm_pointer_info info;

	CHECK_OK_FATAL(hm_pointer_find(byte, &info));
	return info.access;
}

static char letter(uint32_t access)
{
	return access & HM_WRITE ? 'w' : access & HM_READ ? 'r' : '-';
}

/* "ww-r": a letter a page, by the registry and by touch. */
static void check_rights(const struct rig *w, const char *rights)
{
	char said[4 * PAGES + 1] = "", is[4 * PAGES + 1] = "";
	uint64_t i, n = strlen(rights);
	char *at;

	for (i = 0; i < n; i++) {
		at = w->bytes + i * PAGE;
		said[i] = letter(found(at));
		is[i] = test_read_signal(at) ? '-' : test_write_signal(at) ? 'r' : 'w';
	}
	if (strcmp(said, rights) != 0 || strcmp(is, rights) != 0)
		test_fail(__FILE__, __LINE__,
			  "%s expected, the registry says %s, the kernel %s", rights, said, is);
}

static void nested(void)
{
	struct hm_scope *a, *b, *c;
	AUTO(rig) w = set_up(0, 0);

	check_rights(&w, "wwwwwwww");
	a = begin(&w, 1, 4, HM_READ);
	check_rights(&w, "wrrrrwww");
	b = begin(&w, 3, 4, HM_NONE);
	check_rights(&w, "wrr----w");
	/* A scope only takes rights: this one allows all, and gives none back. */
	c = begin(&w, 0, 8, RW);
	check_rights(&w, "wrr----w");
	/* Given meanwhile: the base changes, the scopes still take. */
	CHECK_OK(hm_map_protect(w.map, 0, 2 * PAGE, HM_NONE));
	CHECK_OK(hm_map_protect(w.map, 7 * PAGE, PAGE, HM_READ));
	check_rights(&w, "--r----r");
	CHECK_OK(hm_map_protect(w.map, 0, PAGE, RW));
	check_rights(&w, "w-r----r");
	/* In any order. */
	CHECK_OK(hm_map_protect_end(a));
	check_rights(&w, "w-w----r");
	CHECK_OK(hm_map_protect_end(c));
	check_rights(&w, "w-w----r");
	CHECK_OK(hm_map_protect_end(b));
	check_rights(&w, "w-wwwwwr");
	CHECK_EQUAL(map_info(w.map, 0).runs, 4);
	CHECK_OK(hm_map_protect(w.map, 0, PAGES * PAGE, RW));
	a = begin(&w, 0, 8, HM_NONE);
	CHECK_EQUAL(map_info(w.map, 0).runs, 1);
	b = begin(&w, 0, 8, HM_READ);
	CHECK_OK(hm_map_protect_end(a));
	check_rights(&w, "rrrrrrrr");
	CHECK_OK(hm_map_protect_end(b));
	CHECK_EQUAL(map_info(w.map, 0).runs, 1);
	check_rights(&w, "wwwwwwww");
}

/* Against a model: random scopes, ends, rights and sizes. */
#define SCOPES 6
#define STEPS 400

struct model {
	uint32_t base[4 * PAGES];
	struct {
		struct hm_scope *scope;
		uint64_t from, to; /* pages */
		uint32_t access;
	} scopes[SCOPES];
	uint64_t pages;
};

static void compare(const struct rig *w, const struct model *m)
{
	char rights[4 * PAGES + 1] = "";
	uint32_t access;
	uint64_t i, k;

	for (i = 0; i < m->pages; i++) {
		access = m->base[i];
		for (k = 0; k < SCOPES; k++)
			if (m->scopes[k].scope && i >= m->scopes[k].from && i < m->scopes[k].to)
				access &= m->scopes[k].access;
		rights[i] = letter(access);
	}
	check_rights(w, rights);
}

static void resize(struct rig *w, struct model *m, uint64_t pages, uint32_t flags)
{
	uint64_t i;

	CHECK_OK_FATAL(hm_buffer_resize(w->buffer, pages * PAGE, flags));
	w->bytes = hm_map_address(w->map);
	for (i = 0; i < SCOPES; i++)
		if (m->scopes[i].to > pages)
			m->scopes[i].to = pages;
	for (i = m->pages; i < pages; i++)
		m->base[i] = RW;
	m->pages = pages;
}

static void random_walk(void)
{
	static const uint32_t rights[] = { HM_NONE, HM_READ, RW };
	static const uint32_t ways[] = { 0, 0, HM_GROW_REPLACE, HM_GROW_APPEND };
	uint64_t seed = test_seed(), i, k, page, n;
	struct model m = { .pages = PAGES };
	uint32_t access;
	AUTO(rig) w = set_up(0, 4 * PAGES * PAGE);

	for (i = 0; i < PAGES; i++)
		m.base[i] = RW;
	for (i = 0; i < STEPS; i++) {
		k = test_random(&seed) % SCOPES;
		page = test_random(&seed) % m.pages;
		n = 1 + test_random(&seed) % (m.pages - page);
		access = rights[test_random(&seed) % 3];
		switch (test_random(&seed) % 4) {
		case 0:
			if (i % 8 == 0)
				resize(&w, &m, 1 + test_random(&seed) % (4 * PAGES), 0);
			else if (m.pages < 3 * PAGES)
				resize(&w, &m, m.pages + 1, ways[test_random(&seed) % 4]);
			break;
		case 1:
			CHECK_OK(hm_map_protect(w.map, page * PAGE, n * PAGE, access));
			while (n--)
				m.base[page + n] = access;
			break;
		default:
			if (m.scopes[k].scope) {
				CHECK_OK(hm_map_protect_end(m.scopes[k].scope));
				m.scopes[k].scope = NULL;
				break;
			}
			m.scopes[k].scope = begin(&w, page, n, access);
			m.scopes[k].from = page;
			m.scopes[k].to = page + n;
			m.scopes[k].access = access;
			break;
		}
		compare(&w, &m);
	}
	for (k = 0; k < SCOPES; k++)
		CHECK_OK(hm_map_protect_end(m.scopes[k].scope));
	memset(m.scopes, 0, sizeof(m.scopes));
	compare(&w, &m);
}

static void resized(void)
{
	struct hm_scope *a, *b;
	AUTO(rig) w = set_up(0, 2 * PAGES * PAGE);

	a = begin(&w, 4, 4, HM_READ);
	b = begin(&w, 6, 2, HM_NONE);
	check_rights(&w, "wwwwrr--");
	CHECK_OK(hm_buffer_resize(w.buffer, 5 * PAGE + 100, 0));
	check_rights(&w, "wwwwrr");
	/* New pages have all rights, also where a scope was. */
	CHECK_OK(hm_buffer_resize(w.buffer, 10 * PAGE, 0));
	check_rights(&w, "wwwwrrwwww");
	CHECK_OK(hm_map_protect_end(b)); /* none of it is left */
	check_rights(&w, "wwwwrrwwww");
	CHECK_OK(hm_buffer_resize(w.buffer, 30 * PAGE, HM_MAY_MOVE));
	w.bytes = hm_map_address(w.map);
	check_rights(&w, "wwwwrrwwwwwwwwwwwwwwwwwwwwwwww");
	CHECK_OK(hm_map_protect_end(a));
	check_rights(&w, "wwwwwwwwwwwwwwwwwwwwwwwwwwwwww");
	CHECK_EQUAL(map_info(w.map, 0).runs, 1);
}

/* The scope keeps its map, the map its buffer. */
static void references(void)
{
	struct rig w = set_up(HM_BUFFER_PRIVATE, 0);
	struct hm_scope *a = begin(&w, 0, 1, HM_READ);

	hm_map_unref(w.map);
	hm_buffer_unref(w.buffer);
	check_rights(&w, "rwwwwwww");
	CHECK_EQUAL(stats_now().maps, 1);
	CHECK_OK(hm_map_protect_end(a));
	CHECK_EQUAL(stats_now().maps, 0);
	hm_device_unref(w.device);
}

static void in_child(void *user)
{
	struct hm_scope *scope = user;

	CHECK_ERROR(-EOWNERDEAD, hm_map_protect_end(scope));
}

static void arguments(void)
{
	struct hm_scope *scope = (struct hm_scope *)0x10, *open;
	AUTO(rig) w = set_up(0, 0);

	CHECK_ERROR(-EINVAL, hm_map_protect_begin(NULL, 0, PAGE, HM_READ, &scope));
	CHECK_ERROR(-EINVAL, hm_map_protect_begin(w.map, 0, PAGE, HM_READ, NULL));
	CHECK_ERROR(-EINVAL, hm_map_protect_begin(w.map, 0, PAGE, HM_WRITE, &scope));
	CHECK_ERROR(-EINVAL, hm_map_protect_begin(w.map, 0, PAGE, 8, &scope));
	CHECK_ERROR(-EINVAL, hm_map_protect_begin(w.map, 0, 0, HM_READ, &scope));
	CHECK_ERROR(-EINVAL, hm_map_protect_begin(w.map, 1, PAGE, HM_READ, &scope));
	CHECK_ERROR(-ERANGE, hm_map_protect_begin(w.map, PAGE, PAGES * PAGE, HM_READ, &scope));
	CHECK(scope == (struct hm_scope *)0x10);
	CHECK_EQUAL(map_info(w.map, 0).runs, 1);
	CHECK_OK(hm_map_protect_end(NULL));
	CHECK_ERROR(-EINVAL, hm_map_protect_end((struct hm_scope *)w.map));
	open = begin(&w, 0, 1, HM_READ);
	CHECK_EQUAL(test_fork(in_child, open), 0);
	CHECK_OK(hm_map_protect_end(open));
	/* A scope can't give a right that the map, or the buffer, has not. */
	AUTO(hm_map) *map = rig_map(w.buffer, DESC(hm_map_desc, .access = HM_READ));
	CHECK_OK_FATAL(hm_map_protect_begin(map, 0, PAGE, RW, &open));
	CHECK_EQUAL(found(hm_map_address(map)), HM_READ);
	CHECK_OK(hm_map_protect_end(open));
}

/* ---- other users of the map ---- */

struct told {
	uint32_t access[16];
	unsigned int n;
	int refuse;
};

static int quiesce(void *user, const struct hm_view_change *change)
{
	struct told *told = user;

	(void)change;
	return told->refuse;
}

static void reattach(void *user, const struct hm_view_change *change)
{
	struct told *told = user;

	if (told->n < 16)
		told->access[told->n++] = change->new_access;
}

static void views(void)
{
	const struct hm_view_ops ops = {
		.struct_size = sizeof(ops),
		.quiesce = quiesce,
		.reattach = reattach,
	};
	struct told told = { .n = 0 };
	struct hm_scope *a, *b, *none = NULL;
	AUTO(rig) w = set_up(0, 0);
	AUTO(hm_view) *view = NULL;

	CHECK_OK_FATAL(hm_view_create(w.map, 0, 2 * PAGE, &ops, &told, &view));
	a = begin(&w, 1, 2, HM_READ);
	b = begin(&w, 4, 1, HM_NONE); /* not of its bytes */
	CHECK_EQUAL(told.n, 1);
	CHECK_EQUAL(told.access[0], HM_READ);
	told.refuse = -EBUSY;
	CHECK_ERROR(-EBUSY, hm_map_protect_begin(w.map, 0, PAGE, HM_NONE, &none));
	CHECK(!none);
	CHECK_ERROR(-EBUSY, hm_map_protect_end(a));
	check_rights(&w, "wrrw-www");
	told.refuse = 0;
	CHECK_OK(hm_map_protect_end(a));
	CHECK_EQUAL(told.access[told.n - 1], RW);
	CHECK_OK(hm_map_protect_end(b));
	check_rights(&w, "wwwwwwww");
}

/* Every accelerator: an error at the launch, with the cause, and the work after it. */
static void launches(const char *accel)
{
	struct hm_fence *fence = NULL;
	struct hm_pointer_info info;
	struct hm_scope *scope;
	uint32_t *p, *q;
	struct accel_rig rig;

	accel_rig_open(&rig, accel, 0, 0);
	p = alloc_bytes(&rig, 2 * PAGE);
	q = alloc_bytes(&rig, 2 * PAGE);
	CHECK_OK(hm_pointer_find(p, &info));
	RUN(&rig, FILL, 16, HM_OUT(p), HM_U32(7));
	CHECK_OK_FATAL(hm_map_protect_begin(info.map, PAGE, PAGE, HM_READ, &scope));
	CHECK_ERROR(-EACCES,
		    hm_launch(rig.queue, rig.kernel[FILL], 16, &fence, HM_OUT(p), HM_U32(8)));
	CHECK(text_has("kernel fill, argument 0") && text_has("8192 bytes from offset 0"));
	CHECK(text_has("scope of hm_map_protect_begin()"));
	CHECK_ERROR(-EACCES, hm_queue_copy(rig.queue, p, q, 2 * PAGE, &fence));
	CHECK(text_has("the target") && text_has("scope"));
	CHECK_ERROR(-EACCES, hm_queue_fill(rig.queue, p + PAGE / 4, 1, PAGE, &fence));
	CHECK(!fence);
	/* The scope allows reads, and all access to the other page. */
	CHECK_OK_FATAL(hm_queue_copy(rig.queue, q, p, 2 * PAGE, &fence));
	finish(fence);
	CHECK_EQUAL(q[0], 7);
	RUN(&rig, FILL, 16, HM_RANGE(p, PAGE, HM_WRITE), HM_U32(9));
	CHECK_OK(hm_map_protect_end(scope));
	RUN(&rig, FILL, 16, HM_OUT(p), HM_U32(10));
	/* The rights that it was given have no scope for a cause. */
	CHECK_OK(hm_map_protect(info.map, 0, PAGE, HM_READ));
	CHECK_ERROR(-EACCES,
		    hm_launch(rig.queue, rig.kernel[FILL], 16, &fence, HM_OUT(p), HM_U32(8)));
	CHECK(!strstr(hm_errmsg(), "scope"));
	CHECK_OK(hm_free(p));
	CHECK_OK(hm_free(q));
	accel_rig_close(&rig);
}

static void on_cpu(void)
{
	launches("cpu");
}

static void on_pocl(void)
{
	if (use_pocl("basic"))
		launches("opencl:0");
}

static void on_stub(void)
{
	use_stub("");
	launches("opencl:0");
}

static void on_stub_that_copies(void)
{
	use_stub("shadow");
	launches("opencl:0");
}

static void on_soft(void)
{
	launches("soft:0");
}

static void on_sim(void)
{
	launches("sim:0");
}

static void brackets(void)
{
	struct hm_scope *scope;
	AUTO(rig) w = set_up(0, 0);

	CHECK_OK(hm_map_begin_cpu(w.map, 0, 2 * PAGE, RW));
	CHECK_OK(hm_map_begin_cpu(w.map, 0, 2 * PAGE, HM_READ));
	CHECK_OK(hm_map_begin_cpu(w.map, 0, PAGE, RW));
	scope = begin(&w, 1, 1, HM_READ);
	/* Begun before: each ends, and names the right that was withdrawn. */
	CHECK_ERROR(-EACCES, hm_map_end_cpu(w.map, 0, 2 * PAGE, RW));
	CHECK(text_has("hm_map_end_cpu") && text_has("8192 bytes from 0"));
	CHECK(text_has("may not be written") && text_has("scope"));
	CHECK_OK(hm_map_end_cpu(w.map, 0, 2 * PAGE, HM_READ));
	CHECK_OK(hm_map_end_cpu(w.map, 0, PAGE, RW));
	CHECK_EQUAL(map_info(w.map, 0).brackets, 0);
	CHECK_ERROR(-EACCES, hm_map_begin_cpu(w.map, 0, 2 * PAGE, RW));
	CHECK(text_has("may not be written") && text_has("scope"));
	CHECK_OK(hm_map_begin_cpu(w.map, 0, 2 * PAGE, HM_READ));
	CHECK_OK(hm_map_end_cpu(w.map, 0, 2 * PAGE, HM_READ));
	CHECK_OK(hm_map_begin_cpu(w.map, 0, PAGE, RW));
	CHECK_OK(hm_map_end_cpu(w.map, 0, PAGE, RW));
	CHECK_OK(hm_map_protect_end(scope));
	/* Given back in time: a store meanwhile got a signal, and nothing is lost. */
	CHECK_OK(hm_map_begin_cpu(w.map, 0, 2 * PAGE, RW));
	scope = begin(&w, 1, 1, HM_READ);
	CHECK_OK(hm_map_protect_end(scope));
	CHECK_OK(hm_map_end_cpu(w.map, 0, 2 * PAGE, RW));
	/* The rights that it was given have no scope for a cause. */
	CHECK_OK(hm_map_begin_cpu(w.map, 0, PAGE, HM_READ));
	CHECK_OK(hm_map_protect(w.map, 0, PAGE, HM_NONE));
	CHECK_ERROR(-EACCES, hm_map_end_cpu(w.map, 0, PAGE, HM_READ));
	CHECK(text_has("may not be read") && !strstr(hm_errmsg(), "scope"));
	CHECK_EQUAL(map_info(w.map, 0).brackets, 0);
}

/* HM_WRITE can't be withdrawn from a read-only map, although a bracket may name it. */
static void brackets_to_read(void)
{
	AUTO(rig) w = set_up(0, 0);
	AUTO(hm_map) *map = rig_map(w.buffer, DESC(hm_map_desc, .access = HM_READ));

	CHECK_OK(hm_map_begin_cpu(map, 0, PAGE, RW));
	CHECK_OK(hm_map_protect(map, PAGE, PAGE, HM_NONE));
	CHECK_OK(hm_map_end_cpu(map, 0, PAGE, RW));
}

/* A guard and a copy name the scope that took the right. */
static void guards(void)
{
	struct hm_fault fault = { .struct_size = sizeof(fault) };
	struct hm_scope *scope, *none;
	struct hm_guard guard;
	char byte = 1;
	int r;
	AUTO(rig) w = set_up(0, 0);
	AUTO(rig_handler) handler = rig_handler(0);

	scope = begin(&w, 1, 1, HM_READ);
	none = begin(&w, 2, 1, HM_NONE);
	HM_GUARD_INIT(&guard);
	r = hm_guard_begin(&guard);
	if (!r) {
		*(volatile char *)(w.bytes + PAGE) = 1;
		r = hm_guard_end(&guard);
	}
	CHECK_EQUAL(r, -EACCES);
	CHECK(text_has("does not give that access") &&
	      text_has("scope of hm_map_protect_begin()"));
	CHECK_ERROR(-EACCES, hm_copy_in(w.bytes + PAGE, &byte, 1, &fault));
	CHECK_EQUAL(fault.cause, HM_FAULT_RIGHTS);
	CHECK(text_has("scope of hm_map_protect_begin()"));
	CHECK_ERROR(-EACCES, hm_copy_out(&byte, w.bytes + 2 * PAGE, 1, &fault));
	CHECK(text_has("scope of hm_map_protect_begin()"));
	CHECK_OK(hm_map_protect_end(none));
	CHECK_OK(hm_map_protect_end(scope));
	CHECK_OK(hm_map_protect(w.map, PAGE, PAGE, HM_READ));
	CHECK_ERROR(-EACCES, hm_copy_in(w.bytes + PAGE, &byte, 1, &fault));
	CHECK(!strstr(hm_errmsg(), "scope"));
}

/* Threads with scopes of their own, while one resizes: all ends as it began. */
#define THREADS 3
#define ROUNDS 200

struct worker {
	pthread_t thread;
	struct rig *w;
	uint64_t seed;
};

static void *work(void *user)
{
	struct worker *worker = user;
	struct hm_scope *scope;
	uint64_t page, n;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		page = test_random(&worker->seed) % PAGES;
		n = 1 + test_random(&worker->seed) % (PAGES - page);
		if (hm_map_protect_begin(worker->w->map, page * PAGE, n * PAGE, HM_READ,
					 &scope)) {
			test_fail(__FILE__, __LINE__, "begin: %s", hm_errmsg());
			return NULL;
		}
		/* No end of another scope gives back a right that this one took. */
		if (found(worker->w->bytes + page * PAGE) & HM_WRITE)
			test_fail(__FILE__, __LINE__,
				  "the scope is open, and it may be written");
		if (hm_map_protect_end(scope))
			test_fail(__FILE__, __LINE__, "end: %s", hm_errmsg());
	}
	return NULL;
}

static void threads(void)
{
	struct worker workers[THREADS];
	uint64_t seed = test_seed();
	int i;
	AUTO(rig) w = set_up(0, 4 * PAGES * PAGE);

	for (i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .w = &w, .seed = seed + (uint64_t)i };
		CHECK_FATAL(!pthread_create(&workers[i].thread, NULL, work, &workers[i]));
	}
	for (i = 0; i < ROUNDS; i++)
		CHECK_OK(hm_buffer_resize(w.buffer, (PAGES + 1 + (uint64_t)i % 8) * PAGE, 0));
	for (i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	CHECK_OK(hm_buffer_resize(w.buffer, PAGES * PAGE, 0));
	check_rights(&w, "wwwwwwww");
	CHECK_EQUAL(map_info(w.map, 0).runs, 1);
}

static struct test tests[] = {
	{ "nested", nested, 0, 0 },
	{ "random_walk", random_walk, 60, 0 },
	{ "resized", resized, 0, 0 },
	{ "references", references, 0, 0 },
	{ "arguments", arguments, 0, 0 },
	{ "views", views, 0, 0 },
	{ "on_cpu", on_cpu, 0, 0 },
	{ "on_pocl", on_pocl, 60, 0 },
	{ "on_stub", on_stub, 60, 0 },
	{ "on_stub_that_copies", on_stub_that_copies, 60, 0 },
	{ "on_soft", on_soft, 0, 0 },
	{ "brackets", brackets, 0, 0 },
	{ "brackets_to_read", brackets_to_read, 0, 0 },
	{ "guards", guards, 0, 0 },
	{ "threads", threads, 60, 0 },
	{ "on_sim", on_sim, 0, 0 }, /* the last one: where there is one */
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	struct hm_device *device = NULL;

	if (hm_device_open("sim:0", &device))
		tests[sizeof(tests) / sizeof(tests[0]) - 2].name = NULL;
	hm_device_unref(device);
	return harness_main(argc, argv, "protect", tests);
}
