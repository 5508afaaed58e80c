// SPDX-License-Identifier: MIT
/* Checks of the tour's steps against their device, and their failures. */
#include "tour.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/command.h"
#include "common/text.h"

void tour_say(struct tour *tour, const char *format, ...)
{
	va_list args;

	free(tour->text);
	va_start(args, format);
	if (vasprintf(&tour->text, format, args) < 0)
		abort();
	va_end(args);
}

int tour_fail(struct tour *tour, int status, int error, const char *format, ...)
{
	va_list args;

	free(tour->failure);
	va_start(args, format);
	if (vasprintf(&tour->failure, format, args) < 0)
		abort();
	va_end(args);
	tour->error = error;
	return status;
}

int tour_expect(struct tour *tour, bool holds, const char *format, ...)
{
	va_list args;
	char *text;

	if (holds) {
		tour->n_expected++;
		return 0;
	}
	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		abort();
	va_end(args);
	tour_fail(tour, STATUS_WRONG, EIO, "%s", text);
	free(text);
	return STATUS_WRONG;
}

int tour_expect_number(struct tour *tour, uint64_t found, uint64_t expected, const char *what)
{
	return tour_expect(tour, found == expected, "%s: %" PRIu64 ", and should be %" PRIu64,
			   what, found, expected);
}

/*
 * The kernel reads and writes one byte on the tour's behalf. If the page table refuses, it
 * answers -EFAULT: there is no signal, and the byte stays as it is.
 */
static int access_at(void *pointer, uint32_t *ret_access)
{
	uint32_t access = HM_NONE;
	int ends[2], r = 0;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	if (write(ends[1], pointer, 1) == 1) {
		access = HM_READ;
		if (read(ends[0], pointer, 1) == 1)
			access |= HM_WRITE;
		else if (errno != EFAULT)
			r = -errno;
	} else if (errno != EFAULT) {
		r = -errno;
	}
	close(ends[0]);
	close(ends[1]);
	if (!r)
		*ret_access = access;
	return r;
}

int tour_expect_access(struct tour *tour, const void *pointer, uint32_t access,
		       const char *what)
{
	static const char *const names[] = { "neither read nor written", "read only", "written",
					     "read and written" };
	uint32_t found = HM_NONE;
	int r = access_at((void *)(uintptr_t)pointer, &found);

	if (r)
		return tour_fail(tour, STATUS_ENVIRONMENT, r, "no pipe to test rights: %s",
				 strerror(-r));
	return tour_expect(tour, found == access, "%s can be %s, and should be %s", what,
			   names[found & 3], names[access & 3]);
}

int tour_failed(struct tour *tour, int r, uint64_t cap, const char *what)
{
	struct hm_buffer_info info = { .struct_size = sizeof(info) };
	int status = STATUS_ENVIRONMENT;
	char reason[1024];

	/* A copy: the query below has a text of its own. */
	snprintf(reason, sizeof(reason), "%s", hm_errmsg());
	if (r == -EOPNOTSUPP &&
	    (!cap || !tour->buffer ||
	     (!hm_buffer_query(tour->buffer, &info) && !(info.caps & cap)))) {
		/* The buffer's name is in front of it, which is the tour's own. */
		tour_say(tour, "not on this device: %s",
			 strncmp(reason, TOUR_BUFFER ": ", sizeof(TOUR_BUFFER) + 1) ?
				 reason :
				 reason + sizeof(TOUR_BUFFER) + 1);
		return TOUR_ABSENT;
	}
	if (r == -EOPNOTSUPP || r == -ENODEV || r == -EIO || r == -ETIMEDOUT || r == -EFAULT)
		status = STATUS_WRONG;
	return *reason ? tour_fail(tour, status, r, "%s", reason) :
			 tour_fail(tour, status, r, "%s: %s", what, strerror(-r));
}
