// SPDX-License-Identifier: MIT
/* hetmap doctor on this machine, and on machines made of files. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/command.h"
#include "config.h"

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

#define NOBODY 65534
#define THP "sys/kernel/mm/transparent_hugepage/"

static void put(const char *root, const char *path, const char *text)
{
	file_write(root, path, text, strlen(text));
}

static void put_link(const char *root, const char *path, const char *target)
{
	AUTO_TEXT *full = folder_path(root, path);

	CHECK_EQUAL(symlink(target, full), 0);
}

/* The findings for the machine below @root; "" is this one. @prepare: as of struct command. */
static json_t *findings_with(const char *root, uid_t uid, void (*prepare)(void))
{
	char setting[512];
	const struct command command = {
		.args = { "doctor", "--json" },
		.env = { setting, "TMPDIR" },
		.uid = uid,
		.prepare = prepare,
	};
	AUTO(outcome) outcome = { 0 };
	json_t *json = NULL;

	snprintf(setting, sizeof(setting), "HETMAP_ROOT=%s", root);
	command_run(&command, &outcome);
	if (outcome.status == COMMAND_NO_FILTER && prepare) {
		test_skip("kernel", "no seccomp filters");
	} else {
		CHECK_EQUAL(outcome.status, 0);
		json = outcome_json(&outcome);
		CHECK(json_is_array(json));
	}
	return json;
}

static json_t *findings_of(const char *root, uid_t uid)
{
	return findings_with(root, uid, NULL);
}

static const char *text_of(const json_t *finding, const char *key)
{
	const char *text = json_string_value(json_object_get(finding, key));

	return text ? text : "";
}

/* A finding of @check has @status and contains all of the parts. */
static void check_finding(const json_t *findings, const char *check, const char *status,
			  const char *found, const char *change)
{
	const json_t *finding;
	bool any = false;
	size_t i;

	json_array_foreach(findings, i, finding)
	{
		if (strcmp(text_of(finding, "check"), check) != 0)
			continue;
		any = true;
		if (!strcmp(text_of(finding, "status"), status) &&
		    strstr(text_of(finding, "found"), found) &&
		    strstr(text_of(finding, "change"), change))
			return;
	}
	test_fail(__FILE__, __LINE__, "%s: %s finding with '%s' and '%s'", check,
		  any ? "no such" : "no", found, change);
}

static void test_here(void)
{
	const struct command command = { .args = { "doctor" }, .env = { "HETMAP_ROOT" } };
	json_t *findings = findings_of("", 0), *finding;
	AUTO(outcome) outcome = { 0 };
	size_t i;

	CHECK(json_array_size(findings) >= 20);
	json_array_foreach(findings, i, finding)
	{
		const char *status = text_of(finding, "status");

		CHECK_EQUAL(json_object_size(finding), 6);
		CHECK(*text_of(finding, "area") && *text_of(finding, "check"));
		CHECK(*text_of(finding, "found") != '\0');
		CHECK(!strcmp(status, "ok") || !strcmp(status, "note") ||
		      !strcmp(status, "limit"));
		/* A finding of status "limit" names its limit. */
		CHECK(strcmp(status, "limit") != 0 || *text_of(finding, "limits"));
	}
	json_decref(findings);

	CHECK_RUN(0, &outcome, &command);
	check_lines(outcome.out);
}

static void test_render_node_absent(void)
{
	AUTO_TEXT *root = folder_make();
	AUTO(json_t) *findings = NULL;

	put(root, "sys/class/drm/renderD128/dev", "226:128\n");
	put(root, "sys/devices/pci0000:00/0000:03:00.0/vendor", "0x1002\n");
	put(root, "sys/bus/pci/drivers/amdgpu/module", "");
	put_link(root, "sys/class/drm/renderD128/device",
		 "../../../devices/pci0000:00/0000:03:00.0");
	put_link(root, "sys/devices/pci0000:00/0000:03:00.0/driver",
		 "../../../bus/pci/drivers/amdgpu");
	findings = findings_of(root, 0);
	check_finding(findings, "render_nodes", "limit", "amdgpu at 0000:03:00.0",
		      "--device /dev/dri/renderD128");
}

/* Heaps of which one has no node; udmabuf with a limit. */
static void test_dma_bufs(void)
{
	AUTO_TEXT *root = folder_make();
	json_t *findings = findings_of(root, 0);

	check_finding(findings, "dma_heaps", "note", "no dma-buf heaps",
		      "modprobe system_heap");
	check_finding(findings, "udmabuf", "note", "no /dev/udmabuf", "modprobe udmabuf");
	json_decref(findings);

	put(root, "sys/class/dma_heap/cma/dev", "251:1\n");
	put(root, "sys/class/dma_heap/system/dev", "251:0\n");
	put(root, "dev/dma_heap/system", "");
	put(root, "dev/udmabuf", "");
	put(root, "sys/module/udmabuf/parameters/size_limit_mb", "64\n");
	findings = findings_of(root, 0);
	check_finding(findings, "dma_heaps", "limit", "/dev/dma_heap/cma is absent",
		      "--device /dev/dma_heap/cma");
	check_finding(findings, "dma_heaps", "ok", "heap:system", "");
	check_finding(findings, "udmabuf", "ok", "64 MiB", "");
	json_decref(findings);
}

/* The module with four devices: no node, one denied, one taken away, one as it is. */
static void test_simulated_devices(void)
{
	AUTO_TEXT *root = folder_make(), *node = folder_path(root, "dev/hetsim1");
	json_t *findings = findings_of(root, 0);

	check_finding(findings, "simulated_devices", "note", "not loaded", "make vm");
	check_finding(findings, "soft_devices", "ok", "simulated GPU", "");
	json_decref(findings);

	put(root, "sys/module/hetsim/parameters/devices", "4\n");
	put(root, "sys/class/misc/hetsim0/dev", "10:120\n");
	put(root, "sys/class/misc/hetsim1/dev", "10:121\n");
	put(root, "sys/class/misc/hetsim3/dev", "10:123\n");
	put(root, "dev/hetsim1", "");
	put(root, "dev/hetsim3", "");
	findings = findings_of(root, 0);
	check_finding(findings, "simulated_devices", "limit", "/dev/hetsim0 is absent",
		      "--device /dev/hetsim0");
	check_finding(findings, "simulated_devices", "note", "hetsim2 was taken away",
		      "echo 2 | sudo tee");
	check_finding(findings, "simulated_devices", "ok", "/dev/hetsim3 may be opened", "");
	json_decref(findings);
	if (geteuid() == 0) {
		chmod(node, 0600);
		findings = findings_of(root, NOBODY);
		check_finding(findings, "simulated_devices", "limit",
			      "/dev/hetsim1 may not be opened", "chmod 0666 /dev/hetsim1");
		json_decref(findings);
	}
}

/* The settings of the twin are this process's own affair, and may have a mistake. */
static void test_soft_devices(void)
{
	const struct command command = {
		.args = { "doctor", "--json" },
		.env = { "HETMAP_SOFT=vram_mb=many" },
	};
	AUTO(json_t) *findings = command_json(&command, 0);

	check_finding(findings, "soft_devices", "limit", "vram_mb", "hetmap(7)");
}

static void test_render_node_denied(void)
{
	AUTO_TEXT *root = folder_make(), *node = folder_path(root, "dev/dri/renderD129");
	json_t *findings;

	put(root, "sys/class/drm/renderD129/dev", "226:129\n");
	put(root, "dev/dri/renderD129", "");
	chmod(node, 0660);
	/* Group 1 is daemon, on every Debian. */
	if (geteuid() == 0) {
		CHECK_EQUAL(chown(node, 0, 1), 0);
		findings = findings_of(root, NOBODY);
		check_finding(findings, "render_nodes", "limit", "group daemon (1), mode 0660",
			      "adduser $USER daemon");
		json_decref(findings);
		CHECK_EQUAL(chown(node, 0, 54321), 0);
		findings = findings_of(root, NOBODY);
		check_finding(findings, "render_nodes", "limit", "(54321)",
			      "--group-add 54321");
		json_decref(findings);
	}
	findings = findings_of(root, 0);
	check_finding(findings, "render_nodes", "ok", "/dev/dri/renderD129 may be opened", "");
	json_decref(findings);
}

static void test_plain_machine(void)
{
	AUTO_TEXT *root = folder_make();
	AUTO(json_t) *findings = NULL;

	put(root, THP "enabled", "always madvise [never]\n");
	put(root, THP "shmem_enabled", "always within_size advise [never] deny force\n");
	put(root, "proc/sys/vm/max_map_count", "65530\n");
	put(root, "proc/sys/vm/overcommit_memory", "2\n");
	put(root, "proc/meminfo",
	    "MemTotal: 1048576 kB\nCommitLimit: 524288 kB\n"
	    "Committed_AS: 262144 kB\n");
	put(root, "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0\n");
	put(root, "sys/devices/system/node/online", "0-1\n");
	put(root, "sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: 1048576 kB\n");
	put(root, "sys/devices/system/node/node1/meminfo", "Node 1 MemTotal: 2097152 kB\n");
	put(root, "proc/self/cgroup", "0::/user.slice/app\n");
	put(root, "sys/fs/cgroup/user.slice/app/memory.max", "max\n");
	put(root, "sys/fs/cgroup/user.slice/memory.max", "268435456\n");
	put(root, "sys/fs/cgroup/user.slice/memory.current", "134217728\n");
	findings = findings_of(root, 0);
	check_finding(findings, "render_nodes", "note", "no render node", "");
	check_finding(findings, "thp_anonymous", "limit", "never", "echo madvise");
	check_finding(findings, "thp_shared", "note", "never", "echo advise");
	check_finding(findings, "max_map_count", "note", "65,530", "sysctl vm.max_map_count");
	check_finding(findings, "overcommit", "limit", "512 MiB may be promised, 256 MiB are",
		      "vm.overcommit_memory=0");
	check_finding(findings, "huge_pages", "note", "empty", "vm.nr_hugepages");
	check_finding(findings, "numa", "ok", "2 nodes (node 0 1 GiB, node 1 2 GiB)", "");
	check_finding(findings, "cgroup_memory", "note", "256 MiB, of which 128 MiB",
		      "--memory");
	check_finding(findings, "perf_events", "note", "not in this kernel", "");
	check_finding(findings, "temporary_files", "limit", "none in /var/tmp", "TMPDIR");
#ifdef HAVE_SDT
	check_finding(findings, "probes", "ok", "in this build", "");
#else
	check_finding(findings, "probes", "note", "none", "systemtap-sdt-dev");
#endif
}

static void test_good_machine(void)
{
	AUTO_TEXT *root = folder_make();
	AUTO(json_t) *findings = NULL;

	put(root, THP "enabled", "always [madvise] never\n");
	put(root, THP "shmem_enabled", "always within_size [advise] never deny force\n");
	put(root, "proc/sys/vm/max_map_count", "1048576\n");
	put(root, "proc/sys/vm/overcommit_memory", "0\n");
	put(root, "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512\n");
	put(root, "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "500\n");
	put(root, "proc/self/cgroup", "9:memory:/x\n");
	put(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	put(root, "proc/sys/kernel/perf_event_paranoid", "3\n");
	put(root, "tmp/x", "");
	findings = findings_of(root, geteuid() ? 0 : NOBODY);
	check_finding(findings, "thp_anonymous", "ok", "madvise", "");
	check_finding(findings, "thp_shared", "ok", "advise", "");
	check_finding(findings, "max_map_count", "ok", "1,048,576", "");
	check_finding(findings, "overcommit", "ok", "by judgement", "");
	check_finding(findings, "huge_pages", "ok", "2 MiB pages: 512, of which 500", "");
	check_finding(findings, "cgroup_memory", "ok", "no limit", "");
	check_finding(findings, "perf_events", "note", "CAP_PERFMON", "perf_event_paranoid=1");
}

static void check_limit(int resource, uint64_t limit, const char *check, const char *status,
			const char *found)
{
	const struct command command = {
		.args = { "doctor", "--json" },
		.env = { "OCL_ICD_VENDORS=/nonexistent" },
		.uid = geteuid() ? 0 : NOBODY,
		.resource = resource,
		.limit = limit,
	};
	AUTO(json_t) *findings = command_json(&command, 0);

	check_finding(findings, check, status, found, "ulimit");
	check_finding(findings, "opencl", "limit", "no platform",
		      "apt install pocl-opencl-icd");
}

static void test_limits(void)
{
	check_limit(RLIMIT_MEMLOCK, 65536, "memlock", "limit", "64 KiB (RLIMIT_MEMLOCK)");
	check_limit(RLIMIT_NOFILE, 256, "nofile", "note", "256, which may be raised to 256");
	check_limit(RLIMIT_FSIZE, 64 << 20, "file_size", "limit", "64 MiB (RLIMIT_FSIZE)");
	if (!TEST_ASAN && !TEST_TSAN)
		check_limit(RLIMIT_AS, 4ull << 30, "address_space", "limit",
			    "4 GiB (RLIMIT_AS)");
}

/* ---- file systems ---- */

static int run_path(const char *path, const char *peer, char **ret_out)
{
	AUTO(outcome) outcome = { 0 };
	int status;

	command_run(&(struct command){ .args = { "doctor", "--path", path, "--json",
						 peer ? "--peer" : NULL, peer } },
		    &outcome);
	status = outcome.status;
	*ret_out = strdup(outcome.out);
	return status;
}

/* As a kernel without CONFIG_ANON_VMA_NAME does. */
static void refuse_names(void)
{
	command_refuse_call(SYS_prctl, 0, PR_SET_VMA, EINVAL);
}

/* A missing feature that is not needed is a note. */
static void test_anon_names(void)
{
	AUTO(json_t) *json = findings_with("", 0, refuse_names);

	if (json)
		check_finding(json, "anon_name", "note", "not in this kernel", "");
}

/* On one machine, by one client and by two; tests/vm has two machines of a network. */
static void test_path(void)
{
	char *out;
	AUTO_TEXT *folder = folder_make(), *other = NULL;
	AUTO(outcome) outcome = { 0 };

	CHECK_EQUAL(run_path(folder, NULL, &out), 0);
	CHECK(strstr(out, "of this machine alone"));
	free(out);
	CHECK_EQUAL(run_path(folder, folder, &out), 0);
	CHECK(strstr(out, "\"clients\""));
	free(out);
	/* Nothing is left behind: the folder can be removed. */
	CHECK(!rmdir(folder));
	CHECK(!mkdir(folder, 0700));
	file_write(folder, "other/file", "", 0);
	other = folder_path(folder, "other");
	CHECK_EQUAL(run_path(folder, other, &out), 2);
	free(out);
	CHECK_EQUAL(run_path("/nowhere", NULL, &out), 2);
	CHECK(strstr(out, "errno"));
	free(out);
	CHECK_RUN(2, &outcome, &(struct command){ .args = { "doctor", "--peer", folder } });
	CHECK_RUN(0, &outcome, &(struct command){ .args = { "doctor", "--path", folder } });
	check_lines(outcome.out);
}

/* ---- temporary files ---- */

static void check_temporary(const char *folder, const char *status, const char *found,
			    const char *change)
{
	char variable[512];
	const struct command command = {
		.args = { "doctor", "--json" },
		.env = { "OCL_ICD_VENDORS=/nonexistent", variable },
	};
	AUTO(json_t) *findings = NULL;

	snprintf(variable, sizeof(variable), "TMPDIR=%s", folder);
	findings = command_json(&command, 0);
	check_finding(findings, "temporary_files", status, found, change);
}

/* A folder that takes files, but none of their bytes, has none for the self-test. */
static void test_full_folder(void)
{
	static const char bytes[1020 << 10];
	AUTO_TEXT *folder = folder_make();

	check_temporary(folder, "ok", "in ", "");
	check_temporary("/nowhere", "limit", "none in /nowhere", "that can be written");
	if (folder_mount("full", folder, "tmpfs", 0, "size=1m")) {
		check_temporary(folder, "ok", "in ", "");
		file_write(folder, "file", bytes, sizeof(bytes));
		check_temporary(folder, "limit", "No space left on device",
				"a folder that has room");
		CHECK(!umount(folder));
	}
}

static const struct test tests[] = {
	{ .name = "here", .run = test_here },
	{ .name = "render_node_absent", .run = test_render_node_absent },
	{ .name = "render_node_denied", .run = test_render_node_denied },
	{ .name = "simulated_devices", .run = test_simulated_devices },
	{ .name = "soft_devices", .run = test_soft_devices },
	{ .name = "dma_bufs", .run = test_dma_bufs },
	{ .name = "plain_machine", .run = test_plain_machine },
	{ .name = "good_machine", .run = test_good_machine },
	{ .name = "limits", .run = test_limits, .seconds = 60 },
	{ .name = "anon_names", .run = test_anon_names },
	{ .name = "path", .run = test_path },
	{ .name = "full_folder", .run = test_full_folder, .flags = TEST_ONCE },
	{ 0 },
};

TEST_MAIN(harness_main_once, "doctor", tests)
