/* SPDX-License-Identifier: MIT */
/* The ladder of memory for people and for programs. */
#ifndef HETMAP_TIERS_H
#define HETMAP_TIERS_H

#include <jansson.h>

#include <hetmap/tier.h>

/* All rungs, measured where the firmware has no figures: free() them. 0 or a negative errno. */
int tiers_list(struct hm_tier **ret_tiers, uint32_t *ret_n);

/* "fast, large", or "". free() it. */
char *tiers_words(const struct hm_tier *tier);
/* "92 ns, 11.2 GB/s (measured)". free() it. */
char *tiers_figures(const struct hm_tier *tier);
/* "by cache lines", or NULL: bytes do not outlive a power failure. */
const char *tiers_persistence(const struct hm_tier *tier);

json_t *tiers_json(const struct hm_tier *tiers, uint32_t n);

#endif
