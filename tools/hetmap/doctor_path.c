// SPDX-License-Identifier: MIT
/*
 * Doctor: whether maps on a folder's file system show the stores of other machines, by the file
 * system's type, and by a self-test with two clients: two machines, or two mounts of one.
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

#include "common/command.h"
#include "common/text.h"
#include "doctor.h"
#include "doctor_peer.h"

/* A page for each of the two, where no kernel of 4 KiB pages has both in one folio. */
#define PART ((size_t)2 << 20)

static const char cannot_know[] =
	"one client can't tell whether the maps of another machine show its stores";

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
	if (!doctor->findings)
		puts(doctor->area);
	if (info.coherence == HM_COHERENCE_LOCAL)
		doctor_report(
			doctor, DOCTOR_OK, NULL, NULL,
			"%s: %s, of this machine alone: maps show the stores of all processes",
			shown, info.name);
	else if (info.coherence == HM_COHERENCE_LOCKS)
		doctor_report(doctor, DOCTOR_NOTE, "a ring is -EOPNOTSUPP", NULL,
			      "%s: %s, a cluster file system: its own locks keep maps up to "
			      "date",
			      shown, info.name);
	else if (info.coherence == HM_COHERENCE_UNKNOWN)
		doctor_report(
			doctor, DOCTOR_NOTE,
			"maps may or may not show the stores of other machines; a ring is "
			"-EOPNOTSUPP",
			"test it with two clients: hetmap doctor --path DIR --peer HOST:DIR",
			"%s: %s, which may be a network file system", shown, info.name);
	else
		doctor_report(doctor, DOCTOR_LIMIT,
			      "maps need not show the stores of other machines: a writable "
			      "buffer is -EOPNOTSUPP without HM_BUFFER_PUBLISH, a ring always",
			      "on NFS keep to the protocol of hm_file_publish(3)",
			      "%s: %s, a network file system", shown, info.name);
	free(shown);
	*ret_coherence = info.coherence;
	return STATUS_DONE;
}

/* ---- by two clients ---- */

static size_t page(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/*
 * @from stores and publishes at @at, where @to has looked before. Reports whether @to sees the
 * store at once, and after a refresh. After an error *ret_whose is the client that answered it.
 */
static int try_once(struct doctor_peer *from, struct doctor_peer *to, size_t at,
		    unsigned char value, bool *ret_plain, bool *ret_refreshed,
		    struct doctor_peer **ret_whose)
{
	unsigned char seen = 0;
	int r;

	*ret_whose = to;
	r = peer_look(to, at, &seen);
	if (r)
		return r;
	*ret_whose = from;
	r = peer_ask(from, "publish %zu %u", at, value);
	if (r)
		return r;
	*ret_whose = to;
	r = peer_look(to, at, &seen);
	if (r)
		return r;
	*ret_plain = seen == value;
	r = peer_ask(to, "refresh %zu", at);
	if (!r)
		r = peer_look(to, at, &seen);
	*ret_refreshed = seen == value;
	return r;
}

static int try_both(struct doctor_peer peers[2], bool *ret_plain, bool *ret_refreshed,
		    struct doctor_peer **ret_whose)
{
	bool plain = false, refreshed = false;
	int i, k, r = 0;

	*ret_plain = *ret_refreshed = true;
	for (i = 0; i < 4 && !r; i++) {
		k = i % 2;
		r = try_once(&peers[k], &peers[!k], (size_t)k * PART, (unsigned char)(i + 1),
			     &plain, &refreshed, ret_whose);
		if (r)
			break;
		*ret_plain &= plain;
		*ret_refreshed &= refreshed;
	}
	return r;
}

/* Its path; free() it. */
static int make_file(const char *folder, char **ret_path)
{
	size_t size = PART + page();
	char *zeros = calloc(1, size);
	int fd, r = 0;

	*ret_path = text_format("%s/" PEER_FILE "XXXXXX", folder);
	if (!zeros)
		return -ENOMEM;
	fd = mkostemp(*ret_path, O_CLOEXEC);
	if (fd < 0) {
		r = -errno;
		free(zeros);
		return r;
	}
	errno = 0;
	if (write(fd, zeros, size) != (ssize_t)size || fsync(fd))
		r = errno ? -errno : -EIO;
	if (r)
		unlink(*ret_path);
	close(fd);
	free(zeros);
	return r;
}

static int report_test(struct doctor *doctor, bool plain, bool refreshed)
{
	doctor->check = "plain";
	if (plain)
		doctor_report(doctor, DOCTOR_OK, NULL, NULL,
			      "each map showed at once the bytes published through the other");
	else
		doctor_report(doctor, DOCTOR_NOTE, "a map keeps the pages that it has",
			      "hm_file_refresh() before reading",
			      "a map did not show by itself the bytes published through the "
			      "other");
	doctor->check = "protocol";
	if (refreshed)
		doctor_report(doctor, DOCTOR_OK, NULL, NULL,
			      "after hm_file_refresh() each map showed the published bytes");
	else
		doctor_report(doctor, DOCTOR_LIMIT,
			      "there is no way to share maps of these files",
			      "drop map and buffer, and open the file again",
			      "after hm_file_refresh() a map still showed old bytes");
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
		      "name another machine that has it: --peer HOST:DIR; or mount it a second "
		      "time, NFS with -o nosharecache",
		      "both folders are one mount: one client");
	return STATUS_ENVIRONMENT;
}

/* One client can't run the test. *ret_status is set where that is the finding. */
static int report_failure(struct doctor *doctor, struct doctor_peer *whose, int r,
			  int *ret_status)
{
	if (r == -EPIPE)
		return peer_gone(whose);
	doctor->check = "protocol";
	doctor_report(doctor, DOCTOR_LIMIT, "the protocol of hm_file_publish(3) does not work",
		      NULL, "%s: %s", whose->where, whose->line);
	*ret_status = STATUS_ENVIRONMENT;
	return STATUS_DONE;
}

static int test_clients(struct doctor *doctor, struct doctor_peer peers[2], const char *name,
			int *ret_status)
{
	struct doctor_peer *whose = NULL;
	bool plain, refreshed;
	int i, r = 0;

	for (i = 0; i < 2 && !r; i++) {
		whose = &peers[i];
		r = peer_ask(whose, "open %s", name);
	}
	if (!r)
		r = try_both(peers, &plain, &refreshed, &whose);
	if (r)
		return report_failure(doctor, whose, r, ret_status);
	*ret_status = report_test(doctor, plain, refreshed);
	return STATUS_DONE;
}

/* Each sees the file, in folders that are not one mount of one kernel. */
static int look_at_peers(struct doctor *doctor, struct doctor_peer peers[2], const char *name,
			 uint32_t coherence, int *ret_status)
{
	int i, r;

	for (i = 0; i < 2; i++) {
		r = peer_ask(&peers[i], "find %s", name);
		if (r == -EPIPE)
			return peer_gone(&peers[i]);
		if (r)
			return fail(STATUS_USAGE, -r,
				    "give the peer's folder for the file system of --path",
				    "doctor: '%s' does not show the file made in '%s': %s",
				    peers[i].where, peers[0].where, peers[i].line);
	}
	if (!strcmp(peers[0].boot, peers[1].boot) && !strcmp(peers[0].line, peers[1].line)) {
		*ret_status = refuse_mount(doctor, coherence);
		return STATUS_DONE;
	}
	return test_clients(doctor, peers, name, ret_status);
}

static int look_with_file(struct doctor *doctor, struct doctor_peer peers[2],
			  uint32_t coherence, int *ret_status)
{
	char *path;
	int r, told;

	r = make_file(peers[0].where, &path);
	if (r) {
		free(path);
		return fail(STATUS_ENVIRONMENT, r, "give a folder that can be written",
			    "doctor: no file can be made in '%s': %s", peers[0].where,
			    strerror(-r));
	}
	told = look_at_peers(doctor, peers, strrchr(path, '/') + 1, coherence, ret_status);
	/* First, as an open file stays on NFS under another name. */
	peer_end(&peers[1]);
	peer_end(&peers[0]);
	if (unlink(path) && told == STATUS_DONE)
		told = fail(STATUS_ENVIRONMENT, errno, "remove it",
			    "doctor: the test's file, '%s', can't be removed: %s", path,
			    strerror(errno));
	free(path);
	return told;
}

static int look_at_peer(struct doctor *doctor, const char *path, const char *peer,
			uint32_t coherence, int *ret_status)
{
	/* Whatever it is called, --path is of this machine. */
	struct doctor_peer peers[2] = { { .where = path, .folder = path, .fd = -1 } };
	int told;

	told = peer_parse(peer, &peers[1]);
	if (told != STATUS_DONE)
		return told;
	told = peer_start(&peers[0]);
	if (told == STATUS_DONE)
		told = peer_start(&peers[1]);
	if (told == STATUS_DONE)
		told = look_with_file(doctor, peers, coherence, ret_status);
	peer_end(&peers[1]);
	peer_end(&peers[0]);
	return told;
}

int doctor_look_at_path(struct doctor *doctor, const char *path, const char *peer,
			int *ret_status)
{
	uint32_t coherence = HM_COHERENCE_LOCAL;
	struct stat st;
	char *shown;
	int told;

	*ret_status = STATUS_DONE;
	if (!stat(path, &st) && !S_ISDIR(st.st_mode)) {
		shown = text_escape(path);
		fail(STATUS_USAGE, ENOTDIR, "name its folder",
		     "doctor --path: '%s' is no folder", shown);
		free(shown);
		return STATUS_USAGE;
	}
	told = look_at_type(doctor, path, &coherence);
	if (told != STATUS_DONE)
		return told;
	if (peer)
		return look_at_peer(doctor, path, peer, coherence, ret_status);
	if (coherence == HM_COHERENCE_LOCAL)
		return STATUS_DONE;
	doctor->check = "clients";
	doctor_report(doctor, DOCTOR_NOTE, NULL,
		      "name another machine that has it, or a second mount, and run: hetmap "
		      "doctor --path DIR --peer HOST:DIR",
		      "%s", cannot_know);
	*ret_status = STATUS_ENVIRONMENT;
	return STATUS_DONE;
}
