// SPDX-License-Identifier: MIT
/*
 * libexec/hetmap/particles: what `hetmap run particles` runs, once for each rank; and by its name
 * in argv[0] a part of `hetmap doctor`, and cases of `hetmap bench`.
 */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench_cluster.h"
#include "common/command.h"
#include "common/text.h"
#include "doctor_cluster.h"
#include "particles.h"

#define LOOK 10    /* steps between two looks at who has time */
#define DRIFT 1e-4 /* of the energy: what a run may lose or win */
#define ATOMS_MOST 100000000

enum {
	OPTION_ATOMS,
	OPTION_STEPS,
	OPTION_START,
	OPTION_EXCHANGE,
	OPTION_NO_BALANCE,
	OPTION_PICTURE,
	OPTION_EVERY,
	OPTION_JSON,
	OPTION_QUIET,
	OPTION_HELP,
};

static const struct option_row rows[] = {
	[OPTION_ATOMS] = { 0, "atoms", "N",
			   "at most N particles: as many as fill a lattice\n"
			   "(default: 4096)" },
	[OPTION_STEPS] = { 0, "steps", "N", "end after N steps (default: 500)" },
	[OPTION_START] = { 0, "start", "HOW",
			   "even, or uneven: the upper half of the box is empty, so\n"
			   "that some ranks have nothing to do (default: even)" },
	[OPTION_EXCHANGE] = { 0, "exchange", "WAY",
			      "array, by hm_array; messages, by MPI_Sendrecv; both,\n"
			      "one after the other, and compare (default: both)" },
	[OPTION_NO_BALANCE] = { 0, "no-balance", NULL,
				"leave layers with their ranks, however their times\n"
				"differ" },
	[OPTION_PICTURE] = { 0, "picture", "PATH",
			     "while it runs, write the particles to PATH, a page\n"
			     "for a browser (live.html), or a folder of PNG files" },
	[OPTION_EVERY] = { 0, "every", "N",
			   "steps between two pictures, and between two looks at\n"
			   "the energy (default: 50)" },
	[OPTION_JSON] = OPTION_ROW_JSON("print the result, or the failure, as JSON"),
	[OPTION_QUIET] = OPTION_ROW_QUIET,
	[OPTION_HELP] = OPTION_ROW_HELP,
	{ 0 },
};

static void usage(void)
{
	puts("Usage: mpirun -n RANKS hetmap run particles [OPTION]...\n"
	     "\n"
	     "Moves particles that attract and repel each other (Lennard-Jones) in a box that\n"
	     "the ranks of an MPI job share, layer by layer. Halos and particles go from rank\n"
	     "to rank through arrays, and then once more by messages. The energy must stay.\n"
	     "\n"
	     "Options:");
	option_help(rows);
	puts("\n"
	     "Examples:\n"
	     "  mpirun -n 4 hetmap run particles\n"
	     "  mpirun -n 4 hetmap run particles --start uneven --picture live.html\n"
	     "  mpirun -n 2 hetmap run particles --exchange array --steps 2000 --json\n"
	     "\n"
	     "Exit status: 0 done and verified; 1 the energy changed, or the ways differ;\n"
	     "2 usage; 3 something is missing here; 128 + n on signal n.\n"
	     "See also hetmap-cluster(1).");
}

/* A run by one way. */
struct outcome {
	const struct exchange_ops *exchange;
	double seconds;             /* of the steps, on the slowest rank */
	double compute;             /* seconds, on the mean rank */
	double communicate;         /* likewise: calls, and waiting in them */
	double busiest;             /* CPU seconds of the rank that had most, between looks */
	double share;               /* of communication */
	double begin, end, largest; /* energies; the largest difference */
	double kinetic;
	uint64_t atoms;
	uint64_t moved;    /* layers */
	uint64_t messages; /* of MPI's one-sided calls, all ranks */
	uint32_t nodes;
	uint32_t least, most; /* layers of a rank at the end */
};

static int look(struct sim *sim, struct outcome *outcome, struct picture *picture)
{
	double energy, difference;

	sim_energy(sim, &energy, &outcome->kinetic, &outcome->atoms);
	if (sim->step == 1)
		outcome->begin = energy;
	outcome->end = energy;
	difference = fabs(energy - outcome->begin);
	if (difference > outcome->largest)
		outcome->largest = difference;
	return picture_add(picture, sim);
}

/*
 * The step's bound, however many CPUs the ranks have and share: the computing of the rank
 * that has most of it.
 */
static void add_busiest(struct sim *sim, struct outcome *outcome)
{
	double most = 0;

	MPI_Allreduce(&sim->recent, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	outcome->busiest += most;
}

static int steps(struct sim *sim, struct outcome *outcome, struct picture *picture)
{
	const struct options *options = sim->options;
	double begin = 0;
	uint64_t i;
	int r = sim_step(sim);

	if (!r)
		r = look(sim, outcome, picture);
	sim->compute = sim->communicate = sim->recent = 0;
	for (i = 1; !r && i <= options->steps; i++) {
		begin = seconds();
		r = sim_step(sim);
		if (!r && i % LOOK == 0)
			r = sim_check(sim);
		if (!r && (i % LOOK == 0 || i == options->steps))
			add_busiest(sim, outcome);
		if (!r && i % LOOK == 0 && options->balance)
			r = balance(sim);
		if (i % LOOK == 0)
			sim->recent = 0;
		outcome->seconds += seconds() - begin;
		if (!r && (i % options->every == 0 || i == options->steps))
			r = look(sim, outcome, picture);
	}
	return r ? r : sim_check(sim);
}

static int count_messages(struct sim *sim, struct outcome *outcome);

/* Sums over all ranks. */
static void gather(struct sim *sim, struct outcome *outcome)
{
	double mine[2] = { sim->compute, sim->communicate }, all[2];
	int i;

	MPI_Allreduce(mine, all, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	outcome->compute = all[0] / sim->ranks;
	outcome->communicate = all[1] / sim->ranks;
	outcome->share = all[1] / (all[0] + all[1]);
	MPI_Allreduce(MPI_IN_PLACE, &outcome->seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	outcome->moved = sim->moved;
	outcome->least = UINT32_MAX;
	for (i = 0; i < sim->ranks; i++) {
		uint32_t layers = sim->first[i + 1] - sim->first[i];

		outcome->least = layers < outcome->least ? layers : outcome->least;
		outcome->most = layers > outcome->most ? layers : outcome->most;
	}
}

static int run_way(const struct options *options, const struct exchange_ops *exchange,
		   bool with_picture, struct outcome *outcome, struct sim *sim)
{
	struct picture *picture = NULL;
	int r, ended;

	memset(sim, 0, sizeof(*sim));
	MPI_Comm_rank(MPI_COMM_WORLD, &sim->rank);
	MPI_Comm_size(MPI_COMM_WORLD, &sim->ranks);
	sim->exchange = outcome->exchange = exchange;
	r = sim_begin(sim, options);
	if (!r)
		r = exchange->begin(sim);
	if (!r)
		r = sim_fill(sim);
	if (!r && with_picture)
		r = picture_begin(sim, &picture);
	if (!r)
		r = steps(sim, outcome, picture);
	/* Memory of a job that lost a rank goes with the process: to end it would wait. */
	if (r == -ECONNRESET || r == -EREMOTEIO)
		return r;
	ended = picture_end(picture);
	r = r ? r : ended;
	if (!r)
		gather(sim, outcome);
	if (!r)
		r = count_messages(sim, outcome);
	exchange->end(sim);
	sim_end(sim);
	return r;
}

static int count_messages(struct sim *sim, struct outcome *outcome)
{
	uint64_t mine = 0;
	int r = 0;

	outcome->nodes = 1;
	if (sim->exchange->count)
		r = sim->exchange->count(sim, &mine, &outcome->nodes);
	MPI_Allreduce(&mine, &outcome->messages, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
	return r;
}

/* ---- what is printed ---- */

static double drift_of(const struct outcome *outcome)
{
	return outcome->largest / fabs(outcome->begin);
}

static void print_way(const struct options *options, const struct outcome *outcome)
{
	char each[TEXT_MAX], layers[64];

	snprintf(layers, sizeof(layers), "%u to %u", outcome->least, outcome->most);
	printf("%-13s%s a step, %.1f%% of it communication\n", outcome->exchange->label,
	       text_seconds(outcome->seconds / (double)options->steps, each),
	       100 * outcome->share);
	printf("%-13senergy %.6f, changed by %.1e of it at most\n", "", outcome->begin,
	       drift_of(outcome));
	if (outcome->moved)
		printf("%-13s%llu layers moved; a rank has %s now\n", "",
		       (unsigned long long)outcome->moved, layers);
}

static json_t *way_object(const struct options *options, const struct outcome *outcome)
{
	return json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I}", "exchange",
			 outcome->exchange->name, "step_s",
			 outcome->seconds / (double)options->steps, "compute_s",
			 outcome->compute, "busiest_s", outcome->busiest, "communicate_s",
			 outcome->communicate, "share", outcome->share, "energy_begin",
			 outcome->begin, "energy_end", outcome->end, "energy_drift",
			 drift_of(outcome), "layers_moved", (json_int_t)outcome->moved,
			 "messages", (json_int_t)outcome->messages);
}

static void print_all(const struct options *options, const struct sim *sim,
		      const struct outcome *outcomes, int n, bool verified)
{
	char count[TEXT_MAX];
	json_t *object, *ways;
	int i;

	if (output.json) {
		object = json_pack("{s:s, s:I, s:I, s:I, s:I, s:s, s:b}", "job", "particles",
				   "atoms", (json_int_t)outcomes[0].atoms, "steps",
				   (json_int_t)options->steps, "ranks", (json_int_t)sim->ranks,
				   "nodes", (json_int_t)outcomes[0].nodes, "start",
				   options->uneven ? "uneven" : "even", "verified", verified);
		ways = json_array();
		for (i = 0; i < n; i++)
			json_array_append_new(ways, way_object(options, &outcomes[i]));
		json_object_set_new(object, "ways", ways);
		output_object(object);
		return;
	}
	printf("%-13s%s, %d ranks on %u node%s, %llu steps\n", "particles",
	       text_count(outcomes[0].atoms, count), sim->ranks, outcomes[0].nodes,
	       outcomes[0].nodes == 1 ? "" : "s", (unsigned long long)options->steps);
	for (i = 0; i < n; i++)
		print_way(options, &outcomes[i]);
	if (n == 2 && outcomes[1].share > 0)
		printf("%-13sarrays need %.2f of the share that messages need\n", "compared",
		       outcomes[0].share / outcomes[1].share);
	printf("%-13s%s\n", "verified",
	       verified ? "the energy stayed, and no particle was lost" :
			  "no: the energy changed, or the ways differ");
}

/*
 * The energy stayed, in each way. Without moved layers both ways add the same numbers in the same
 * order.
 */
static bool verify(const struct sim *sim, const struct outcome *outcomes, int n)
{
	bool ok = true;
	int i;

	for (i = 0; i < n; i++)
		ok = ok && outcomes[i].atoms == sim->atoms && drift_of(&outcomes[i]) <= DRIFT;
	if (n == 2 && !outcomes[0].moved && !outcomes[1].moved)
		ok = ok && outcomes[0].end == outcomes[1].end;
	return ok;
}

static int run(const struct options *options)
{
	const struct exchange_ops *const ways[] = { &exchange_array, &exchange_messages };
	struct outcome outcomes[2] = { 0 };
	bool verified;
	struct sim sim;
	int i, n = 0, r = 0;

	for (i = 0; !r && i < 2; i++) {
		if (strcmp(options->exchange, "both") != 0 &&
		    strcmp(options->exchange, ways[i]->name) != 0)
			continue;
		r = run_way(options, ways[i], !n, &outcomes[n], &sim);
		n++;
	}
	if (r) {
		i = r == -EINVAL ? STATUS_USAGE : STATUS_WRONG;
		if (!sim.rank || r == -ECONNRESET)
			fail_library(i, r, NULL, "run: particles");
		if (r == -ECONNRESET || r == -EREMOTEIO) {
			fflush(NULL);
			_exit(i);
		}
		return i;
	}
	verified = verify(&sim, outcomes, n);
	if (!sim.rank)
		print_all(options, &sim, outcomes, n, verified);
	return verified ? STATUS_DONE : STATUS_WRONG;
}

static int take_value(const struct option_state *state, int option, void *user)
{
	struct options *options = user;

	switch (option) {
	case OPTION_ATOMS:
		if (option_number(state->value, 1, ATOMS_MOST, &options->atoms))
			return option_refuse(state, option, "a number from 1 to 100000000");
		break;
	case OPTION_STEPS:
		if (option_number(state->value, 1, INT32_MAX, &options->steps))
			return option_refuse(state, option, "a number from 1");
		break;
	case OPTION_EVERY:
		if (option_number(state->value, 1, INT32_MAX, &options->every))
			return option_refuse(state, option, "a number from 1");
		break;
	case OPTION_START:
		if (strcmp(state->value, "even") != 0 && strcmp(state->value, "uneven") != 0)
			return option_refuse(state, option, "even or uneven");
		options->uneven = !strcmp(state->value, "uneven");
		break;
	case OPTION_EXCHANGE:
		if (strcmp(state->value, "array") != 0 &&
		    strcmp(state->value, "messages") != 0 && strcmp(state->value, "both") != 0)
			return option_refuse(state, option, "array, messages or both");
		options->exchange = state->value;
		break;
	case OPTION_NO_BALANCE:
		options->balance = false;
		break;
	case OPTION_PICTURE:
		options->picture = state->value;
		break;
	default:
		break;
	}
	return 0;
}

static int refuse_argument(const struct option_state *state, void *user)
{
	(void)user;
	return fail(STATUS_USAGE, EINVAL, "mpirun -n 4 hetmap run particles",
		    "run: particles takes no '%s'", state->value);
}

int main(int argc, char **argv)
{
	static const struct option_table table = {
		.command = "run",
		.rows = rows,
		.usage = usage,
		.option = take_value,
		.argument = refuse_argument,
	};
	struct options options = {
		.atoms = 4096, .steps = 500, .every = 50, .exchange = "both", .balance = true
	};
	int level, status;

	output_init();
	output_scan_json(argc, argv);
	if (!strcmp(argv[0], "bench"))
		return output_finish(bench_cluster_main(argc, argv));
	if (argc == 5 && !strcmp(argv[1], BENCH_RANK))
		return bench_rank_main(&argv[2]);
	if (!strcmp(argv[0], "doctor")) {
		MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
		status = output_finish(doctor_cluster(output.json));
		MPI_Finalize();
		return status;
	}
	if (!option_walk(&table, argc, argv, &options, &status))
		return output_finish(status);
	MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
	status = output_finish(run(&options));
	MPI_Finalize();
	return status;
}
