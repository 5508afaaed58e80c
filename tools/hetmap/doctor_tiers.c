// SPDX-License-Identifier: MIT
/* Doctor: the ladder of memory, with figures, and bad ranges of persistent and of CXL memory. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hetmap/hetmap.h>

#include "common/command.h"
#include "common/text.h"
#include "common/tiers.h"
#include "doctor.h"

static void report_rung(struct doctor *doctor, const struct hm_tier *tier)
{
	char *figures = tiers_figures(tier), *words = tiers_words(tier), size[TEXT_MAX];
	const char *lasts = tiers_persistence(tier);

	doctor_report(doctor, DOCTOR_OK, NULL, NULL, "tier %s%s%s%s: %s, %s, %s%s%s",
		      tier->device, *words ? " (" : "", words, *words ? ")" : "", tier->made_of,
		      figures, text_bytes(tier->capacity, size), lasts ? ", lasts " : "",
		      lasts ? lasts : "");
	free(words);
	free(figures);
}

/* All bad ranges of the device: free() them. 0 or a negative errno. */
static int bad_ranges(const char *device, struct hm_bad_range **ret_ranges, uint32_t *ret_n)
{
	struct hm_bad_range *ranges;
	uint32_t n, room;
	int r = hm_tier_bad_ranges(device, NULL, 0, &room);

	if (r)
		return r;
	ranges = calloc(room + 1, sizeof(*ranges));
	if (!ranges)
		return -ENOMEM;
	r = hm_tier_bad_ranges(device, ranges, room, &n);
	if (r) {
		free(ranges);
		return r;
	}
	*ret_ranges = ranges;
	*ret_n = n < room ? n : room;
	return 0;
}

static void report_bad(struct doctor *doctor, const struct hm_tier *tier)
{
	struct hm_bad_range *ranges;
	char size[TEXT_MAX];
	uint64_t bytes = 0;
	uint32_t n, i;

	/* A list that can't be read is no finding about the memory. */
	if ((!tier->persist && strncmp(tier->made_of, "CXL ", 4) != 0) ||
	    bad_ranges(tier->device, &ranges, &n))
		return;
	for (i = 0; i < n; i++)
		bytes += ranges[i].length;
	if (n)
		doctor_report(doctor, DOCTOR_LIMIT, "loads from there raise SIGBUS",
			      "after a look at what is lost there, run hetmap doctor "
			      "--clear-bad with the device's name as root",
			      "tier %s: %" PRIu32 " bad range%s, %s, the first at offset "
			      "%" PRIu64,
			      tier->device, n, n == 1 ? "" : "s", text_bytes(bytes, size),
			      ranges[0].offset);
	free(ranges);
}

int doctor_clear_bad(const char *device)
{
	struct hm_bad_range *ranges;
	uint64_t cleared;
	uint32_t n, i;
	int r = bad_ranges(device, &ranges, &n);

	if (r)
		return fail(STATUS_ENVIRONMENT, r, NULL, "%s", hm_errmsg());
	for (i = 0; i < n && !r; i++) {
		r = hm_tier_bad_clear(device, ranges[i].offset, ranges[i].length, &cleared);
		if (!r)
			printf("offset %" PRIu64 ": %" PRIu64 " bytes cleared, whose value is "
			       "undefined now\n",
			       ranges[i].offset, cleared);
	}
	free(ranges);
	if (r)
		return fail(STATUS_ENVIRONMENT, r, NULL, "%s", hm_errmsg());
	if (!n)
		puts("there are no bad ranges");
	return STATUS_DONE;
}

/* The ladder is the library's, which knows no other root than "/". */
void check_tiers(struct doctor *doctor)
{
	struct hm_tier *tiers;
	uint32_t n, i;

	if (*doctor->root)
		return;
	if (tiers_list(&tiers, &n)) {
		doctor_report(doctor, DOCTOR_NOTE, "the ladder of memory is not known", NULL,
			      "tiers: %s", hm_errmsg());
		return;
	}
	for (i = 0; i < n; i++)
		report_rung(doctor, &tiers[i]);
	for (i = 0; i < n; i++)
		report_bad(doctor, &tiers[i]);
	if (!n)
		doctor_report(doctor, DOCTOR_NOTE,
			      "devices node:N and tier:WORD are -EOPNOTSUPP", NULL,
			      "tiers: this kernel shows no NUMA nodes");
	free(tiers);
}
