// SPDX-License-Identifier: MIT
/*
 * Walks the table of lifecycles: on each way to make a buffer there is, an object is brought
 * into each state, each operation is made there, and its result and the state after it are
 * compared with the table. A state that a subject has not is printed, and so is the number of
 * cells walked; a cell that no subject reaches is a failure.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/err.h"
#include "lifecycle/lifecycle_world.h"
#include "lib/minimal_backend.h"
#include "fake_drm/control.h"

#define SUBJECTS_MAX 64
#define OPS_MAX 160

static struct subject subjects[SUBJECTS_MAX];
static unsigned int n_subject, n_state;
static struct test *tests;

/* Shared with the tests' children: cells by operation and state. */
static struct sums {
	_Atomic bool ran[SUBJECTS_MAX * LC_STATES]; /* the tests, in their order */
	_Atomic uint32_t not_reached;
	_Atomic uint32_t walked[OPS_MAX][LC_STATES_MAX];
} * sums;

static const struct lifecycle_state_text *text_of(uint32_t noun, uint32_t state)
{
	const struct lifecycle_state_text *first = NULL;

	CHECK_FATAL(state < lifecycle_states(noun, &first));
	return &first[state];
}

static const struct life_call *find_call(const struct life_call *call,
					 const struct lifecycle_op *op)
{
	for (; call->call; call++)
		if (call->noun == op->noun && !strcmp(call->function, op->function) &&
		    !strcmp(call->variant, op->variant))
			return call;
	return NULL;
}

static const struct life_call *call_of(const struct lifecycle_op *op)
{
	const struct life_call *call = find_call(life_calls, op);

	return call ? call : find_call(life_calls_work, op);
}

/* ---- one cell ---- */

struct cell_walk {
	struct life *life;
	const struct lifecycle_op *op;
	const struct life_call *call;
	const struct lifecycle_cell *cell;
};

static bool is_supported(const struct cell_walk *walk)
{
	struct life *life = walk->life;

	if (walk->call->is_supported && !walk->call->is_supported(life))
		return false;
	return !walk->op->capability ||
	       (walk->op->noun == LC_DEVICE ? life->f.device_info.caps : life->f.caps) &
		       walk->op->capability;
}

/* The results the table allows, as this subject has them. */
static bool is_expected(const struct cell_walk *walk, int r)
{
	bool supported = is_supported(walk);

	switch (walk->cell->kind) {
	case CELL_NO:
		return r == -walk->cell->error ||
		       (walk->cell->other && r == -walk->cell->other) ||
		       (!supported && r == -EOPNOTSUPP);
	case CELL_EITHER:
		return !r || r == -walk->cell->error ||
		       (walk->cell->other && r == -walk->cell->other) ||
		       (!supported && r == -EOPNOTSUPP);
	default:
		return supported ? !r : r == -EOPNOTSUPP;
	}
}

/* See hm_errmsg(3). */
static bool leaves_text(const char *function)
{
	static const char *const others[] = { "hm_pointer_find",   "hm_free",
					      "hm_pool_free",      "hm_guard_end",
					      "hm_map_address",    "hm_map_length",
					      "hm_tensor_address", "hm_drm_view_release" };
	size_t i, length = strlen(function);

	for (i = 0; i < ARRAY_SIZE(others); i++)
		if (!strcmp(function, others[i]))
			return true;
	return length > 4 && !strcmp(function + length - 3, "ref");
}

/* After a success there is none, whatever the call tried before; after a failure its own. */
static bool is_text_right(const char *function, int r, const char *text)
{
	if (!r)
		return !*text || (leaves_text(function) && !strcmp(text, LIFE_EARLIER));
	return !strcmp(function, "hm_pointer_find") ||
	       (*text && strcmp(text, LIFE_EARLIER) != 0);
}

static void judge(const struct cell_walk *walk, int r, uint32_t after)
{
	const struct life *life = walk->life;
	uint32_t noun = life->noun, state = life->state, left;
	bool moved = r ? walk->cell->moves && r == -walk->cell->error :
			 walk->cell->kind == CELL_TO || walk->cell->kind == CELL_MAY;

	if (!is_expected(walk, r))
		test_fail(__FILE__, __LINE__, "%s(%s) of a %s that is \"%s\": %s (%s)",
			  walk->op->function, walk->op->variant, lifecycle_nouns[noun],
			  text_of(noun, state)->word, r ? err_name(r) : "0", life->text);
	if (!is_text_right(walk->op->function, r, life->text))
		test_fail(__FILE__, __LINE__, "%s(%s) gave %d with the text \"%s\"",
			  walk->op->function, walk->op->variant, r, life->text);
	left = moved ? 1u << walk->cell->to :
	       r     ? lifecycle_after_failure(noun, walk->op->function, state) :
		       1u << state;
	left = lifecycle_follows(noun, left, false);
	if (walk->cell->kind == CELL_WAITS || walk->cell->kind == CELL_MAY_WAIT)
		return; /* as after its wait, which is over */
	if (after && !(after & left))
		test_fail(__FILE__, __LINE__,
			  "%s(%s) of a %s that was \"%s\" left it in states 0x%x, not in 0x%x",
			  walk->op->function, walk->op->variant, lifecycle_nouns[noun],
			  text_of(noun, state)->word, after, left);
	/* The checks of DEBUG=1 builds agree. */
	CHECK(lifecycle_allows(noun, walk->op->function, 1u << state, r, after, false));
	CHECK(lifecycle_allows(noun, walk->op->function, 1u << state, r, after, true));
}

static void walk_here(void *user)
{
	struct cell_walk *walk = user;
	uint32_t after = 0;
	int r = life_make(walk->life, walk->call, &after);

	judge(walk, r, after);
}

static void *waiter(void *user)
{
	walk_here(user);
	atomic_store((_Atomic uint32_t *)&((struct cell_walk *)user)->life->pending_after, 1);
	return NULL;
}

/* The call has not returned some time later; then the gate opens, and it does. */
static void walk_waiting(struct cell_walk *walk)
{
	const struct timespec pause = { .tv_nsec = 3000000 };
	_Atomic uint32_t *done = (_Atomic uint32_t *)&walk->life->pending_after;
	pthread_t thread;

	atomic_store(done, 0);
	CHECK_FATAL(!pthread_create(&thread, NULL, waiter, walk));
	nanosleep(&pause, NULL);
	if (walk->cell->kind == CELL_WAITS && is_supported(walk) && atomic_load(done))
		test_fail(__FILE__, __LINE__, "%s(%s) of a %s that is \"%s\" did not wait",
			  walk->op->function, walk->op->variant,
			  lifecycle_nouns[walk->life->noun],
			  text_of(walk->life->noun, walk->life->state)->word);
	life_open_gate(walk->life);
	pthread_join(thread, NULL);
}

static bool walk_cell(const struct life_state *state, const struct lifecycle_op *op,
		      const struct subject *subject)
{
	const struct lifecycle_cell *cell = &op->cell[state->state];
	struct cell_walk walk = { .op = op, .cell = cell, .call = call_of(op) };
	struct life life;
	bool meant;

	if (!walk.call) {
		test_fail(__FILE__, __LINE__, "nobody calls %s(%s)", op->function, op->variant);
		return false;
	}
	walk.life = &life;
	life_begin(&life, subject, op->noun);
	life.state = state->state;
	life.place = state->place;
	meant = !walk.call->is_meant || walk.call->is_meant(&life);
	if (meant) {
		if (walk.call->prepare)
			walk.call->prepare(&life);
		state->enter(&life);
		if (cell->kind == CELL_WAITS || cell->kind == CELL_MAY_WAIT)
			walk_waiting(&walk);
		else if (life.place == LIFE_IN_CHILD)
			CHECK_EQUAL(test_fork(walk_here, &walk), 0);
		else
			walk_here(&walk);
		atomic_fetch_add(&sums->walked[op - lifecycle_ops][state->state], 1);
	}
	life_end(&life);
	return meant;
}

/* ---- one state of one subject ---- */

static bool is_reached(const struct life_state *state, const struct subject *subject)
{
	struct life life;
	bool reached;

	life_begin(&life, subject, state->noun);
	reached = state->is_reached(&life);
	life_end(&life);
	return reached;
}

static void run(void)
{
	unsigned int at = (unsigned int)(test_current() - tests);
	const struct life_state *state = &life_states[at % n_state];
	const struct subject *subject = &subjects[at / n_state];
	const struct lifecycle_op *op;

	atomic_store(&sums->ran[at], true);
	if (!is_reached(state, subject)) {
		atomic_fetch_add(&sums->not_reached, 1);
		return;
	}
	for (op = lifecycle_ops; op->function; op++)
		if (op->noun == state->noun && op->cell[state->state].kind != CELL_NONE)
			walk_cell(state, op, subject);
}

/* ---- all subjects together ---- */

/* Cells that not every machine reaches: they need a certain kernel, or the fake drivers. */
static bool may_be_missing(const struct lifecycle_op *op, uint32_t state)
{
	if (op->noun == LC_DRM_VIEW)
		return !life_fake();
	/* A buffer that is sent and taken away needs a real device, or a fake. */
	if (op->noun == LC_DEVICE && (state == LC_DEVICE_GONE || state == LC_DEVICE_BACK) &&
	    (!strcmp(op->function, "hm_buffer_receive") ||
	     !strcmp(op->function, "hm_frame_receive")))
		return true;
	return op->noun == LC_BUFFER && state == LC_BUFFER_PINNED;
}

/* If tests were chosen, or left out, missing cells mean nothing. */
static bool all_ran(void)
{
	unsigned int i;

	for (i = 0; i < n_subject * n_state; i++)
		if (!atomic_load(&sums->ran[i]))
			return false;
	return true;
}

static void everything_is_reached(void)
{
	const struct lifecycle_op *op;
	uint32_t state, cells = 0, missing = 0, calls = 0;

	if (!all_ran())
		return;
	for (op = lifecycle_ops; op->function; op++)
		for (state = 0; state < op->n_cell; state++) {
			uint32_t n = sums->walked[op - lifecycle_ops][state];

			if (op->cell[state].kind == CELL_NONE)
				continue;
			cells++;
			calls += n;
			if (n)
				continue;
			missing++;
			if (!may_be_missing(op, state))
				test_fail(__FILE__, __LINE__,
					  "%s(%s) was made on no %s that is \"%s\"",
					  op->function, op->variant, lifecycle_nouns[op->noun],
					  text_of(op->noun, state)->word);
		}
	printf("lifecycle: %u cells of the table, %u calls on %u subjects; %u cells not "
	       "reached here; %u states of subjects that have no such\n",
	       cells - missing, calls, n_subject, missing, atomic_load(&sums->not_reached));
}

/* The table itself. */
static void table_is_whole(void)
{
	const struct lifecycle_state_text *first;
	const struct lifecycle_op *op, *other;
	const struct life_state *state;
	const struct life_call *call;
	uint32_t n = 0, i;

	for (op = lifecycle_ops; op->function; op++) {
		CHECK_EQUAL(op->n_cell, lifecycle_states(op->noun, &first));
		for (i = 0; i < op->n_cell; i++)
			if (op->cell[i].kind == CELL_TO)
				CHECK(op->cell[i].to < op->n_cell);
		for (other = lifecycle_ops; other != op; other++)
			CHECK(other->noun != op->noun ||
			      strcmp(other->function, op->function) ||
			      strcmp(other->variant, op->variant));
		n++;
	}
	CHECK_FATAL(n < OPS_MAX);
	for (call = life_calls; call->call; call++)
		n--;
	for (call = life_calls_work; call->call; call++)
		n--;
	CHECK_EQUAL(n, 0);
	for (state = life_states; state->enter; state++)
		n++;
	CHECK_EQUAL(n, LC_STATES);
	for (i = 0, n = 0; i < LC_NOUNS; i++) {
		CHECK(lifecycle_nouns[i]);
		n += lifecycle_states(i, &first);
	}
	CHECK_EQUAL(n, LC_STATES);
}

/* Calls that the checks of builds with DEBUG=1 refuse. */
static void violations_are_found(void)
{
	const uint32_t mapped = 1u << LC_MAP_MAPPED, lost = 1u << LC_MAP_LOST;

	CHECK(lifecycle_allows(LC_MAP, "hm_map_protect", mapped, 0, mapped, false));
	CHECK(lifecycle_allows(LC_MAP, "hm_map_protect", mapped, -ENODEV, lost, false));
	CHECK(!lifecycle_allows(LC_MAP, "hm_map_protect", lost, 0, lost, false));
	CHECK(!lifecycle_allows(LC_MAP, "hm_map_protect", lost, -ENODEV, mapped, false));
	CHECK(!lifecycle_allows(LC_MAP, "hm_map_protect", mapped, -EOWNERDEAD, mapped, true));
	CHECK(!lifecycle_allows(LC_MAP, "hm_map_protect", mapped, 0, 1u << LC_MAP_BRACKETED,
				false));
	CHECK(lifecycle_allows(LC_MAP, "hm_map_protect", mapped, 0, 1u << LC_MAP_BRACKETED,
			       true));
	CHECK(!lifecycle_allows(LC_MAP, "hm_map_end_cpu", mapped, 0, mapped, false));
	CHECK(!lifecycle_allows(LC_MAP, "hm_map_begin_cpu", mapped, 0, mapped, false));
	CHECK(!lifecycle_allows(LC_MAP, "hm_no_such_call", mapped, 0, mapped, true));
	CHECK(!lifecycle_allows(LC_BUFFER, "hm_buffer_resize", 1u << LC_BUFFER_RECEIVED,
				-ENOTTY, 1u << LC_BUFFER_RECEIVED, true));
	CHECK(!lifecycle_allows(LC_BUFFER, "hm_buffer_export", 1u << LC_BUFFER_SENT, 0,
				1u << LC_BUFFER_OWN, false));
	CHECK(!lifecycle_allows(LC_DEVICE, "hm_buffer_create", 1u << LC_DEVICE_GONE, 0,
				1u << LC_DEVICE_GONE, false));
	CHECK(lifecycle_allows(LC_SCOPE, "hm_map_protect_end", 1u << LC_SCOPE_OPEN, 0, 0,
			       false));
	CHECK(!lifecycle_allows(LC_SCOPE, "hm_map_protect_end", 1u << LC_SCOPE_LOST, 0, 0,
				false));
	CHECK(!lifecycle_allows(LC_GUARD, "hm_guard_end", 1u << LC_GUARD_CLOSED, 0,
				1u << LC_GUARD_CLOSED, false));
	CHECK(!lifecycle_allows(LC_GUARD, "hm_guard_enter", 1u << LC_GUARD_CLOSED, -ENODEV, 0,
				false));
}

/* The checks look at a scope's map, and at this thread's guards. */
static void scopes_and_guards(void)
{
	struct hm_guard outer, inner;
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_scope *scope;
	struct hm_map *map;

	CHECK_OK_FATAL(hm_device_open("host", &device));
	CHECK_OK_FATAL(hm_buffer_create(device, DESC(hm_buffer_desc, .size = 65536), &buffer));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	CHECK_OK_FATAL(hm_map_protect_begin(map, 0, 65536, HM_READ, &scope));
	CHECK_EQUAL(lifecycle_of_scope(scope), 1u << LC_SCOPE_OPEN);
	CHECK_OK(hm_map_protect_end(scope));
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	hm_device_unref(device);

	AUTO(rig_handler) handler = rig_handler(0);
	CHECK_EQUAL(lifecycle_of_guard(&outer), 1u << LC_GUARD_CLOSED);
	HM_GUARD_INIT(&outer);
	HM_GUARD_INIT(&inner);
	CHECK_FATAL(!hm_guard_begin(&outer));
	CHECK_EQUAL(lifecycle_of_guard(&outer), 1u << LC_GUARD_OPEN);
	CHECK_FATAL(!hm_guard_begin(&inner));
	CHECK_EQUAL(lifecycle_of_guard(&outer), 1u << LC_GUARD_OUTER);
	CHECK_EQUAL(lifecycle_of_guard(&inner), 1u << LC_GUARD_OPEN);
	CHECK_ERROR(-EINVAL, hm_guard_end(&outer));
	CHECK_OK(hm_guard_end(&inner));
	CHECK_OK(hm_guard_end(&outer));
	CHECK_EQUAL(lifecycle_of_guard(&outer), 1u << LC_GUARD_CLOSED);
}

static int lay_out(void)
{
	static const struct test others[] = {
		{ "table_is_whole", table_is_whole, 0, 0 },
		{ "violations_are_found", violations_are_found, 0, 0 },
		{ "scopes_and_guards", scopes_and_guards, 0, 0 },
		{ "everything_is_reached", everything_is_reached, 0, TEST_ONCE },
	};
	const struct lifecycle_state_text *first;
	const struct life_state *state;
	unsigned int i;
	char *name;

	for (state = life_states; state->enter; state++)
		n_state++;
	tests = calloc((size_t)n_subject * n_state + 5, sizeof(tests[0]));
	if (!tests)
		return -1;
	for (i = 0; i < n_subject * n_state; i++) {
		state = &life_states[i % n_state];
		lifecycle_states(state->noun, &first);
		if (asprintf(&name, "%s.%s.%s", subjects[i / n_state].name,
			     lifecycle_nouns[state->noun], first[state->state].name) < 0)
			return -1;
		tests[i] = (struct test){ .name = name, .run = run };
	}
	memcpy(&tests[i], others, sizeof(others));
	return 0;
}

/* The twin lets every process take it away. */
static void allow_tests(void)
{
	unsigned int i;

	for (i = 0; i < n_subject; i++)
		if (subjects[i].settings)
			subjects[i].settings = "vram_mb=128 bar_mb=32 test=1";
}

int main(int argc, char **argv)
{
	setenv("HETMAP_SOFT", "test=1 vram_mb=64 system_mb=64", 1);
	sums = mmap(NULL, sizeof(*sums), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		    0);
	if (sums == MAP_FAILED || hm_backend_register(&minimal_backend) ||
	    hm_backend_register(&growing_backend) || hm_backend_register(&fixed_backend) ||
	    hm_backend_register(&fleeting_backend)) {
		fprintf(stderr, "lifecycle: %s\n", hm_errmsg());
		return 1;
	}
	n_subject = conformance_subjects(subjects, SUBJECTS_MAX);
	allow_tests();
	if (!n_subject || lay_out()) {
		fprintf(stderr, "lifecycle: no devices, or no memory: %s\n", hm_errmsg());
		return 1;
	}
	return harness_main(argc, argv, "lifecycle", tests);
}
