// SPDX-License-Identifier: MIT
/*
 * The part of hetmap doctor that --cluster asks for: which MPI there is, what goes through shared
 * pages and what by messages, and how fast. Each rank of the job runs it; rank 0 prints.
 */
#include "doctor_cluster.h"

#include <dirent.h>
#include <hetmap/array.h>
#include <hetmap/hetmap.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/command.h"
#include "common/machine.h"
#include "common/text.h"
#include "hetmap/doctor.h"
#include "particles.h"

#define ROW (4u << 20)    /* bytes of a row: one of each rank */
#define ROUNDS 200        /* gets of 8 bytes that are timed */
#define BUSY_NS 200000000 /* how long the other rank makes no call */

struct probe {
	struct doctor doctor;
	int rank, ranks;
	struct hm_array *array;
	struct hm_array_info info;
	int far;  /* a rank on another node than rank 0; -1: none */
	int near; /* another rank on rank 0's node; -1: none */
};

static void begin_area(struct probe *probe, const char *area, const char *check)
{
	bool other = !probe->doctor.area || strcmp(area, probe->doctor.area) != 0;

	if (other && !probe->doctor.findings)
		printf("%s%s\n", probe->doctor.area ? "\n" : "", area);
	probe->doctor.area = area;
	probe->doctor.check = check;
}

static void look_at_mpi(struct probe *probe)
{
	char version[MPI_MAX_LIBRARY_VERSION_STRING] = "", line[160];
	static const char *const levels[] = { "MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED",
					      "MPI_THREAD_SERIALIZED", "MPI_THREAD_MULTIPLE" };
	const char *tls = getenv("UCX_TLS");
	int length, level, n = MPI_THREAD_SINGLE;

	MPI_Get_library_version(version, &length);
	snprintf(line, sizeof(line), "%.*s", (int)strcspn(version, ",\n"), version);
	for (length = 0; line[length]; length++)
		if (line[length] == '\t')
			line[length] = ' ';
	begin_area(probe, "MPI", "mpi");
	doctor_report(&probe->doctor, DOCTOR_OK, NULL, NULL, "%s", line);
	MPI_Query_thread(&level);
	n = level == MPI_THREAD_FUNNELED   ? 1 :
	    level == MPI_THREAD_SERIALIZED ? 2 :
	    level == MPI_THREAD_MULTIPLE   ? 3 :
					     0;
	begin_area(probe, "MPI", "threads");
	if (n == 3)
		doctor_report(&probe->doctor, DOCTOR_OK, NULL, NULL, "threads: %s", levels[n]);
	else
		doctor_report(&probe->doctor, DOCTOR_LIMIT,
			      "an array has no thread that serves other nodes while a rank "
			      "computes",
			      "an MPI that is built with threads", "threads: %s", levels[n]);
	begin_area(probe, "MPI", "transports");
	doctor_report(&probe->doctor, DOCTOR_OK, NULL, NULL,
		      tls ? "UCX_TLS is %s" :
			    "UCX_TLS is not set: UCX, if MPI uses it, chooses%s",
		      tls ? tls : "");
}

static void look_at_rdma(struct probe *probe)
{
	char *path = machine_path(probe->doctor.root, "/sys/class/infiniband");
	DIR *folder = opendir(path);
	struct dirent *entry;
	char names[200] = "";
	size_t used = 0;
	const char *way = getenv("HETMAP_ARRAY_TRANSPORT");

	free(path);
	while (folder && (entry = readdir(folder)))
		if (entry->d_name[0] != '.' && used + strlen(entry->d_name) + 2 < sizeof(names))
			used += (size_t)snprintf(names + used, sizeof(names) - used, " %s",
						 entry->d_name);
	if (folder)
		closedir(folder);
	begin_area(probe, "MPI", "rdma");
	if (way && !strncmp(way, "verbs", 5))
		doctor_report(&probe->doctor, *names ? DOCTOR_OK : DOCTOR_LIMIT,
			      *names ? NULL : "verbs were asked for, and there is no device",
			      *names ? NULL : "unset HETMAP_ARRAY_TRANSPORT",
			      "RDMA devices:%s; HETMAP_ARRAY_TRANSPORT is %s",
			      *names ? names : " none", way);
	else if (*names)
		doctor_report(
			&probe->doctor, DOCTOR_NOTE,
			"arrays go by MPI, which may use them; a window that is pinned has all "
			"pages of an array present",
			"HETMAP_ARRAY_TRANSPORT=verbs goes by them", "RDMA devices:%s", names);
	else
		doctor_report(&probe->doctor, DOCTOR_OK, NULL, NULL,
			      "no RDMA device: bytes between machines go by TCP");
}

static void look_at_nodes(struct probe *probe)
{
	const char *apart = getenv("HETMAP_ARRAY_NODE");

	begin_area(probe, "Nodes", "nodes");
	if (probe->ranks == 1)
		doctor_report(&probe->doctor, DOCTOR_NOTE, "one rank has nobody to share with",
			      "mpirun -n 2 hetmap doctor --cluster", "1 rank");
	else if (apart && atoi(apart) > 0)
		doctor_report(&probe->doctor, DOCTOR_NOTE,
			      "ranks of a machine count as several nodes, for tests",
			      "unset HETMAP_ARRAY_NODE", "%d ranks on %u nodes of %s ranks",
			      probe->ranks, probe->info.nodes, apart);
	else
		doctor_report(&probe->doctor, DOCTOR_OK, NULL, NULL, "%d ranks on %u node%s",
			      probe->ranks, probe->info.nodes,
			      probe->info.nodes == 1 ? "" : "s");
}

/* Rank 0's look at its own kind; the same on all ranks. */
static int find_others(struct probe *probe)
{
	struct hm_array_part part;
	int both[2] = { -1, -1 }, i, r = 0;

	for (i = 1; !probe->rank && !r && i < probe->ranks; i++) {
		r = hm_array_at(probe->array, (uint64_t)i, &part);
		if (!r && both[part.address != NULL] < 0)
			both[part.address != NULL] = i;
	}
	MPI_Bcast(both, 2, MPI_INT, 0, MPI_COMM_WORLD);
	probe->far = both[0];
	probe->near = both[1];
	return r;
}

/* Seconds of a get of the first @bytes of a row. */
static double time_get(struct probe *probe, int row, uint64_t bytes, unsigned int rounds)
{
	struct hm_array_range range = { .start = { (uint64_t)row }, .count = { 1, bytes } };
	unsigned char *to = malloc(bytes);
	double begin = seconds();
	unsigned int i;

	for (i = 0; to && i < rounds; i++)
		if (hm_array_get(probe->array, &range, to, NULL) ||
		    hm_array_wait(probe->array, HM_ARRAY_ALL))
			break;
	free(to);
	return i == rounds ? (seconds() - begin) / rounds : -1;
}

/* Ranks but the first make no call meanwhile: what is read is read past them. */
static void measure(struct probe *probe, int other, const char *check, const char *way)
{
	const struct timespec busy = { .tv_nsec = BUSY_NS };
	double small = 0, large = 0, passive = 0;
	int r;

	if (!probe->rank) {
		small = time_get(probe, other, 8, ROUNDS);
		large = time_get(probe, other, ROW, 3);
	}
	/* Ranks that wait for an epoch leave the CPUs alone. */
	r = hm_array_epoch(probe->array, 0);
	if (!probe->rank)
		passive = time_get(probe, other, 8, 1);
	else if (probe->rank == other)
		nanosleep(&busy, NULL);
	r = r ? r : hm_array_epoch(probe->array, 0);
	begin_area(probe, "Nodes", check);
	if (r || small < 0 || large < 0 || passive < 0)
		doctor_report(&probe->doctor, DOCTOR_LIMIT, "arrays do not work on these ranks",
			      NULL, "a get from rank %d failed: %s", other, hm_errmsg());
	else
		doctor_report(&probe->doctor,
			      passive < BUSY_NS / 2e9 ? DOCTOR_OK : DOCTOR_LIMIT,
			      passive < BUSY_NS / 2e9 ?
				      NULL :
				      "a get waits until its target makes a call",
			      NULL,
			      "%s: 8 bytes in %.1f us, 4 MiB at %.2f GB/s, %.1f us from a rank "
			      "that computes",
			      way, small * 1e6, ROW / large / 1e9, passive * 1e6);
}

static int look(struct probe *probe)
{
	struct hm_array_desc desc = { .struct_size = sizeof(desc),
				      .dimensions = 2,
				      .element = 1,
				      .shape = { (uint64_t)probe->ranks, ROW } };
	MPI_Comm comm = MPI_COMM_WORLD;
	struct hm_array_part part;
	int r;

	look_at_mpi(probe);
	look_at_rdma(probe);
	probe->info.struct_size = sizeof(probe->info);
	r = hm_array_create(&comm, &desc, &probe->array);
	if (r) {
		begin_area(probe, "Nodes", "nodes");
		doctor_report(&probe->doctor, DOCTOR_LIMIT,
			      "there are no arrays over these ranks", NULL, "no array: %s",
			      hm_errmsg());
		return 0;
	}
	r = hm_array_local(probe->array, 0, &part);
	if (!r)
		memset(part.address, 1, ROW);
	r = r ? r : hm_array_epoch(probe->array, 0);
	r = r ? r : hm_array_query(probe->array, &probe->info);
	r = r ? r : find_others(probe);
	if (r)
		return r;
	look_at_nodes(probe);
	if (probe->near >= 0)
		measure(probe, probe->near, "inside", "inside a node, shared pages");
	if (probe->far >= 0)
		measure(probe, probe->far, "between",
			probe->info.flags & HM_ARRAY_VERBS ?
				"between nodes, libibverbs" :
				"between nodes, MPI's one-sided calls");
	if (probe->info.flags & HM_ARRAY_STAGED) {
		begin_area(probe, "Nodes", "staged");
		doctor_report(&probe->doctor, DOCTOR_LIMIT,
			      "what goes to memory that can't be registered goes by MPI", NULL,
			      "memory of some rank is not registered for RDMA");
	}
	hm_array_unref(probe->array);
	begin_area(probe, "Limits", "memlock");
	check_memlock(&probe->doctor);
	begin_area(probe, "Limits", "userfaultfd");
	check_userfaultfd(&probe->doctor);
	return 0;
}

int doctor_cluster(bool json)
{
	const char *root = getenv("HETMAP_ROOT");
	struct probe probe = { .doctor.root = root ? root : "" };
	const unsigned int *n = probe.doctor.n;
	int r;

	MPI_Comm_rank(MPI_COMM_WORLD, &probe.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &probe.ranks);
	/* Findings of the other ranks are kept, and not printed. */
	if (json || probe.rank)
		probe.doctor.findings = json_array();
	r = look(&probe);
	if (r && !probe.rank)
		fail_library(STATUS_ENVIRONMENT, r, NULL, "doctor: --cluster");
	if (!r && !probe.rank && json) {
		json_dumpf(probe.doctor.findings, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
		putchar('\n');
	} else if (!r && !probe.rank) {
		printf("\n%u ok, %u note%s, %u limit%s\n", n[DOCTOR_OK], n[DOCTOR_NOTE],
		       n[DOCTOR_NOTE] == 1 ? "" : "s", n[DOCTOR_LIMIT],
		       n[DOCTOR_LIMIT] == 1 ? "" : "s");
	}
	json_decref(probe.doctor.findings);
	return r ? STATUS_ENVIRONMENT : STATUS_DONE;
}
