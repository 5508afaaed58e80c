// SPDX-License-Identifier: MIT
/*
 * A policy for a whole process, by device, size, path and user: host memory and files
 * below /usr only, a GiB at most, and buffers of nobody else's processes.
 */
#include <err.h>
#include <errno.h>
#include <hetmap/hetmap.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct policy {
	const char *devices[3]; /* NULL ends */
	const char *folder;
	uint64_t most;
};

static bool allows_device(const struct policy *policy, const char *name)
{
	int i;

	for (i = 0; policy->devices[i]; i++)
		if (!strcmp(policy->devices[i], name))
			return true;
	return false;
}

static int decide(void *user, const struct hm_access_request *request, char *reason)
{
	const struct policy *policy = user;

	if (request->device && !allows_device(policy, request->device)) {
		snprintf(reason, HM_ACCESS_REASON_MAX, "that device is not for this program");
		return -EACCES;
	}
	if (request->size > policy->most) {
		snprintf(reason, HM_ACCESS_REASON_MAX, "%llu bytes are the most",
			 (unsigned long long)policy->most);
		return -EACCES;
	}
	if (request->operation == HM_ACCESS_FROM_FILE &&
	    strncmp(request->path, policy->folder, strlen(policy->folder)) != 0) {
		snprintf(reason, HM_ACCESS_REASON_MAX, "it is not below %s", policy->folder);
		return -EACCES;
	}
	/* Who is unknown is nobody's. */
	if (request->operation == HM_ACCESS_RECEIVE &&
	    (!request->peer_pid || request->peer_uid != request->uid)) {
		snprintf(reason, HM_ACCESS_REASON_MAX, "its sender is another user");
		return -EACCES;
	}
	return 0;
}

static void expect_refusal(int r)
{
	if (r != -EACCES)
		errx(1, "not refused: %d (%s)", r, hm_errmsg());
	printf("%s\n", hm_errmsg());
}

int main(void)
{
	struct policy policy = { { "host", "file" }, "/usr/", 1 << 30 };
	const struct hm_buffer_desc read_only = {
		.struct_size = sizeof(read_only),
		.flags = HM_BUFFER_READ_ONLY,
	};
	struct hm_access_counters counters = { .struct_size = sizeof(counters) };
	struct hm_device *host, *file, *soft;
	struct hm_buffer *buffer;
	uint32_t i;
	void *p;

	if (hm_access_hook_set(decide, &policy) || hm_device_open("host", &host) ||
	    hm_device_open("file", &file))
		errx(1, "%s", hm_errmsg());

	expect_refusal(hm_device_open("soft:0", &soft));
	expect_refusal(hm_alloc(host, 2ull << 30, HM_READ | HM_WRITE, &p));
	expect_refusal(hm_buffer_from_file(file, "/etc/passwd", -1, &read_only, &buffer));
	if (hm_alloc(host, 1 << 20, HM_READ | HM_WRITE, &p) || hm_free(p) ||
	    hm_buffer_from_file(file, "/usr/bin/env", -1, &read_only, &buffer))
		errx(1, "%s", hm_errmsg());
	hm_buffer_unref(buffer);
	hm_device_unref(file);
	hm_device_unref(host);

	if (hm_access_hook_set(NULL, NULL) || hm_access_query(&counters))
		errx(1, "%s", hm_errmsg());
	for (i = 0; i < counters.operations; i++)
		if (counters.asked[i])
			printf("%-10s asked %llu, refused %llu\n", hm_access_name(i),
			       (unsigned long long)counters.asked[i],
			       (unsigned long long)counters.refused[i]);
	return 0;
}
