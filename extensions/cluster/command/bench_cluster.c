// SPDX-License-Identifier: MIT
/* hetmap bench: array_put, array_get, array_page and particles, from the samples of MPI jobs. */
#include "bench_cluster.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/command.h"
#include "common/text.h"
#include "perf/bench/bench.h"
#include "perf/bench/bench_folder.h"
#include "perf/bench/bench_list.h"
#include "perf/bench/bench_options.h"
#include "perf/bench/peer.h"
#include "perf/bench/program.h"

PEER_SOURCE_OF(peer_array_source, "extensions/cluster/command/bench_ranks.c");
extern const char peer_array_source[];
PEER_SOURCE_OF(peer_particles_source, "extensions/cluster/command/exchange_messages.c");
extern const char peer_particles_source[];

#define COPY_RATIO 1.05
#define COPY_ADDED_NS 100
#define PAGE_RATIO 1.1
#define SHARE_RATIO 0.6
#define BALANCE_RATIO 0.75

static const struct bench cases[] = {
	{ "array_put", "bytes to another rank's part of an array", bench_array_put,
	  peer_array_source },
	{ "array_get", "bytes of another rank's part of an array", bench_array_get,
	  peer_array_source },
	{ "array_page", "loads that bring pages of another node", bench_array_page,
	  peer_array_source },
	{ "particles", "molecular dynamics: the share of communication, and balance",
	  bench_particles, peer_particles_source },
};

int bench_cluster_main(int argc, char **argv)
{
	return bench_main_of(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}

/* ---- jobs ---- */

/* By what bytes go from rank to rank. */
struct transport {
	const char *label;
	const char *environment; /* words for env(1) */
	bool shares;             /* pages, and no messages */
};

static const struct transport transports[] = {
	{ "shared pages", "-u HETMAP_ARRAY_NODE", true },
	{ "MPI in one machine", "HETMAP_ARRAY_NODE=1", false },
	/* MPICH then takes ranks of one machine for ranks of several. */
	{ "MPI over TCP", "MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self", false },
};

static unsigned int rounds_of(unsigned int usual)
{
	unsigned int rounds = bench_options.small  ? 2 :
			      bench_options.rounds ? bench_options.rounds :
						     usual;

	return rounds > BENCH_DOTS ? BENCH_DOTS : rounds;
}

/*
 * $1 has words for env(1), $2 ranks, "$3" this program, $4 its arguments, "$5" takes its output,
 * and $6 is "$5" where a rank writes that by itself. Over TCP MPICH 4.0 may wait for ever after the
 * result: the job then has a while to end.
 */
static const char script[] =
	"command -v mpiexec >/dev/null || { echo no mpiexec here >&2; exit 3; }\n"
	"result=$5\n"
	"[ -z \"$6\" ] || set -- \"$1\" \"$2\" \"$3\" \"$4\" /dev/null \"$6\"\n"
	"env $1 timeout 300 mpiexec -n $2 \"$3\" $4 $6 >\"$5\" &\n"
	"job=$! left=100\n"
	"while [ $left -gt 0 ] && kill -0 $job 2>/dev/null; do\n"
	"	[ ! -s \"$result\" ] || left=$((left - 1))\n"
	"	sleep 0.05\n"
	"done\n"
	"kill $job 2>/dev/null\n"
	"wait $job\n";

/*
 * Runs a job of @ranks ranks with the arguments @words, and reads the JSON that it writes to its
 * standard output, or, with @to_file, to the file that is its last argument. NULL: the job failed,
 * and the case @name was reported as skipped.
 */
static json_t *job(const char *name, const struct transport *transport, unsigned int ranks,
		   const char *words, bool to_file)
{
	char *folder = bench_folder_make(name, MIB(1)), *self, *out, *count;
	struct program_result result = { 0 };
	json_t *object;
	int r;

	if (!folder)
		return NULL;
	self = program_self();
	out = text_format("%s/out", folder);
	count = text_format("%u", ranks);
	/* The words are ours, and the folder's name has no blank. */
	char *argv[] = { (char *)"sh",
			 (char *)"-c",
			 (char *)script,
			 (char *)"sh",
			 (char *)transport->environment,
			 count,
			 self,
			 (char *)words,
			 out,
			 to_file ? out : (char *)"",
			 NULL };

	r = self ? program_run(argv, &result) : -ENOENT;
	/* The samples count, and not that the job ends. */
	object = r ? NULL : json_load_file(out, JSON_DISABLE_EOF_CHECK, NULL);
	if (!object)
		bench_skip(name, "a job of %u ranks, %s: %s", ranks, transport->label,
			   r ? strerror(-r) : result.errors);
	free(count);
	free(out);
	free(self);
	bench_folder_remove(folder);
	return object;
}

/* ---- samples ---- */

struct samples {
	const json_t *ours, *peer;
	size_t at_ours, at_peer;
};

static int next(const json_t *all, size_t *at, double *ret_ns)
{
	if (*at >= json_array_size(all))
		return -ENODATA;
	*ret_ns = json_number_value(json_array_get(all, (*at)++));
	return 0;
}

static int next_ours(void *user, double *ret_ns)
{
	struct samples *samples = user;

	return next(samples->ours, &samples->at_ours, ret_ns);
}

static int next_peer(void *user, double *ret_ns)
{
	struct samples *samples = user;

	return next(samples->peer, &samples->at_peer, ret_ns);
}

static struct bench_pair pair_of(const char *name, const char *peer, const json_t *row)
{
	return (struct bench_pair){
		.name = name,
		.peer = peer,
		.ours = next_ours,
		.peer_side = next_peer,
		.rounds = (unsigned int)json_array_size(json_object_get(row, "ours")),
	};
}

static struct samples samples_of(const json_t *row)
{
	return (struct samples){ .ours = json_object_get(row, "ours"),
				 .peer = json_object_get(row, "peer") };
}

/* ---- array_put, array_get ---- */

static int report_copy(const struct transport *transport, const json_t *row)
{
	const char *label = json_string_value(json_object_get(row, "name"));
	char *name = text_format("%s, %s", label, transport->label);
	bool small = strstr(label, " 8 B") || strstr(label, " 4 KiB");
	struct bench_pair pair = pair_of(
		name, transport->shares ? "memcpy() to the same page" : "bare MPI and a flush",
		row);
	struct samples samples = samples_of(row);
	struct bench_figures figures;
	int r;

	if (transport->shares && small) {
		r = bench_measure(&pair, &samples, &figures);
		if (!r)
			bench_report_added(&pair, &figures, "ns", 1, COPY_ADDED_NS);
	} else {
		r = bench_compare(&pair, &samples, "us", 1e3, TARGET_RATIO, COPY_RATIO);
	}
	free(name);
	return r;
}

static int compare_copies(const char *which)
{
	char *words = text_format(BENCH_RANK " copies %u", rounds_of(25));
	size_t i, k;
	int r = 0;

	for (i = 0; !r && i < sizeof(transports) / sizeof(transports[0]); i++) {
		json_t *rows = job(which, &transports[i], 2, words, true);

		for (k = 0; !r && k < json_array_size(rows); k++) {
			const json_t *row = json_array_get(rows, k);

			if (!strncmp(json_string_value(json_object_get(row, "name")), which, 3))
				r = report_copy(&transports[i], row);
		}
		json_decref(rows);
	}
	free(words);
	return r;
}

int bench_array_put(void)
{
	return compare_copies("put");
}

int bench_array_get(void)
{
	return compare_copies("get");
}

/* ---- array_page ---- */

int bench_array_page(void)
{
	static const char *const peers[] = { "userfaultfd and MPI_Get of each",
					     "one MPI_Get of all" };
	char *words = text_format(BENCH_RANK " pages %u", rounds_of(25));
	size_t i, k;
	int r = 0;

	for (i = 1; !r && i < sizeof(transports) / sizeof(transports[0]); i++) {
		json_t *rows = job("pages", &transports[i], 2, words, true);

		for (k = 0; !r && k < json_array_size(rows); k++) {
			const json_t *row = json_array_get(rows, k);
			struct samples samples = samples_of(row);
			char *name = text_format(
				"%s, %s", json_string_value(json_object_get(row, "name")),
				transports[i].label);
			struct bench_pair pair = pair_of(name, peers[k > 0], row);

			r = bench_compare(&pair, &samples, "us", 1e3, TARGET_RATIO, PAGE_RATIO);
			free(name);
		}
		json_decref(rows);
	}
	free(words);
	return r;
}

/* ---- particles ---- */

static double of_way(const json_t *object, size_t way, const char *member)
{
	return json_number_value(
		json_object_get(json_array_get(json_object_get(object, "ways"), way), member));
}

static json_t *no_samples(void)
{
	return json_pack("{s:[], s:[]}", "ours", "peer");
}

static void add(json_t *row, const char *side, double value)
{
	json_array_append_new(json_object_get(row, side), json_real(value));
}

/* Both ways in one job, one after the other: their shares of communication. */
static int compare_shares(const struct transport *transport, enum bench_target kind)
{
	char *name = text_format("share of communication, 4 ranks, %s", transport->label);
	char *words = text_format("--atoms %u --steps %u --no-balance --json",
				  bench_options.small ? 2500 : 32000,
				  bench_options.small ? 10 : 200);
	struct bench_pair pair;
	struct samples samples;
	json_t *row = no_samples(), *object = NULL;
	unsigned int i, rounds = rounds_of(5);
	int r = 0;

	for (i = 0; i < rounds && (object = job(name, transport, 4, words, false)); i++) {
		add(row, "ours", of_way(object, 0, "share") * 1e9);
		add(row, "peer", of_way(object, 1, "share") * 1e9);
		json_decref(object);
	}
	if (i == rounds) {
		pair = pair_of(name, "MPI_Sendrecv", row);
		samples = samples_of(row);
		r = bench_compare(&pair, &samples, "%", 1e7, kind, SHARE_RATIO);
	}
	json_decref(row);
	free(words);
	free(name);
	return r;
}

/* A rank has a CPU of its own, or layers that another rank takes save no time. */
static int compare_balance(void)
{
	unsigned int ranks = sysconf(_SC_NPROCESSORS_ONLN) >= 4 ? 4 : 2;
	char *name = text_format("uneven start, with rebalancing, %u ranks", ranks);
	char *with = text_format("--atoms %u --steps %u --start uneven --exchange array --json",
				 bench_options.small ? 2500 : 16000,
				 bench_options.small ? 20 : 200);
	char *without = text_format("%s --no-balance", with);
	struct bench_pair pair;
	struct samples samples;
	json_t *row = no_samples(), *ours, *peer;
	unsigned int i, rounds = rounds_of(5);
	int r = 0;

	for (i = 0; i < rounds; i++) {
		ours = job(name, &transports[0], ranks, with, false);
		peer = ours ? job(name, &transports[0], ranks, without, false) : NULL;
		if (peer) {
			add(row, "ours", of_way(ours, 0, "step_s") * 1e9);
			add(row, "peer", of_way(peer, 0, "step_s") * 1e9);
		}
		json_decref(ours);
		json_decref(peer);
		if (!peer)
			break;
	}
	if (i == rounds) {
		pair = pair_of(name, "layers stay", row);
		samples = samples_of(row);
		r = bench_compare(&pair, &samples, "ms", 1e6, TARGET_RATIO, BALANCE_RATIO);
	}
	json_decref(row);
	free(without);
	free(with);
	free(name);
	return r;
}

int bench_particles(void)
{
	int r = compare_shares(&transports[0], TARGET_RATIO);

	if (!r)
		r = compare_shares(&transports[2], TARGET_NONE);
	return r ? r : compare_balance();
}
