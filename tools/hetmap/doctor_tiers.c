// SPDX-License-Identifier: MIT
/* Doctor: the ladder of memory, with figures. */
#include <stdlib.h>

#include <hetmap/hetmap.h>

#include "doctor.h"
#include "text.h"
#include "tiers.h"

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
	if (!n)
		doctor_report(doctor, DOCTOR_NOTE,
			      "devices node:N and tier:WORD are -EOPNOTSUPP", NULL,
			      "tiers: this kernel shows no NUMA nodes");
	free(tiers);
}
