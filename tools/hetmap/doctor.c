// SPDX-License-Identifier: MIT
/* hetmap doctor: runs the checks and shows their findings. */
#include "doctor.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/command.h"
#include "common/extension.h"
#include "common/machine.h"
#include "common/text.h"
#include "doctor_peer.h"
#include "subcommands.h"

static const struct {
	const char *area;
	const char *name;
	doctor_check *check;
} checks[] = {
	{ "Devices", "render_nodes", check_render_nodes },
	{ "Devices", "simulated_devices", check_simulated_devices },
	{ "Devices", "soft_devices", check_soft_devices },
	{ "Devices", "dma_heaps", check_dma_heaps },
	{ "Devices", "udmabuf", check_udmabuf },
	{ "OpenCL", "opencl", check_opencl },
	{ "OpenCL", "signal_handlers", check_signal_handlers },
	{ "OpenCL", "signal_masks", check_signal_masks },
	{ "Limits", "memlock", check_memlock },
	{ "Limits", "nofile", check_nofile },
	{ "Limits", "address_space", check_address_space },
	{ "Limits", "file_size", check_file_size },
	{ "Limits", "max_map_count", check_max_map_count },
	{ "Limits", "cgroup_memory", check_cgroup_memory },
	{ "Memory", "overcommit", check_overcommit },
	{ "Memory", "thp_anonymous", check_thp_anonymous },
	{ "Memory", "thp_shared", check_thp_shared },
	{ "Memory", "huge_pages", check_huge_pages },
	{ "Memory", "numa", check_numa },
	{ "Memory", "tiers", check_tiers },
	{ "Kernel", "kernel", check_kernel },
	{ "Kernel", "populate", check_populate },
	{ "Kernel", "memfd", check_memfd },
	{ "Kernel", "anon_name", check_anon_name },
	{ "Kernel", "userfaultfd", check_userfaultfd },
	{ "Kernel", "perf_events", check_perf_events },
	{ "Kernel", "probes", check_probes },
	{ "Kernel", "temporary_files", check_temporary_files },
};

static const struct {
	const char *name;
	const char *colour;
} statuses[] = {
	[DOCTOR_OK] = { "ok", "32" },
	[DOCTOR_NOTE] = { "note", "33" },
	[DOCTOR_LIMIT] = { "limit", "1;31" },
};

enum {
	OPTION_PATH,
	OPTION_PEER,
	OPTION_SERVE,
	OPTION_CLUSTER,
	OPTION_CLEAR_BAD,
	OPTION_JSON,
	OPTION_HELP,
};

static const struct option_row rows[] = {
	[OPTION_PATH] = { 0, "path", "DIR",
			  "explain the file system of DIR instead of the machine" },
	[OPTION_PEER] = { 0, "peer", "HOST:DIR",
			  "test --path with a second client: HOST, by ssh, which\n"
			  "has it at DIR, or DIR, a second mount of it here" },
	[OPTION_SERVE] = { 0, "peer-serve", "DIR", "the other side of --peer, started by it" },
	[OPTION_CLUSTER] = { 0, "cluster", NULL,
			     "explain the ranks of an MPI job instead of the machine" },
	[OPTION_CLEAR_BAD] = { 0, "clear-bad", "DEVICE",
			       "make the bad ranges of dax:PATH or pmem:PATH usable\n"
			       "again; the bytes there are lost" },
	[OPTION_JSON] = OPTION_ROW_JSON("print the findings as a JSON array"),
	[OPTION_HELP] = OPTION_ROW_HELP,
	{ 0 },
};

static void usage(void)
{
	puts("Usage: hetmap doctor [OPTION]...\n"
	     "\n"
	     "Explains this machine: each finding, its effect, and how to change it.\n"
	     "Changes nothing.\n"
	     "\n"
	     "  ok      nothing to do\n"
	     "  note    works; good to know\n"
	     "  limit   something does not work here, or is slow, because of it\n"
	     "\n"
	     "Options:");
	option_help(rows);
	puts("\n"
	     "Examples:\n"
	     "  hetmap doctor\n"
	     "  hetmap doctor --json | jq '.[] | select(.status == \"limit\")'\n"
	     "  hetmap doctor --path /shared --peer node7:/shared\n"
	     "  hetmap doctor --path /shared --peer /mnt/shared_again\n"
	     "  mpirun -n 2 hetmap doctor --cluster\n"
	     "\n"
	     "Exit status: 0 for any findings; with --path, 3 where one machine can't tell,\n"
	     "and 1 where two machines don't see the same. See also hetmap-doctor(1).");
}

/* ---- for the checks ---- */

static void print_further(const char *label, const char *text)
{
	printf("         %s: ", label);
	text_wrap(text, 9 + strlen(label) + 2, 11, 79);
}

static void add_json(struct doctor *doctor, const char *status, const char *found,
		     const char *limits, const char *change)
{
	json_t *object = json_object();

	json_object_set_new(object, "area", json_string(doctor->area));
	json_object_set_new(object, "check", json_string(doctor->check));
	json_object_set_new(object, "status", json_string(status));
	json_object_set_new(object, "found", json_string(found));
	json_object_set_new(object, "limits", limits ? json_string(limits) : json_null());
	json_object_set_new(object, "change", change ? json_string(change) : json_null());
	json_array_append_new(doctor->findings, object);
}

void doctor_report(struct doctor *doctor, enum doctor_status status, const char *limits,
		   const char *change, const char *format, ...)
{
	const char *name = statuses[status].name;
	va_list args;
	char *found;

	va_start(args, format);
	if (vasprintf(&found, format, args) < 0)
		abort();
	va_end(args);
	doctor->n[status]++;
	if (doctor->findings) {
		add_json(doctor, name, found, limits, change);
		free(found);
		return;
	}
	if (output.colour)
		printf("  \033[%sm%-5s\033[0m  ", statuses[status].colour, name);
	else
		printf("  %-5s  ", name);
	text_wrap(found, 9, 9, 79);
	if (limits)
		print_further("limits", limits);
	if (change)
		print_further("change", change);
	free(found);
}

/* ---- the command ---- */

static void run_checks(struct doctor *doctor)
{
	const char *area = "";
	size_t i;

	for (i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		if (!doctor->findings && strcmp(area, checks[i].area) != 0)
			printf("%s%s\n", *area ? "\n" : "", checks[i].area);
		area = checks[i].area;
		doctor->area = area;
		doctor->check = checks[i].name;
		checks[i].check(doctor);
	}
}

/* The wishes of the options; NULL, false: not given. */
struct wish {
	const char *path, *peer, *serve, *bad;
	bool cluster;
};

static int take_option(const struct option_state *state, int option, void *user)
{
	struct wish *wish = user;

	switch (option) {
	case OPTION_PATH:
		wish->path = state->value;
		break;
	case OPTION_PEER:
		wish->peer = state->value;
		break;
	case OPTION_SERVE:
		wish->serve = state->value;
		break;
	case OPTION_CLUSTER:
		wish->cluster = true;
		break;
	default:
		wish->bad = state->value;
		break;
	}
	return 0;
}

/* Options that exclude each other. 0, or the status of a failure that was told. */
static int check(const struct wish *wish)
{
	if (wish->peer && !wish->path)
		return fail(STATUS_USAGE, EINVAL, "hetmap doctor --path DIR --peer HOST:DIR",
			    "doctor: --peer needs --path");
	if (wish->serve && (wish->path || output.json))
		return fail(STATUS_USAGE, EINVAL, "hetmap doctor --peer-serve DIR",
			    "doctor: --peer-serve takes no other option");
	if (wish->cluster && (wish->path || wish->serve))
		return fail(STATUS_USAGE, EINVAL, "mpirun -n 2 hetmap doctor --cluster",
			    "doctor: --cluster takes no --path");
	if (wish->bad &&
	    (wish->path || wish->peer || wish->serve || wish->cluster || output.json))
		return fail(STATUS_USAGE, EINVAL, "hetmap doctor --clear-bad DEVICE",
			    "doctor: --clear-bad takes no other option");
	return 0;
}

int doctor_main(int argc, char **argv)
{
	static const struct option_table table = { .command = "doctor",
						   .rows = rows,
						   .usage = usage,
						   .option = take_option,
						   .remedy = "hetmap doctor" };
	struct doctor doctor = { .root = machine_root() };
	struct wish wish = { 0 };
	int told = STATUS_DONE, status = STATUS_DONE;

	if (!option_walk(&table, argc, argv, &wish, &status))
		return status;
	status = check(&wish);
	if (status)
		return status;
	if (wish.bad)
		return doctor_clear_bad(wish.bad);
	if (wish.cluster)
		return extension_run("particles", "doctor: --cluster", argv);
	if (wish.serve)
		return peer_serve(wish.serve, STDIN_FILENO, STDOUT_FILENO);
	if (output.json)
		doctor.findings = json_array();
	if (wish.path)
		told = doctor_look_at_path(&doctor, wish.path, wish.peer, &status);
	else
		run_checks(&doctor);
	if (told != STATUS_DONE) {
		json_decref(doctor.findings);
		return told;
	}
	if (output.json) {
		json_dumpf(doctor.findings, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
		putchar('\n');
		json_decref(doctor.findings);
	} else {
		printf("\n%u ok, %u note%s, %u limit%s\n", doctor.n[DOCTOR_OK],
		       doctor.n[DOCTOR_NOTE], doctor.n[DOCTOR_NOTE] == 1 ? "" : "s",
		       doctor.n[DOCTOR_LIMIT], doctor.n[DOCTOR_LIMIT] == 1 ? "" : "s");
	}
	return status;
}
