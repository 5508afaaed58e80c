// SPDX-License-Identifier: MIT
/* The ladder of memory for people and for programs. */
#include "tiers.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <hetmap/hetmap.h>

#include "command.h"
#include "text.h"

/* Indexed by enum hm_tier_word, enum hm_tier_source, enum hm_persist. */
static const char *const words[] = { NULL, "fast", "large", "far" };
static const char *const sources[] = { "unknown", "firmware", "measured" };
static const char *const units[] = { NULL, "page", "cache_line", "byte" };
static const char *const by_units[] = { NULL, "by pages", "by cache lines", "by bytes" };

#define N(array) (sizeof(array) / sizeof((array)[0]))

int tiers_list(struct hm_tier **ret_tiers, uint32_t *ret_n)
{
	struct hm_tier *tiers;
	uint32_t n = 0, n_before;
	int r;

	r = hm_tier_list(NULL, 0, 0, &n);
	if (r)
		return r;
	tiers = calloc(n + 1, sizeof(*tiers));
	if (!tiers)
		return -ENOMEM;
	tiers[0].struct_size = sizeof(*tiers);
	n_before = n;
	r = hm_tier_list(tiers, n, HM_TIER_MEASURE, &n);
	if (r) {
		free(tiers);
		return r;
	}
	*ret_tiers = tiers;
	*ret_n = n < n_before ? n : n_before;
	return 0;
}

char *tiers_words(const struct hm_tier *tier)
{
	char *text = text_format("%s", "");
	size_t i;

	for (i = 1; i < N(words); i++) {
		char *longer;

		if (!(tier->words >> i & 1))
			continue;
		longer = text_format("%s%s%s", text, *text ? ", " : "", words[i]);
		free(text);
		text = longer;
	}
	return text;
}

char *tiers_figures(const struct hm_tier *tier)
{
	char rate[TEXT_MAX];

	if (!tier->latency)
		return text_format("not known");
	if (!tier->bandwidth)
		return text_format("%" PRIu64 " ns (%s)", tier->latency, sources[tier->source]);
	return text_format("%" PRIu64 " ns, %s (%s)", tier->latency,
			   text_rate((double)tier->bandwidth, rate), sources[tier->source]);
}

const char *tiers_persistence(const struct hm_tier *tier)
{
	return tier->persist < N(by_units) ? by_units[tier->persist] : NULL;
}

static json_t *number_or_null(uint64_t number)
{
	return number ? json_integer((json_int_t)number) : json_null();
}

static json_t *tier_json(const struct hm_tier *tier)
{
	json_t *object = json_object(), *array = json_array();
	size_t i;

	for (i = 1; i < N(words); i++)
		if (tier->words >> i & 1)
			json_array_append_new(array, json_string(words[i]));
	json_object_set_new(object, "device", json_string(tier->device));
	json_object_set_new(object, "made_of", json_string(tier->made_of));
	json_object_set_new(object, "words", array);
	json_object_set_new(object, "numa_node",
			    tier->node < 0 ? json_null() : json_integer(tier->node));
	json_object_set_new(object, "latency_ns", number_or_null(tier->latency));
	json_object_set_new(object, "bandwidth", number_or_null(tier->bandwidth));
	json_object_set_new(object, "figures", json_string(sources[tier->source]));
	json_object_set_new(object, "capacity", number_or_null(tier->capacity));
	json_object_set_new(object, "available", number_or_null(tier->available));
	json_object_set_new(object, "persistence",
			    tier->persist && tier->persist < N(units) ?
				    json_string(units[tier->persist]) :
				    json_null());
	return object;
}

json_t *tiers_json(const struct hm_tier *tiers, uint32_t n)
{
	json_t *array = json_array();
	uint32_t i;

	for (i = 0; i < n; i++)
		json_array_append_new(array, tier_json(&tiers[i]));
	return array;
}
