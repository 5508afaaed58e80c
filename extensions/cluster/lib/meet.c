// SPDX-License-Identifier: MIT
/* Arrays: barriers, and ranks that have ended. */
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cluster.h"

#define LOOK_NS 50000000 /* how often a waiting rank looks for ranks that have ended */
#define SPINS 200        /* looks at a word before the wait sleeps */
#define YIELDS 200       /* looks at a request of MPI before the waits between them begin */
#define BETWEEN_NS 20000
#define TAG_ENDED 1 /* the only message of an array's communicator: a rank */
#define TELL_NS 2e9 /* how long a rank waits until such a message is on its way */
#define DIFFERENT_CALLS \
	"ranks are in different collective calls on an array, or in one with different arguments"

static void futex_sleep(_Atomic uint32_t *word, uint32_t value)
{
	struct timespec most = { .tv_nsec = LOOK_NS };

	syscall(SYS_futex, word, FUTEX_WAIT, value, &most, NULL, 0);
}

static void futex_wake_all(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, 0x7fffffff, NULL, NULL, 0);
}

/* The text of a rank that has ended: @ended is 1 + its rank. */
static int tell_ended(const struct node *node, uint32_t ended)
{
	int i;

	for (i = 0; i < node->members; i++)
		if ((uint32_t)node->control->member[i].rank + 1 == ended)
			return hm_error_set(-ECONNRESET, "rank %u has ended (process %d)",
					    ended - 1, node->control->member[i].pid);
	return hm_error_set(-ECONNRESET, "rank %u, which was on another node, has ended",
			    ended - 1);
}

/* Looks at the processes. 1 + the rank that has ended, or 0. */
static uint32_t look(const struct node *node)
{
	int i;

	for (i = 0; i < node->members; i++) {
		struct pollfd one = { .fd = node->pidfds[i], .events = POLLIN };

		if (one.fd >= 0 && poll(&one, 1, 0) > 0 && one.revents & POLLIN)
			return (uint32_t)node->control->member[i].rank + 1;
	}
	return 0;
}

static void keep_ended(struct node *node, uint32_t ended)
{
	uint32_t none = 0;

	atomic_compare_exchange_strong(&node->control->ended, &none, ended);
}

int node_check(struct node *node)
{
	uint32_t ended = atomic_load_explicit(&node->control->ended, memory_order_acquire);

	return ended ? tell_ended(node, ended) : 0;
}

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/*
 * Tells the heads of the other nodes that a rank of this one has ended. The own head may be the
 * one, or return from its next call before it meets the others. All ranks that find it tell, as
 * another may end meanwhile.
 */
static void tell_heads(const struct node *node, uint32_t rank_and_1)
{
	struct timespec between = { .tv_nsec = BETWEEN_NS };
	static int32_t ended; /* MPI may read it after this call */
	double begin = now_ns();
	uint32_t number = 0;
	MPI_Request request;
	int rank, ranks, done;

	ended = (int32_t)rank_and_1 - 1;
	MPI_Comm_size(node->all, &ranks);
	for (rank = 0; rank < ranks; rank++) {
		/* Nodes are numbered by their first ranks. */
		if (node->node_of[rank] != number)
			continue;
		number++;
		if (node->node_of[rank] == node->number ||
		    MPI_Isend(&ended, 1, MPI_INT32_T, rank, TAG_ENDED, node->all, &request))
			continue;
		while (!MPI_Test(&request, &done, MPI_STATUS_IGNORE) && !done &&
		       now_ns() - begin < TELL_NS)
			nanosleep(&between, NULL);
	}
}

/* A rank of this node has ended: all others hear of it. */
static void spread_ended(struct node *node, uint32_t ended)
{
	keep_ended(node, ended);
	if (node->nodes < 2 || node->told)
		return;
	node->told = true;
	tell_heads(node, ended);
}

/*
 * Waits until *@word is @value (@equal) or is not. False: a rank has ended, and it never will.
 */
static bool wait_word(struct node *node, _Atomic uint32_t *word, uint32_t value, bool equal)
{
	uint32_t now, known, found = 0;
	unsigned int i;

	for (i = 0;; i++) {
		now = atomic_load_explicit(word, memory_order_acquire);
		if ((now == value) == equal)
			return true;
		if (i < SPINS) {
			__builtin_ia32_pause();
			continue;
		}
		known = atomic_load(&node->control->ended);
		if (!known) {
			futex_sleep(word, now);
			found = i % 8 ? 0 : look(node);
		}
		/* It may have ended after the barrier that it was waited for at. */
		now = atomic_load_explicit(word, memory_order_acquire);
		if ((now == value) == equal || !(known || found))
			continue;
		if (found)
			spread_ended(node, found);
		return false;
	}
}

/* -ECONNRESET if a rank of another node has told that one of its node has ended. */
static int hear_ended(struct node *node)
{
	MPI_Status status;
	int32_t ended;
	int there = 0;

	if (MPI_Iprobe(MPI_ANY_SOURCE, TAG_ENDED, node->all, &there, &status) || !there)
		return 0;
	if (MPI_Recv(&ended, 1, MPI_INT32_T, status.MPI_SOURCE, TAG_ENDED, node->all,
		     MPI_STATUS_IGNORE))
		return 0;
	keep_ended(node, (uint32_t)ended + 1);
	return node_check(node);
}

/* Waits for a request between heads. */
static int wait_request(struct node *node, MPI_Request *request)
{
	struct timespec between = { .tv_nsec = BETWEEN_NS };
	int done, code, r;
	unsigned int i;

	for (i = 0;; i++) {
		code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
		if (code)
			return mpi_error(code, "MPI_Test");
		if (done)
			return 0;
		if (i < YIELDS) {
			sched_yield();
			continue;
		}
		/* Another rank of this node may have heard of it, too. */
		r = node_check(node);
		if (!r)
			r = hear_ended(node);
		if (r)
			return r;
		nanosleep(&between, NULL);
	}
}

struct result {
	int32_t r;
	int32_t rank;
	char text[MEET_TEXT];
};

uint64_t call_with(enum call call, uint64_t a, uint64_t b)
{
	return ((call * 0x100000001b3ull ^ a) * 0x100000001b3ull ^ b) * 0x100000001b3ull;
}

#define NO_RANK (1ll << 40) /* above all ranks */

/* Heads make the first failure that of all. @result: of this node; in, out. */
static int meet_heads(struct node *node, int64_t call, struct result *result)
{
	/* The first rank that fails, and the least and the greatest call: one call of MPI. */
	int64_t mine[3] = { result->r ? result->rank : NO_RANK, call, -call }, least[3];
	MPI_Request request;
	int code, r;

	code = MPI_Iallreduce(mine, least, 3, MPI_INT64_T, MPI_MIN, node->heads, &request);
	if (code)
		return mpi_error(code, "MPI_Iallreduce");
	r = wait_request(node, &request);
	if (r)
		return r;
	if (least[0] == NO_RANK)
		return least[1] == -least[2] ? 0 : hm_error_set(-EINVAL, DIFFERENT_CALLS);
	code = MPI_Ibcast(result, sizeof(*result), MPI_BYTE, (int)node->node_of[least[0]],
			  node->heads, &request);
	if (code)
		return mpi_error(code, "MPI_Ibcast");
	return wait_request(node, &request);
}

/* Gathers the results of the members of a node. */
static void collect(const struct node *node, struct result *result)
{
	struct control *control = node->control;
	uint32_t failing = atomic_load(&control->failing);
	int i;

	if (failing) {
		result->r = control->member[failing - 1].r;
		result->rank = control->member[failing - 1].rank;
		memcpy(result->text, control->failing_text, sizeof(result->text));
		return;
	}
	for (i = 1; i < node->members; i++) {
		if (control->member[i].call == control->member[0].call)
			continue;
		result->r = -EINVAL;
		result->rank = control->member[i].rank;
		snprintf(result->text, sizeof(result->text), "%s", DIFFERENT_CALLS);
	}
}

/* The head's part of a barrier, after its own arrival. */
static void lead(struct node *node)
{
	struct control *control = node->control;
	struct result result = { 0 };
	int r;

	if (!wait_word(node, &control->arrived, (uint32_t)node->members, true)) {
		/* The other nodes hear of it by messages. */
		result.r = tell_ended(node, atomic_load(&control->ended));
		result.rank = (int32_t)atomic_load(&control->ended) - 1;
		snprintf(result.text, sizeof(result.text), "%s", hm_errmsg());
	} else {
		collect(node, &result);
	}
	if (node->nodes > 1 && result.r != -ECONNRESET) {
		r = meet_heads(node, control->member[0].call, &result);
		if (r) {
			result.r = r;
			result.rank = r == -ECONNRESET ?
					      (int32_t)atomic_load(&control->ended) - 1 :
					      (int32_t)node->rank;
			snprintf(result.text, sizeof(result.text), "%s", hm_errmsg());
		}
	}
	if (result.r == -ECONNRESET)
		keep_ended(node, (uint32_t)result.rank + 1);
	control->r = result.r;
	control->r_rank = result.rank;
	memcpy(control->text, result.text, sizeof(control->text));
	atomic_store(&control->failing, 0);
	atomic_store(&control->arrived, 0);
	atomic_fetch_add_explicit(&control->released, 1, memory_order_release);
	futex_wake_all(&control->released);
}

int node_meet(struct node *node, uint64_t call, int r)
{
	struct control *control = node->control;
	struct member *member = &control->member[node->index];
	uint32_t released = atomic_load_explicit(&control->released, memory_order_acquire);
	uint32_t none = 0;

	member->r = r;
	member->call = (int64_t)(call >> 2);
	if (r &&
	    atomic_compare_exchange_strong(&control->failing, &none, (uint32_t)node->index + 1))
		snprintf(control->failing_text, sizeof(control->failing_text), "%s",
			 hm_errmsg());
	if (atomic_fetch_add_explicit(&control->arrived, 1, memory_order_acq_rel) + 1 ==
	    (uint32_t)node->members)
		futex_wake_all(&control->arrived);
	if (!node->index) {
		lead(node);
	} else if (!wait_word(node, &control->released, released, false)) {
		return node_check(node);
	}
	if (control->r == -ECONNRESET)
		return node_check(node);
	return control->r ?
		       hm_error_set(control->r, "rank %d: %s", control->r_rank, control->text) :
		       0;
}
