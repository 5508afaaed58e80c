// SPDX-License-Identifier: MIT
/*
 * workers: processes that read one file of tokens, each its part of it, through maps of their
 * own; against one process that reads all. Their memory is the sum of their PSS.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hetmap/hetmap.h>

#include "bench.h"
#include "bench_folder.h"
#include "bench_options.h"
#include "common/input.h"
#include "common/text.h"
#include "peer.h"

#define WORKERS 4u
#define TOKENS (bench_options.small ? MIB(4) : MIB(128))
#define BLOCK 1024u
#define BATCH 64u

struct worker {
	pid_t process;
	int orders;
};

/* One has all tokens, the other workers a part each; all have mapped the file. */
struct workers {
	char *path;
	struct worker one[1], many[WORKERS];
	uint64_t sum; /* sum of all tokens */
};

/* Orders to a worker, which answers each. */
enum order { ORDER_READ, ORDER_PSS };

struct answer {
	int r;
	uint64_t value; /* sum of its tokens; or PSS in KiB */
};

/* ---- in a worker ---- */

/* Batches of blocks, widened as training takes them; their sum shows that all were read. */
static uint64_t read_part(const uint16_t *tokens, size_t n, int64_t *batch)
{
	uint64_t sum = 0;
	size_t at, i;

	for (at = 0; at + BATCH * BLOCK <= n; at += BATCH * BLOCK) {
		for (i = 0; i < BATCH * BLOCK; i++)
			batch[i] = tokens[at + i];
		for (i = 0; i < BATCH * BLOCK; i += 64)
			sum += (uint64_t)batch[i];
	}
	return sum;
}

/*
 * PSS of its part of the file's pages, and its private part of all other memory: the rest
 * belongs to its parent, which may have run any other case before.
 */
static int read_pss(const char *path, uint64_t *ret_kib)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	unsigned long long first, last, kib;
	bool of_file = false;
	char line[4096];

	if (!file)
		return -errno;
	*ret_kib = 0;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%llx-%llx ", &first, &last) == 2)
			of_file = strstr(line, path) != NULL;
		else if (of_file ? sscanf(line, "Pss: %llu kB", &kib) == 1 :
				   sscanf(line, "Private_Clean: %llu kB", &kib) == 1 ||
					   sscanf(line, "Private_Dirty: %llu kB", &kib) == 1)
			*ret_kib += kib;
	}
	fclose(file);
	return *ret_kib ? 0 : -ENODATA;
}

static int work(const char *path, uint32_t number, uint32_t of, int orders)
{
	int64_t *batch = calloc(BATCH * BLOCK, sizeof(*batch));
	struct answer answer = { .r = -ENOMEM };
	size_t part = TOKENS / of;
	struct hm_map *map;
	char order;

	if (batch)
		answer.r = input_map(path, &map);
	if (write(orders, &answer, sizeof(answer)) != sizeof(answer) || answer.r)
		return 1;
	while (read(orders, &order, 1) == 1) {
		if (order == ORDER_READ)
			answer.value =
				read_part((const uint16_t *)hm_map_address(map) + number * part,
					  part, batch);
		else
			answer.r = read_pss(path, &answer.value);
		if (write(orders, &answer, sizeof(answer)) != sizeof(answer))
			return 1;
	}
	return 0;
}

/* ---- in the first process ---- */

static int take_answer(const struct worker *worker, uint64_t *ret_value)
{
	struct answer answer;

	if (read(worker->orders, &answer, sizeof(answer)) != sizeof(answer))
		return -EPIPE;
	*ret_value = answer.value;
	return answer.r;
}

static int start_worker(struct workers *workers, struct worker *worker, uint32_t number,
			uint32_t of)
{
	uint64_t value;
	int orders[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, orders))
		return -errno;
	worker->process = fork();
	if (!worker->process) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(orders[0]);
		_exit(work(workers->path, number, of, orders[1]));
	}
	close(orders[1]);
	worker->orders = orders[0];
	return worker->process < 0 ? -EAGAIN : take_answer(worker, &value);
}

/* Sends the order to all of them, and sums their answers up. */
static int ask(const struct worker *worker, uint32_t n, enum order order, uint64_t *ret_sum)
{
	char byte = (char)order;
	uint64_t value = 0;
	uint32_t i;
	int r = 0, one;

	*ret_sum = 0;
	for (i = 0; i < n; i++)
		if (write(worker[i].orders, &byte, 1) != 1)
			return -EPIPE;
	for (i = 0; i < n; i++) {
		one = take_answer(&worker[i], &value);
		r = r ? r : one;
		*ret_sum += value;
	}
	return r;
}

static int read_all(struct workers *workers, const struct worker *worker, uint32_t n,
		    double *ret_ns)
{
	double start = bench_now();
	uint64_t sum;
	int r;

	r = ask(worker, n, ORDER_READ, &sum);
	*ret_ns = (bench_now() - start) / (double)TOKENS;
	if (r)
		return r;
	return sum == workers->sum ? 0 : -EIO;
}

static int read_many(void *user, double *ret_ns)
{
	struct workers *workers = user;

	return read_all(workers, workers->many, WORKERS, ret_ns);
}

static int read_one(void *user, double *ret_ns)
{
	struct workers *workers = user;

	return read_all(workers, workers->one, 1, ret_ns);
}

static int write_tokens(struct workers *workers)
{
	uint16_t tokens[BATCH * BLOCK];
	FILE *file = fopen(workers->path, "we");
	size_t at, i;
	int r;

	if (!file)
		return -errno;
	for (at = 0; at < TOKENS; at += BATCH * BLOCK) {
		for (i = 0; i < BATCH * BLOCK; i++)
			tokens[i] = (uint16_t)((at + i) * 2654435761u >> 16);
		for (i = 0; i < BATCH * BLOCK; i += 64)
			workers->sum += tokens[i];
		if (fwrite(tokens, sizeof(tokens), 1, file) != 1)
			break;
	}
	r = at < TOKENS ? -EIO : 0;
	return fclose(file) ? -errno : r;
}

static void end(struct worker *worker, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		/* Closing alone ends nothing: later workers have inherited it. */
		if (worker[i].orders >= 0) {
			shutdown(worker[i].orders, SHUT_RDWR);
			close(worker[i].orders);
		}
		if (worker[i].process > 0)
			waitpid(worker[i].process, NULL, 0);
		worker[i] = (struct worker){ .orders = -1 };
	}
}

/* Each kind alone has the file mapped, or pages would be shared between both. */
static int pss_of(struct workers *workers, struct worker *worker, uint32_t n, uint64_t *ret_kib)
{
	double ns;
	uint32_t i;
	int r = 0;

	for (i = 0; i < n && !r; i++)
		r = start_worker(workers, &worker[i], i, n);
	if (!r)
		r = read_all(workers, worker, n, &ns);
	if (!r)
		r = ask(worker, n, ORDER_PSS, ret_kib);
	end(worker, n);
	return r;
}

static int measure(struct workers *workers)
{
	const struct bench_pair pair = {
		.name = "time per token, 4 processes",
		.peer = "one process, the same map and loop",
		.ours = read_many,
		.peer_side = read_one,
		.rounds = 21,
		.warm_up = 2,
	};
	struct bench_result pss = {
		.name = "sum of PSS, 4 processes",
		.unit = "MiB",
		.peer = "one process",
		.kind = TARGET_RATIO,
		.target = 1.05,
		.note = "of the file, and what each process has for itself",
	};
	uint64_t many = 0, one = 0;
	uint32_t i;
	int r;

	r = pss_of(workers, workers->one, 1, &one);
	if (!r)
		r = pss_of(workers, workers->many, WORKERS, &many);
	if (r)
		return bench_fail(pss.name, r, false);
	r = start_worker(workers, &workers->one[0], 0, 1);
	for (i = 0; i < WORKERS && !r; i++)
		r = start_worker(workers, &workers->many[i], i, WORKERS);
	if (r)
		return bench_fail(pair.name, r, false);
	r = bench_compare(&pair, workers, "ns", 1, TARGET_RATIO, 0.60);
	pss.value = (double)many / 1024;
	pss.peer_value = (double)one / 1024;
	if (!r)
		bench_report(&pss);
	return r;
}

int bench_workers(void)
{
	struct workers workers = { .one = { { .orders = -1 } } };
	char *folder;
	uint32_t i;
	int r;

	for (i = 0; i < WORKERS; i++)
		workers.many[i].orders = -1;
	folder = bench_folder_make("time per token, 4 processes", 2 * TOKENS);
	if (!folder)
		return 0;
	workers.path = text_format("%s/tokens", folder);
	r = write_tokens(&workers);
	if (r)
		bench_fail("time per token, 4 processes", r, false);
	else
		r = measure(&workers);
	end(workers.one, 1);
	end(workers.many, WORKERS);
	free(workers.path);
	bench_folder_remove(folder);
	return r;
}
