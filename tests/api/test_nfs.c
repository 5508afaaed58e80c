// SPDX-License-Identifier: MIT
/*
 * One file on two machines: N writers, each with a slice of one array and a map of its own,
 * and one reader after a barrier. Wrong without the protocol of hm_file_publish(3), and
 * right with it. tests/vm/nfs has two mounts that are as good as two machines:
 * HETMAP_TEST_CLIENTS="DIR DIR2". Once, as a machine is slow; test_network looks for leaks.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/command.h"
#include "ring/ring_support.h"
#include "lib/support.h"

#define WRITERS 4u
/* The largest folio, which a store has written back whole [nfs_vm_page_mkwrite()]. */
#define FOLIO (2ull << 20)

static char client[2][256];

static bool have_clients(void)
{
	const char *text = getenv("HETMAP_TEST_CLIENTS");

	if (text && sscanf(text, "%255s %255s", client[0], client[1]) == 2)
		return true;
	test_skip("vm", "no two mounts: tests/vm/nfs has them");
	return false;
}

static char *path_at(uint32_t i, const char *name)
{
	return folder_path(client[i], name);
}

static struct hm_map *map_at(uint32_t i, const char *name)
{
	AUTO_FREE char *path = path_at(i, name);
	struct hm_map *map;
	AUTO(hm_device) *device = rig_device("file");
	AUTO(hm_buffer) *buffer =
		rig_file(device, path, -1, DESC(hm_buffer_desc, .flags = HM_BUFFER_PUBLISH));

	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	return map;
}

/* At its full size, and on the server before any client opens it. */
static void make_file(const char *name, uint64_t size)
{
	AUTO_FREE char *path = path_at(0, name);
	AUTO_FREE char *zeros = calloc(1, size);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CHECK_FATAL(fd >= 0 && zeros);
	CHECK_EQUAL(write(fd, zeros, size), size);
	CHECK(!fsync(fd) && !close(fd));
}

struct job {
	uint64_t slice;  /* bytes of each writer's */
	uint64_t stride; /* from one to the next */
	bool protocol;
};

static uint64_t size_of(const struct job *job)
{
	return (WRITERS * job->stride + PAGE - 1) / PAGE * PAGE;
}

/* Writers are on both clients in turns. Each has its map before the first one stores. */
static void write_slice(const struct job *job, uint32_t i, int ready, int go)
{
	uint64_t at = i * job->stride, end = (at + job->slice + PAGE - 1) / PAGE * PAGE;
	struct hm_map *map = map_at(i % 2, "array");
	char *base = hm_map_address(map), byte = 0;
	int r = 0;

	/* As a program does that reads first: the page is this client's by then. */
	byte = ((volatile char *)base)[at];
	CHECK(!byte);
	if (write(ready, &byte, 1) != 1 || read(go, &byte, 1) != 1)
		_exit(1);
	memset(base + at, (int)(i + 1), job->slice);
	if (job->protocol)
		r = hm_file_publish(map, at, end - at);
	else
		r = hm_map_sync(map, at / PAGE * PAGE, end - at / PAGE * PAGE, 0);
	_exit(r ? 2 : 0);
}

/* Slices that the reader, on the second client, sees whole. */
static uint32_t run_job(const struct job *job)
{
	uint32_t i, k, right = 0;
	int ready[2], go[2], status;
	pid_t pid[WRITERS];
	char byte = 0;
	char *base;

	make_file("array", size_of(job));
	CHECK_FATAL(!pipe(ready) && !pipe(go));
	for (i = 0; i < WRITERS; i++) {
		pid[i] = fork();
		CHECK_FATAL(pid[i] >= 0);
		if (!pid[i])
			write_slice(job, i, ready[1], go[0]);
	}
	for (i = 0; i < WRITERS; i++)
		CHECK_EQUAL(read(ready[0], &byte, 1), 1);
	AUTO(hm_map) *map = map_at(1, "array");
	base = hm_map_address(map);
	CHECK(is_zero(base, 0, size_of(job)));
	for (i = 0; i < WRITERS; i++)
		CHECK_EQUAL(write(go[1], &byte, 1), 1);
	/* The barrier: all have published and ended. */
	for (i = 0; i < WRITERS; i++) {
		CHECK_EQUAL(waitpid(pid[i], &status, 0), pid[i]);
		CHECK_EQUAL(status, 0);
	}
	if (job->protocol)
		CHECK_OK(hm_file_refresh(map, 0, size_of(job)));
	for (i = 0; i < WRITERS; i++) {
		for (k = 0; k < job->slice && base[i * job->stride + k] == (char)(i + 1); k++)
			;
		right += k == job->slice;
	}
	close(ready[0]);
	close(ready[1]);
	close(go[0]);
	close(go[1]);
	return right;
}

static void without_protocol(void)
{
	/* Below, exactly, above a page; one behind the other. */
	static const uint64_t slices[] = { 1000, PAGE, 6000 };
	struct job job = { .protocol = false };
	size_t i;

	if (!have_clients())
		return;
	for (i = 0; i < 3; i++) {
		job.slice = job.stride = slices[i];
		CHECK(run_job(&job) < WRITERS);
	}
}

/* 6.12 has, and loses whole pages of others; 6.1 has none, and whole pages are enough. */
static bool has_large_folios(void)
{
	struct utsname name;
	int major, minor;

	CHECK_FATAL(!uname(&name) && sscanf(name.release, "%d.%d", &major, &minor) == 2);
	return major > 6 || (major == 6 && minor > 1);
}

static void with_protocol(void)
{
	static const uint64_t slices[] = { 1000, PAGE, 6000 };
	struct job job = { .protocol = true };
	size_t i;

	if (!have_clients())
		return;
	for (i = 0; i < 3; i++) {
		job.slice = slices[i];
		job.stride = FOLIO;
		CHECK_EQUAL(run_job(&job), WRITERS);
		job.stride = (slices[i] + PAGE - 1) / PAGE * PAGE;
		if (!has_large_folios())
			CHECK_EQUAL(run_job(&job), WRITERS);
	}
	/* Slices that share a page are refused, whichever would win. */
	make_file("array", 2 * PAGE);
	AUTO(hm_map) *map = map_at(0, "array");
	CHECK_ERROR(-EINVAL, hm_file_publish(map, 1000, PAGE));
	CHECK_ERROR(-EINVAL, hm_file_publish(map, 0, 1000));
	CHECK_ERROR(-EINVAL, hm_file_refresh(map, 0, 6000));
}

static void refused(void)
{
	struct hm_ring_desc ring = { .struct_size = sizeof(ring), .capacity = 4096 };
	struct hm_file_system_info info = { .struct_size = sizeof(info) };
	struct hm_buffer *buffer;

	if (!have_clients())
		return;
	AUTO_FREE char *path = path_at(0, "array");
	AUTO_FREE char *other = path_at(0, "ring");
	CHECK_OK(hm_file_system_query(client[0], -1, &info));
	CHECK(info.coherence == HM_COHERENCE_NONE && !strcmp(info.name, "nfs"));
	make_file("array", PAGE);
	AUTO(hm_device) *device = rig_device("file");
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_from_file(device, path, -1, NULL, &buffer));
	CHECK_ERROR(-EOPNOTSUPP, hm_ring_create(other, -1, &ring));
}

static void doctor(void)
{
	struct outcome outcome = { 0 };
	char peer[300];

	if (!have_clients())
		return;
	command_run(&(struct command){ .args = { "doctor", "--path", client[0], "--peer",
						 client[1] } },
		    &outcome);
	CHECK_EQUAL(outcome.status, 0);
	CHECK(strstr(outcome.out, "did not show by itself"));
	CHECK(strstr(outcome.out, "each map showed the published bytes"));
	outcome_free(&outcome);
	command_run(&(struct command){ .args = { "doctor", "--path", client[0] } }, &outcome);
	CHECK_EQUAL(outcome.status, 3);
	CHECK(strstr(outcome.out, "one client can't tell"));
	outcome_free(&outcome);
	/* As if the second one were reached by ssh; "same" is the kernel, not the mount. */
	snprintf(peer, sizeof(peer), "same:%s", client[1]);
	command_run(
		&(struct command){ .args = { "doctor", "--path", client[0], "--peer", peer },
				   .env = { "HETMAP_SSH=tests/command/fake_ssh" } },
		&outcome);
	CHECK_EQUAL(outcome.status, 0);
	CHECK(strstr(outcome.out, "did not show by itself"));
	CHECK(strstr(outcome.out, "each map showed the published bytes"));
	outcome_free(&outcome);
	/* The same mount twice is one client, however it is reached. */
	snprintf(peer, sizeof(peer), "same:%s", client[0]);
	command_run(
		&(struct command){ .args = { "doctor", "--path", client[0], "--peer", peer },
				   .env = { "HETMAP_SSH=tests/command/fake_ssh" } },
		&outcome);
	CHECK_EQUAL(outcome.status, 3);
	CHECK(strstr(outcome.out, "both folders are one mount"));
	outcome_free(&outcome);
	command_run(&(struct command){ .args = { "doctor", "--path", client[0], "--peer",
						 client[0] } },
		    &outcome);
	CHECK_EQUAL(outcome.status, 3);
	outcome_free(&outcome);
}

static const struct test tests[] = {
	{ "without_protocol", without_protocol, 60, TEST_ONCE },
	{ "with_protocol", with_protocol, 60, TEST_ONCE },
	{ "refused", refused, 60, TEST_ONCE },
	{ "doctor", doctor, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "nfs", tests)
