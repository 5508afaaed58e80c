// SPDX-License-Identifier: MIT
/* hetmap bench: its output, not how fast anything is. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/command.h"

/* Each benchmark, and a call of its peer. */
static const struct {
	const char *name, *call;
} benches[] = {
	{ "map_cycle", "memfd_create(" },
	{ "alloc_cycle", "memfd_create(" },
	{ "protect_pair", "mprotect(" },
	{ "lock_pair", "mlock(" },
	{ "pointer_find", "pthread_rwlock_rdlock(" },
	{ "launch", "clFinish(" },
	{ "zero_copy", "clEnqueueWriteBuffer(" },
	{ "grow", "ftruncate(" },
	{ "first_touch", "MADV_NOHUGEPAGE" },
	{ "soft_submit", "eventfd(" },
	{ "sim_fault", "MADV_NOHUGEPAGE" },
	{ "sim_submit", "eventfd(" },
	{ "sim_copy", "strtod(" },
	{ "transfer_1g", "pwrite(" },
	{ "mirror_idle", "munmap(" },
	{ "mirror_fault", "MADV_NOHUGEPAGE" },
	{ "invalidate", "mprotect(" },
	{ "dev_tlb", "mprotect(" },
	{ "migrate", "memcpy(" },
	{ "cache_gain", "is no program" },
	{ "prefetch_gain", "POSIX_FADV_DONTNEED" },
	{ "dmabuf_bracket", "DMA_BUF_IOCTL_SYNC" },
	{ "drm_map_cycle", "drmModeMapDumbBuffer(" },
	{ "drm_reuse", "DRM_IOCTL_VIRTGPU_MAP" },
	{ "dmabuf_share", "SCM_RIGHTS" },
	{ "find_under_churn", "hm_pointer_find()" },
	{ "retire", "munmap(" },
	{ "lost_to_usable", "memcpy(" },
	{ "shadow_cost", "memcpy(" },
	{ "guard_copy", "memcpy(" },
	{ "copy_ladder", "memcpy(" },
	{ "combine", "memcpy(" },
	{ "publish_cost", "HETMAP_PUBLISH=0" },
	{ "trace_overhead", "page-faults" },
	{ "frag_effect", "MADV_HUGEPAGE" },
	{ "report_10m", "read(" },
	{ "seq_cold", "MADV_NORMAL" },
	{ "seq_warm", "read(" },
	{ "tokens_warm", "np.memmap(" },
	{ "tokens_cold", "pread(" },
	{ "safetensors_open", "safe_open(" },
	{ "gguf_open", "GGUFReader(" },
	{ "load", "malloc(" },
	{ "ipc_ring", "socketpair(" },
	{ "pool_cycle", "umfPoolMalloc" },
	{ "workers", "one process" },
};

#define N_BENCH (sizeof(benches) / sizeof(benches[0]))

static void test_list(void)
{
	AUTO(outcome) outcome = { 0 };
	size_t i;

	CHECK_RUN(0, &outcome, &(struct command){ .args = { "bench", "--list" } });
	check_lines(outcome.out);
	for (i = 0; i < N_BENCH; i++)
		CHECK(strstr(outcome.out, benches[i].name));
	CHECK_RUN(0, &outcome, &(struct command){ .args = { "bench", "--help" } });
	check_lines(outcome.out);
}

/* The peers' code comes out of the program itself, the part asked for alone. */
static void test_show_peer(void)
{
	AUTO(outcome) outcome = { 0 };
	size_t i;

	for (i = 0; i < N_BENCH; i++) {
		CHECK_RUN(0, &outcome,
			  &(struct command){
				  .args = { "bench", "--show-peer", benches[i].name } });
		CHECK(strstr(outcome.out, benches[i].call));
		CHECK(!strstr(outcome.out, "#include"));
	}
	command_run(&(struct command){ .args = { "bench", "--show-peer", "lock_pair" } },
		    &outcome);
	CHECK(!strstr(outcome.out, "mprotect("));
}

static void test_table(void)
{
	AUTO(outcome) outcome = { 0 };

	CHECK_RUN(0, &outcome,
		  &(struct command){ .args = { "bench", "map_cycle", "protect_pair",
					       "lock_pair", "--rounds", "2" } });
	check_lines(outcome.out);
	CHECK(strstr(outcome.out, "every page written"));
	CHECK(strstr(outcome.out, "<= 1.10 "));
	CHECK(strstr(outcome.out, " hetmap ") && strstr(outcome.out, " load "));
	CHECK(!strcmp(outcome.err, ""));
	CHECK_RUN(0, &outcome,
		  &(struct command){ .args = { "bench", "map_cycle", "protect_pair", "-v",
					       "--rounds", "9", "--seed", "5" } });
	check_lines(outcome.out);
	CHECK(strstr(outcome.out, "95% of 9 rounds: median "));
	CHECK(strstr(outcome.out, "seed 5\n"));
}

/* @figure is between its bounds, if there were rounds enough for some. */
static void check_interval(const json_t *object, const char *key, bool known, double figure)
{
	const json_t *interval = json_object_get(object, key);

	CHECK_FATAL(interval != NULL);
	CHECK_EQUAL(json_array_size(interval), known ? 2 : 0);
	if (!known)
		return;
	CHECK(json_number_value(json_array_get(interval, 0)) <= figure);
	CHECK(json_number_value(json_array_get(interval, 1)) >= figure);
}

static void check_line(const char *line, unsigned int rounds)
{
	static const char *const texts[] = { "bench", "case", "unit", "peer" };
	static const char *const numbers[] = { "value", "p99",    "peer_value",
					       "ratio", "rounds", "peer_p99" };
	json_error_t error;
	AUTO(json_t) *object = json_loads(line, 0, &error);
	size_t i;

	CHECK_FATAL(json_is_object(object));
	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		CHECK(json_is_string(json_object_get(object, texts[i])));
	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		CHECK(json_is_number(json_object_get(object, numbers[i])));
	CHECK(json_number_value(json_object_get(object, "peer_value")) > 0);
	CHECK_EQUAL(integer_of(object, "rounds"), rounds);
	check_interval(object, "value_95", rounds >= 6, real_of(object, "value"));
	check_interval(object, "peer_value_95", rounds >= 6, real_of(object, "peer_value"));
	/* Drawn at random: nothing says that it is around the ratio of this one run. */
	CHECK_EQUAL(json_array_size(json_object_get(object, "ratio_95")), rounds >= 6 ? 2 : 0);
	CHECK_EQUAL(json_array_size(json_object_get(object, "samples")), rounds);
	CHECK_EQUAL(json_array_size(json_object_get(object, "peer_samples")), rounds);
}

static void check_json(unsigned int rounds)
{
	AUTO(outcome) outcome = { 0 };
	char *line, *rest, text[16];
	int n = 0;

	snprintf(text, sizeof(text), "%u", rounds);
	CHECK_RUN(0, &outcome,
		  &(struct command){ .args = { "bench", "--json", "--rounds", text, "map_cycle",
					       "protect_pair" } });
	for (line = strtok_r(outcome.out, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		if (n++)
			check_line(line, rounds);
		else
			CHECK(!strncmp(line, "{\"machine\": {", 13));
	}
	CHECK_EQUAL(n, 6);
}

static void test_json(void)
{
	check_json(1);
	check_json(9);
}

/* Without an OpenCL platform the two cases that need one say so, and are no failure. */
static void test_no_opencl(void)
{
	AUTO(outcome) outcome = { 0 };
	AUTO_TEXT *folder = folder_make();
	char vendors[256];

	snprintf(vendors, sizeof(vendors), "OCL_ICD_VENDORS=%s", folder);
	CHECK_RUN(0, &outcome,
		  &(struct command){ .args = { "bench", "launch", "zero_copy" },
				     .env = { vendors } });
	CHECK(strstr(outcome.out, "skipped: "));
	check_lines(outcome.out);
}

/* Without the module its cases say so; those of the twin need nothing. */
static void test_simulated(void)
{
	AUTO(outcome) outcome = { 0 };
	char *at;
	int n;

	CHECK_RUN(0, &outcome,
		  &(struct command){ .args = { "bench", "soft_submit", "sim_fault",
					       "sim_submit", "sim_copy", "--rounds", "2" } });
	check_lines(outcome.out);
	CHECK(strstr(outcome.out, "1000 queued, each"));
	CHECK(!strcmp(outcome.err, ""));
	for (n = 0, at = outcome.out; (at = strstr(at, "no /dev/hetsim0: make vm")); at++)
		n++;
	CHECK_EQUAL(n, access("/dev/hetsim0", F_OK) ? 3 : 0);
}

/* Each driver has its row, or says that it is not there. */
static void test_drm(void)
{
	static const char *const rows[] = { "virtio_gpu, no idle ones", "vgem, no idle ones",
					    "virtio_gpu, an idle one", "vgem, an idle one" };
	AUTO(outcome) outcome = { 0 };
	size_t i;

	CHECK_RUN(0, &outcome,
		  &(struct command){
			  .args = { "bench", "drm_map_cycle", "drm_reuse", "--rounds", "2" } });
	check_lines(outcome.out);
	CHECK(!strcmp(outcome.err, ""));
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK(strstr(outcome.out, rows[i]));
}

static void test_wrong_usage(void)
{
	static const struct {
		const char *args[5];
		const char *says;
	} cases[] = {
		{ { "bench", "lock_par" }, "did you mean lock_pair?" },
		{ { "bench", "nonsense" }, "hetmap bench --list" },
		{ { "bench", "--rounds", "0" }, "from 1 to 1000000" },
		{ { "bench", "--rounds", "many" }, "not valid: 'many'" },
		{ { "bench", "--rounds", "\033[31m" }, "\\x1b[31m" },
		{ { "bench", "--roundz", "1" }, "--rounds" },
		{ { "bench", "--seed", "-1" }, "from 0 to 4294967295" },
		{ { "bench", "--compare" }, "--compare" },
		{ { "bench", "--fault-read", "1M", "map_cycle" }, "goes with no case" },
	};
	AUTO(outcome) outcome = { 0 };
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct command command = { 0 };

		memcpy(command.args, cases[i].args, sizeof(cases[i].args));
		CHECK_RUN(2, &outcome, &command);
		CHECK(strstr(outcome.err, cases[i].says));
		CHECK(!strcmp(outcome.out, ""));
	}
	/* The failure is an object, too. */
	CHECK_RUN(2, &outcome, &(struct command){ .args = { "bench", "--list", "--json" } });
	CHECK(strstr(outcome.out, "a list is no JSON"));
	CHECK_RUN(2, &outcome,
		  &(struct command){ .args = { "bench", "--json", "--markdown" } });
	check_failure_json(&outcome, EINVAL);
}

static const struct test tests[] = {
	{ "list", test_list, 0, 0 },
	{ "show_peer", test_show_peer, 0, 0 },
	{ "table", test_table, 60, 0 },
	{ "json", test_json, 120, 0 },
	{ "no_opencl", test_no_opencl, 0, 0 },
	{ "simulated", test_simulated, 120, 0 },
	{ "drm", test_drm, 120, 0 },
	{ "wrong_usage", test_wrong_usage, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "bench", tests)
