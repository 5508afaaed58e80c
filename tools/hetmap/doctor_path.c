// SPDX-License-Identifier: MIT
/*
 * Doctor: what the file system of a folder means for maps, by its type; and by a self-test,
 * where there are two mounts of it, as two machines have them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hetmap/file.h>
#include <hetmap/hetmap.h>

#include "command.h"
#include "doctor.h"
#include "text.h"

/* A page for each of the two, where no kernel of 4 KiB pages has both in one folio. */
#define PART ((size_t)2 << 20)

static const char cannot_know[] =
	"cannot be known from here: what another machine's map shows takes a second client";

/* A mount, and the test's file as it is seen through it. */
struct client {
	const char *folder;
	char *path;
	struct stat st;
	struct hm_buffer *buffer;
	struct hm_map *map;
};

/* ---- by its type ---- */

static int look_at_type(struct doctor *doctor, const char *path, uint32_t *ret_coherence)
{
	struct hm_file_system_info info = { .struct_size = sizeof(info) };
	char *shown = text_escape(path);
	int r;

	doctor->area = "Files";
	doctor->check = "file_system";
	r = hm_file_system_query(path, -1, &info);
	if (r) {
		free(shown);
		return fail_library(r == -EACCES ? STATUS_ENVIRONMENT : STATUS_USAGE, r, NULL,
				    "doctor --path");
	}
	if (info.coherence == HM_COHERENCE_LOCAL)
		doctor_report(
			doctor, DOCTOR_OK, NULL, NULL,
			"%s: %s, of this machine alone: maps show what all processes store",
			shown, info.name);
	else if (info.coherence == HM_COHERENCE_LOCKS)
		doctor_report(doctor, DOCTOR_NOTE, "a ring is -EOPNOTSUPP", NULL,
			      "%s: %s, a cluster's: its own locks see to maps", shown,
			      info.name);
	else if (info.coherence == HM_COHERENCE_UNKNOWN)
		doctor_report(
			doctor, DOCTOR_NOTE,
			"whether maps show what others store depends on what is behind it; a "
			"ring is -EOPNOTSUPP",
			"two mounts of it can tell: hetmap doctor --path DIR --peer DIR2",
			"%s: %s, which may be a network's", shown, info.name);
	else
		doctor_report(doctor, DOCTOR_LIMIT,
			      "maps need not show what other machines store: a buffer to write "
			      "is -EOPNOTSUPP without HM_BUFFER_PUBLISH, a ring always",
			      "on NFS keep to the protocol of hm_file_publish(3)",
			      "%s: %s, a network's", shown, info.name);
	free(shown);
	*ret_coherence = info.coherence;
	return STATUS_DONE;
}

/* ---- by two clients ---- */

static int open_client(struct hm_device *device, struct client *client)
{
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc),
					     .flags = HM_BUFFER_PUBLISH };
	int r;

	r = hm_buffer_from_file(device, client->path, -1, &desc, &client->buffer);
	if (!r)
		r = hm_map_create(client->buffer, NULL, &client->map);
	return r;
}

static void close_client(struct client *client)
{
	hm_map_unref(client->map);
	hm_buffer_unref(client->buffer);
}

static size_t page(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static volatile unsigned char *part(const struct client *client, size_t at)
{
	return (volatile unsigned char *)hm_map_address(client->map) + at;
}

/*
 * @from stores and publishes at @at, which @to has looked at before. Is it seen there, as it
 * is, and after a refresh?
 */
static int try_once(struct client *from, struct client *to, size_t at, unsigned char value,
		    bool *ret_plain, bool *ret_refreshed)
{
	int r;

	(void)*part(to, at);
	*part(from, at) = value;
	r = hm_file_publish(from->map, at, page());
	if (r)
		return r;
	*ret_plain = *part(to, at) == value;
	r = hm_file_refresh(to->map, at, page());
	if (r)
		return r;
	*ret_refreshed = *part(to, at) == value;
	return 0;
}

static int try_both(struct client clients[2], bool *ret_plain, bool *ret_refreshed)
{
	bool plain, refreshed;
	int i, k, r = 0;

	*ret_plain = *ret_refreshed = true;
	for (i = 0; i < 4 && !r; i++) {
		k = i % 2;
		r = try_once(&clients[k], &clients[!k], (size_t)k * PART,
			     (unsigned char)(i + 1), &plain, &refreshed);
		if (r)
			break;
		*ret_plain &= plain;
		*ret_refreshed &= refreshed;
	}
	return r;
}

/* The file, made through the first of them. */
static int make_file(struct client *client)
{
	size_t size = PART + page();
	char *zeros = calloc(1, size);
	int fd, r = 0;

	if (!zeros)
		return -ENOMEM;
	client->path = text_format("%s/.hetmap-doctor-XXXXXX", client->folder);
	fd = mkostemp(client->path, O_CLOEXEC);
	if (fd < 0) {
		r = -errno;
		free(zeros);
		return r;
	}
	errno = 0;
	if (write(fd, zeros, size) != (ssize_t)size || fsync(fd) || fstat(fd, &client->st))
		r = errno ? -errno : -EIO;
	if (r)
		unlink(client->path);
	close(fd);
	free(zeros);
	return r;
}

static int report_test(struct doctor *doctor, bool plain, bool refreshed)
{
	doctor->check = "plain";
	if (plain)
		doctor_report(doctor, DOCTOR_OK, NULL, NULL,
			      "each map showed at once what was published through the other");
	else
		doctor_report(doctor, DOCTOR_NOTE, "a map keeps the pages that it has",
			      "hm_file_refresh() before reading",
			      "a map did not show by itself what was published through the "
			      "other one");
	doctor->check = "protocol";
	if (refreshed)
		doctor_report(doctor, DOCTOR_OK, NULL, NULL,
			      "after hm_file_refresh() each map showed what was published");
	else
		doctor_report(doctor, DOCTOR_LIMIT,
			      "there is no way to share maps of these files",
			      "let go of map and buffer, and open the file again",
			      "after hm_file_refresh() a map still showed what is old");
	return refreshed ? STATUS_DONE : STATUS_WRONG;
}

static int refuse_mount(struct doctor *doctor, uint32_t coherence)
{
	doctor->check = "clients";
	if (coherence == HM_COHERENCE_LOCAL) {
		doctor_report(doctor, DOCTOR_OK, NULL, NULL,
			      "both folders are one file system of this machine");
		return STATUS_DONE;
	}
	doctor_report(doctor, DOCTOR_NOTE, cannot_know,
		      "mount it a second time; NFS: with -o nosharecache",
		      "both folders are one mount: one client");
	return STATUS_ENVIRONMENT;
}

static int test_clients(struct doctor *doctor, struct client clients[2], int *ret_status)
{
	struct hm_device *device;
	bool plain, refreshed;
	int i, r;

	r = hm_device_open("file", &device);
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, NULL, "doctor --peer");
	for (i = 0; i < 2 && !r; i++)
		r = open_client(device, &clients[i]);
	hm_device_unref(device);
	if (!r)
		r = try_both(clients, &plain, &refreshed);
	if (!r) {
		*ret_status = report_test(doctor, plain, refreshed);
		return STATUS_DONE;
	}
	doctor->check = "protocol";
	doctor_report(doctor, DOCTOR_LIMIT, "the protocol of hm_file_publish(3) does not work",
		      NULL, "%s", hm_errmsg());
	*ret_status = STATUS_ENVIRONMENT;
	return STATUS_DONE;
}

static int look_at_peer(struct doctor *doctor, const char *path, const char *peer,
			uint32_t coherence, int *ret_status)
{
	struct client clients[2] = { { .folder = path }, { .folder = peer } };
	int r, told = STATUS_DONE;

	r = make_file(&clients[0]);
	if (r) {
		free(clients[0].path);
		return fail(STATUS_ENVIRONMENT, r, "give a folder that can be written",
			    "doctor: no file can be made in '%s': %s", path, strerror(-r));
	}
	clients[1].path = text_format("%s%s", peer, strrchr(clients[0].path, '/'));
	if (stat(clients[1].path, &clients[1].st))
		told = fail(STATUS_USAGE, errno, "mount the export of --path a second time",
			    "doctor: '%s' does not show the file made in '%s': %s", peer, path,
			    strerror(errno));
	else if (clients[0].st.st_dev == clients[1].st.st_dev)
		*ret_status = refuse_mount(doctor, coherence);
	else
		told = test_clients(doctor, clients, ret_status);
	/* Before: what is open stays on NFS, under another name. */
	close_client(&clients[1]);
	close_client(&clients[0]);
	if (unlink(clients[0].path) && told == STATUS_DONE)
		told = fail(STATUS_ENVIRONMENT, errno, "remove it",
			    "doctor: the test's file, '%s', stays: %s", clients[0].path,
			    strerror(errno));
	free(clients[1].path);
	free(clients[0].path);
	return told;
}

int doctor_look_at_path(struct doctor *doctor, const char *path, const char *peer,
			int *ret_status)
{
	uint32_t coherence = HM_COHERENCE_LOCAL;
	int told;

	*ret_status = STATUS_DONE;
	if (!doctor->findings)
		puts("Files");
	told = look_at_type(doctor, path, &coherence);
	if (told != STATUS_DONE)
		return told;
	if (peer)
		return look_at_peer(doctor, path, peer, coherence, ret_status);
	if (coherence == HM_COHERENCE_LOCAL)
		return STATUS_DONE;
	doctor->check = "clients";
	doctor_report(doctor, DOCTOR_NOTE, NULL,
		      "mount it a second time, and run: hetmap doctor --path DIR --peer DIR2",
		      "%s", cannot_know);
	*ret_status = STATUS_ENVIRONMENT;
	return STATUS_DONE;
}
