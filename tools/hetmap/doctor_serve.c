// SPDX-License-Identifier: MIT
/* Doctor: a client of the self-test, which executes the lines of doctor_peer.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hetmap/hetmap.h>

#include "common/command.h"
#include "common/text.h"
#include "doctor_peer.h"

struct client {
	const char *folder;
	int out;
	struct hm_buffer *buffer;
	struct hm_map *map;
};

static uint64_t page(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* One line, whatever the library's sentence has in it. */
static void answer_error(const struct client *client, int r, const char *text)
{
	char *line = strdup(text);
	size_t i;

	for (i = 0; line && line[i]; i++)
		if (line[i] == '\n')
			line[i] = ' ';
	dprintf(client->out, "error %d %s\n", -r, line ? line : "");
	free(line);
}

static void answer(const struct client *client, int r)
{
	if (r)
		answer_error(client, r, hm_errmsg());
	else
		dprintf(client->out, "ok\n");
}

/* Files of the test only: "FOLDER/NAME". */
static char *path_of(const struct client *client, const char *name)
{
	if (strncmp(name, PEER_FILE, strlen(PEER_FILE)) != 0 || strchr(name, '/'))
		return NULL;
	return text_format("%s/%s", client->folder, name);
}

static void find(struct client *client, const char *name)
{
	char *path = path_of(client, name);
	struct stat st;

	if (!path)
		answer_error(client, -EINVAL, "no file of the test");
	else if (stat(path, &st))
		answer_error(client, -errno, strerror(errno));
	else
		dprintf(client->out, "ok %" PRIx64 "\n", (uint64_t)st.st_dev);
	free(path);
}

static void drop(struct client *client)
{
	hm_map_unref(client->map);
	hm_buffer_unref(client->buffer);
	client->map = NULL;
	client->buffer = NULL;
}

static void open_file(struct client *client, const char *name)
{
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc),
					     .flags = HM_BUFFER_PUBLISH };
	char *path = path_of(client, name);
	struct hm_device *device;
	int r;

	if (!path) {
		answer_error(client, -EINVAL, "no file of the test");
		return;
	}
	drop(client);
	r = hm_device_open("file", &device);
	if (!r) {
		r = hm_buffer_from_file(device, path, -1, &desc, &client->buffer);
		hm_device_unref(device);
	}
	if (!r)
		r = hm_map_create(client->buffer, NULL, &client->map);
	answer(client, r);
	free(path);
}

/* The page of @at has to be in the map. */
static bool has(const struct client *client, uint64_t at)
{
	if (client->map && at % page() == 0 && at < hm_map_length(client->map))
		return true;
	answer_error(client, -ERANGE, "no such page of an open file");
	return false;
}

static void look(const struct client *client, uint64_t at)
{
	if (has(client, at))
		dprintf(client->out, "ok %u\n",
			((volatile unsigned char *)hm_map_address(client->map))[at]);
}

static void publish(const struct client *client, uint64_t at, unsigned int value)
{
	if (!has(client, at))
		return;
	((volatile unsigned char *)hm_map_address(client->map))[at] = (unsigned char)value;
	answer(client, hm_file_publish(client->map, at, page()));
}

static void refresh(const struct client *client, uint64_t at)
{
	if (has(client, at))
		answer(client, hm_file_refresh(client->map, at, page()));
}

static void obey(struct client *client, const char *line)
{
	char name[256];
	unsigned int value;
	uint64_t at;

	if (sscanf(line, "find %255s", name) == 1)
		find(client, name);
	else if (sscanf(line, "open %255s", name) == 1)
		open_file(client, name);
	else if (sscanf(line, "look %" SCNu64, &at) == 1) /* NOLINT: a range that is checked */
		look(client, at);
	else if (sscanf(line, "publish %" SCNu64 " %u", &at, &value) ==
		 2) /* NOLINT: likewise */
		publish(client, at, value);
	else if (sscanf(line, "refresh %" SCNu64, &at) == 1) /* NOLINT: likewise */
		refresh(client, at);
	else
		answer_error(client, -EINVAL, "no such request");
}

static void greet(const struct client *client)
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	char boot[64] = "unknown";
	uint32_t version = hm_version();

	if (file) {
		if (fscanf(file, "%63s", boot) != 1)
			strcpy(boot, "unknown");
		fclose(file);
	}
	dprintf(client->out, "hetmap-peer %u.%u.%u %s\n", version >> 16, version >> 8 & 0xff,
		version & 0xff, boot);
}

int peer_serve(const char *folder, int in, int out)
{
	struct client client = { .folder = folder, .out = out };
	FILE *input = fdopen(in, "re");
	size_t size = 0;
	char *line = NULL;

	if (!input)
		return fail(STATUS_ENVIRONMENT, errno, NULL, "doctor: standard input: %s",
			    strerror(errno));
	greet(&client);
	while (getline(&line, &size, input) > 0)
		obey(&client, line);
	free(line);
	fclose(input);
	drop(&client);
	return STATUS_DONE;
}
