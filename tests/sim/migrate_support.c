// SPDX-License-Identifier: MIT
/* Pages of the process that move to a device's memory, for their tests. */
#include "sim/migrate_support.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/harness.h"

bool migrate_open(struct mirror *mirror, struct hetsim_mirror *ret_says)
{
	*ret_says = (struct hetsim_mirror){ .size = sizeof(*ret_says) };
	if (!mirror_open(mirror))
		return false;
	CHECK_EQUAL(hetsim_call(mirror->fd, HETSIM_MIRROR, ret_says), 0);
	return true;
}

struct mirror migrate_begin(struct hetsim_mirror *ret_says)
{
	struct mirror mirror;

	if (!migrate_open(&mirror, ret_says))
		test_abandon();
	return mirror;
}

unsigned char *migrate_map(size_t n, int value)
{
	unsigned char *bytes =
		mirror_map(n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	CHECK_EQUAL(madvise(bytes, n, MADV_NOHUGEPAGE), 0);
	memset(bytes, value, n);
	return bytes;
}

unsigned int migrate_on_device(const struct mirror *mirror, const void *bytes, size_t n)
{
	struct hetsim_range_query query = {
		.size = sizeof(query),
		.address = (uintptr_t)bytes,
		.length = n,
	};
	struct hetsim_page *pages = calloc(n / PAGE, sizeof(*pages));
	unsigned int there = 0;
	size_t i;

	CHECK_FATAL(pages != NULL);
	query.pages = (uintptr_t)pages;
	CHECK_EQUAL(hetsim_call(mirror->fd, HETSIM_RANGE_QUERY, &query), 0);
	for (i = 0; i < n / PAGE; i++)
		there += pages[i].location == HETSIM_LOCATION_DEVICE;
	free(pages);
	return there;
}

void migrate_there(const struct mirror *mirror, const void *bytes, size_t n)
{
	CHECK_DONE(mirror_prefetch(mirror, bytes, n, HETSIM_LOCATION_DEVICE,
				   HETSIM_PREFETCH_WRITE));
}

void migrate_back(const struct mirror *mirror, const void *bytes, size_t n)
{
	CHECK_DONE(mirror_prefetch(mirror, bytes, n, HETSIM_LOCATION_HOST, 0));
}

uint64_t migrate_pages(const struct mirror *mirror)
{
	struct hetsim_counters counters = mirror_counters(mirror);

	return counters.pages_migrated - counters.pages_returned;
}

bool migrate_is(const unsigned char *bytes, size_t n, int value)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (bytes[i] != (unsigned char)value)
			return false;
	return true;
}
