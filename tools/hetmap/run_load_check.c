// SPDX-License-Identifier: MIT
/* hetmap run load: checks the accelerator's sums against the files' bytes, read once more. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/command.h"
#include "common/text.h"
#include "run_load.h"

#define AGAIN "if a program wrote to the file meanwhile: run it again when none does"

/* A file of the model, as it is by its name now. */
struct file {
	int fd;
	const char *path;
	unsigned char *bytes; /* CHECKSUM_PART of them */
};

static int read_part(const struct file *file, uint64_t offset, uint64_t length)
{
	uint64_t done = 0;
	ssize_t n;

	while (done < length) {
		n = pread(file->fd, file->bytes + done, length - done, (off_t)(offset + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail(STATUS_WRONG, errno, NULL,
				    "cannot read '%s' at %" PRIu64 ": %s", file->path,
				    offset + done, strerror(errno));
		if (!n)
			return fail(STATUS_WRONG, ENODATA, AGAIN,
				    "'%s' was truncated while it was in use", file->path);
		done += (uint64_t)n;
	}
	return 0;
}

static int wrong(const struct run_load *l, const struct hm_piece_info *piece, uint64_t from,
		 uint64_t to, const char *whose)
{
	char *name = text_escape(piece->name);

	fail(STATUS_WRONG, EIO, AGAIN,
	     "wrong result: bytes %" PRIu64 " to %" PRIu64 " of %s %s in %s, read by "
	     "%s, differ from the file",
	     from, to, l->model.word, name, l->job.device, whose);
	free(name);
	return STATUS_WRONG;
}

/* Checks the bytes that the accelerator could not take, by the CPU's pointer. */
static int check_end(struct run_load *l, const struct hm_piece_info *piece,
		     const struct hm_load_place *place, const struct file *file, uint64_t from)
{
	uint64_t n = piece->bytes - from;
	bool same;
	int r, status;

	status = read_part(file, piece->offset + from, n);
	if (status)
		return status;
	r = hm_map_begin_cpu(l->info.map, place->offset + from, n, HM_READ);
	if (r)
		return fail_library(STATUS_WRONG, r, NULL, "cannot look at its bytes");
	same = !memcmp((char *)place->address + from, file->bytes, n);
	hm_map_end_cpu(l->info.map, place->offset + from, n, HM_READ);
	return same ? 0 : wrong(l, piece, from, piece->bytes, "the CPU");
}

/* Checks one launch, from the first of its slots on. */
static int check_launch(const struct run_load *l, const struct hm_piece_info *piece,
			const struct file *file, uint64_t at, uint64_t end, uint64_t slot)
{
	int status = 0;
	uint64_t n;

	for (; !status && at < end; at += n, slot++) {
		n = end - at < CHECKSUM_PART ? end - at : CHECKSUM_PART;
		status = read_part(file, piece->offset + at, n);
		if (!status && checksum_compute(l->checksum, file->bytes, n) !=
				       l->sums[slot * CHECKSUM_STRIDE])
			status = wrong(l, piece, at, at + n, l->job.in_place.info.name);
		progress_add(n);
		if (!status && signals_pending())
			status = 128 + signals_pending();
	}
	return status;
}

static int check_piece(struct run_load *l, const struct hm_piece_info *piece,
		       const struct file *file)
{
	uint64_t whole = checksum_whole(&l->job.in_place.info, piece->bytes), at, end;
	struct hm_load_place place = { .struct_size = sizeof(place) };
	uint64_t slot = l->slot[piece->index];
	int r, status = 0;

	r = hm_load_piece(l->load, piece->index, &place);
	if (r)
		return fail_library(STATUS_WRONG, r, NULL, "cannot find it in the device");
	for (at = 0; !status && at < whole; at = end) {
		end = load_launch_end(l, place.offset, at, whole);
		status = check_launch(l, piece, file, at, end, slot);
		slot += checksum_parts(end - at);
	}
	if (!status && whole < piece->bytes)
		status = check_end(l, piece, &place, file, whole);
	return status;
}

static int check_file(struct run_load *l, uint32_t number, unsigned char *bytes)
{
	struct hm_piece_info piece = { .struct_size = sizeof(piece) };
	struct hm_pieces_file_info info = { .struct_size = sizeof(info) };
	struct file file = { .bytes = bytes };
	int r, status = 0;
	uint64_t i;

	r = hm_pieces_file(l->pieces, number, &info);
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, NULL, "cannot list it");
	file.path = info.path;
	file.fd = open(info.path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (file.fd < 0)
		return fail(STATUS_WRONG, errno, AGAIN, "cannot open '%s' again: %s", info.path,
			    strerror(errno));
	for (i = info.first; !status && i < info.first + info.pieces; i++) {
		r = hm_pieces_at(l->pieces, i, &piece);
		status = r ? fail_library(STATUS_ENVIRONMENT, r, NULL, "cannot list it") :
			     check_piece(l, &piece, &file);
	}
	close(file.fd);
	return status;
}

static int check_files(struct run_load *l)
{
	unsigned char *bytes = malloc(CHECKSUM_PART);
	int status = 0;
	uint32_t i;

	if (!bytes)
		return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory to read a file");
	progress_begin("checking on the CPU", l->model.bytes);
	for (i = 0; !status && i < l->model.files; i++)
		status = check_file(l, i, bytes);
	progress_end();
	free(bytes);
	return status;
}

int load_verify(struct run_load *l)
{
	uint64_t length = l->n_sum * CHECKSUM_STRIDE * sizeof(*l->sums);
	double begin = job_now();
	struct hm_pointer_info sums;
	int r, status;

	if (!length)
		return check_files(l);
	/* The sums may be where CPUs don't reach. */
	r = hm_pointer_find(l->sums, &sums);
	if (!r)
		r = hm_map_begin_cpu(sums.map, sums.map_offset, length, HM_READ);
	if (r)
		return fail_library(STATUS_WRONG, r, NULL, "cannot read the checksums");
	status = check_files(l);
	hm_map_end_cpu(sums.map, sums.map_offset, length, HM_READ);
	l->check_seconds = job_now() - begin;
	return status;
}
