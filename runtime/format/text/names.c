// SPDX-License-Identifier: MIT
/* Names of a file, and a number for each: see names.h. */
#include "format/text/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/err.h"
#include "base/sys.h"

#define NAMES_MAX (1u << 30)

/* 16 random bytes that the kernel gives each process [getauxval(3), AT_RANDOM]. */
static uint64_t seed(void)
{
	const void *random = (const void *)getauxval(AT_RANDOM);
	uint64_t value = 0x9e3779b97f4a7c15;

	if (random)
		memcpy(&value, random, sizeof(value));
	return value;
}

static inline uint64_t mix(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash(const char *text, size_t length)
{
	uint64_t h = seed(), word = 0;
	size_t rest = length;

	for (; rest >= sizeof(word); rest -= sizeof(word), text += sizeof(word)) {
		memcpy(&word, text, sizeof(word));
		h = mix(h ^ word, 0xa0761d6478bd642f);
	}
	word = 0;
	memcpy(&word, text, rest);
	return mix(h ^ word, 0xe7037ed1a0b428db ^ length);
}

/* The slot with the name, or the free slot for it. */
static uint32_t *slot_of(const struct names *names, const char *text, size_t length)
{
	uint32_t at = (uint32_t)hash(text, length) & (names->n_slot - 1);
	const struct name *name;

	for (;; at = (at + 1) & (names->n_slot - 1)) {
		if (!names->slot[at])
			return &names->slot[at];
		name = &names->name[names->slot[at] - 1];
		if (name->length == length && !memcmp(name->text, text, length))
			return &names->slot[at];
	}
}

int names_expect(struct names *names, uint32_t n)
{
	struct names larger = { .room = 16, .n = names->n };
	uint32_t i;

	if (n <= names->room)
		return 0;
	if (n > NAMES_MAX)
		return err_set(-E2BIG, "%u names are too many: %u can be", n, NAMES_MAX);
	while (larger.room < n)
		larger.room *= 2;
	larger.n_slot = 2 * larger.room;
	larger.name = sys_calloc(larger.room, sizeof(*larger.name));
	if (!larger.name)
		goto err_none;
	larger.slot = sys_calloc(larger.n_slot, sizeof(*larger.slot));
	if (!larger.slot)
		goto err_free_name;
	if (names->n)
		memcpy(larger.name, names->name, names->n * sizeof(*names->name));
	for (i = 0; i < names->n; i++)
		*slot_of(&larger, larger.name[i].text, larger.name[i].length) = i + 1;
	names_free(names);
	*names = larger;
	return 0;

err_free_name:
	free(larger.name);
err_none:
	return err_set(-ENOMEM, "no memory for %u names", n);
}

int names_add(struct names *names, const char *text, size_t length, uint32_t value)
{
	uint32_t *slot;
	int r;

	r = names->n == names->room ? names_expect(names, names->n + 1) : 0;
	if (r)
		return r;
	slot = slot_of(names, text, length);
	if (*slot)
		return -EEXIST;
	names->name[names->n] = (struct name){
		.text = text,
		.length = (uint32_t)length,
		.value = value,
	};
	*slot = ++names->n;
	return 0;
}

const struct name *names_find(const struct names *names, const char *text, size_t length)
{
	uint32_t slot = names->n ? *slot_of(names, text, length) : 0;

	return slot ? &names->name[slot - 1] : NULL;
}

void names_free(struct names *names)
{
	free(names->slot);
	free(names->name);
	*names = (struct names){ 0 };
}
