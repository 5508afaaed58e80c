// SPDX-License-Identifier: MIT
/* The state of the machine beside the figures: without it they say little. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_run.h"

/* Facts on which all times depend. Load and free memory move within a run, too. */
static const char *const decisive[] = {
	"cpu", "cpus", "cpus_allowed", "virtual", "kernel", "thp", "thp_shmem", "governor",
};

static const char *text_of(const json_t *machine, const char *key)
{
	const char *text = json_string_value(json_object_get(machine, key));

	return text ? text : "unknown";
}

static const char *bytes_of(const json_t *machine, const char *key, char text[TEXT_MAX])
{
	json_int_t bytes = json_integer_value(json_object_get(machine, key));

	return bytes > 0 ? text_bytes((uint64_t)bytes, text) : "unknown";
}

static void add(char *text, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void add(char *text, size_t size, const char *format, ...)
{
	size_t length = strlen(text);
	va_list list;

	va_start(list, format);
	vsnprintf(text + length, size - length, format, list);
	va_end(list);
}

void bench_state_facts(const json_t *machine, struct bench_fact facts[BENCH_FACTS])
{
	json_int_t cpus = json_integer_value(json_object_get(machine, "cpus"));
	json_int_t usable = json_integer_value(json_object_get(machine, "cpus_allowed"));
	json_int_t nice = json_integer_value(json_object_get(machine, "nice"));
	const json_t *average = json_object_get(machine, "load");
	const char *governor = json_string_value(json_object_get(machine, "governor"));
	char total[TEXT_MAX], available[TEXT_MAX];
	size_t size = sizeof(facts->text), i;

	memset(facts, 0, BENCH_FACTS * sizeof(*facts));
	facts[0].label = "processor";
	add(facts[0].text, size, "%s, %" PRId64 " CPU%s", text_of(machine, "cpu"),
	    (int64_t)cpus, cpus == 1 ? "" : "s");
	if (usable > 0 && usable < cpus)
		add(facts[0].text, size, " (%" PRId64 " usable)", (int64_t)usable);
	if (json_is_true(json_object_get(machine, "virtual")))
		add(facts[0].text, size, ", virtual");
	facts[1].label = "system";
	add(facts[1].text, size, "%s, hetmap %s", text_of(machine, "kernel"),
	    text_of(machine, "hetmap"));
	facts[2].label = "memory";
	add(facts[2].text, size, "%s, %s of it available", bytes_of(machine, "memory", total),
	    bytes_of(machine, "memory_available", available));
	facts[3].label = "settings";
	add(facts[3].text, size, "THP %s, shared %s, governor %s", text_of(machine, "thp"),
	    text_of(machine, "thp_shmem"), governor ? governor : "none");
	facts[4].label = "before";
	add(facts[4].text, size, "%s, load", text_of(machine, "date"));
	for (i = 0; i < json_array_size(average); i++)
		add(facts[4].text, size, " %.2f",
		    json_number_value(json_array_get(average, i)));
	if (!json_array_size(average))
		add(facts[4].text, size, " unknown");
	if (nice)
		add(facts[4].text, size, ", at nice %" PRId64, (int64_t)nice);
	/* The state may come from a file. */
	for (i = 0; i < BENCH_FACTS; i++)
		bench_plain(facts[i].text);
}

void bench_state_print(const json_t *machine)
{
	const char *governor = json_string_value(json_object_get(machine, "governor"));
	struct bench_fact facts[BENCH_FACTS];
	char memory[TEXT_MAX];
	char *text, *shown;

	bench_state_facts(machine, facts);
	/* The date has its time to the second: "2026-11-22". */
	text = text_format(
		"%s; %s; %s; THP %s, shared %s; %s%sload %.2f; %.10s; hetmap %s", facts[0].text,
		text_of(machine, "kernel"), bytes_of(machine, "memory", memory),
		text_of(machine, "thp"), text_of(machine, "thp_shmem"),
		governor ? governor : "", governor ? "; " : "",
		json_number_value(json_array_get(json_object_get(machine, "load"), 0)),
		text_of(machine, "date"), text_of(machine, "hetmap"));
	shown = text_escape(text);
	text_wrap(shown, 0, 0, 80);
	free(shown);
	free(text);
}

bool bench_state_busy(const json_t *machine)
{
	const json_t *load = json_array_get(json_object_get(machine, "load"), 0);
	json_int_t cpus = json_integer_value(json_object_get(machine, "cpus"));

	return cpus > 0 && json_number_value(load) >= (double)cpus / 2;
}

char *bench_state_differences(const json_t *a, const json_t *b)
{
	char *text = text_format("%s", "");
	size_t i;

	for (i = 0; i < sizeof(decisive) / sizeof(decisive[0]); i++) {
		const json_t *x = json_object_get(a, decisive[i]);
		const json_t *y = json_object_get(b, decisive[i]);
		char *longer;

		if (x == y || (x && y && json_equal(x, y)))
			continue;
		longer = text_format("%s%s%s", text, *text ? " " : "", decisive[i]);
		free(text);
		text = longer;
	}
	return text;
}
