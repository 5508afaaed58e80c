// SPDX-License-Identifier: MIT
/* The state of the machine beside the figures: without it they say little. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <hetmap/hetmap.h>

#include "bench_run.h"
#include "hetmap/doctor.h"

#define THP "/sys/kernel/mm/transparent_hugepage/"
#define GOVERNOR "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"

/* Facts on which all times depend. Load and free memory move within a run, too. */
static const char *const decisive[] = {
	"cpu", "cpus", "cpus_allowed", "virtual", "kernel", "thp", "thp_shmem", "governor",
};

/* ---- asking ---- */

/* Finds the text behind "KEY : " or "KEY:" in a file of /proc; false: there is none. */
static bool find_field(const struct doctor *doctor, const char *path, const char *key,
		       char *text, size_t size)
{
	char *full = doctor_path(doctor, path), *line = NULL;
	FILE *file = fopen(full, "re");
	size_t length = 0, n = strlen(key);
	bool found = false;

	free(full);
	while (file && !found && getline(&line, &length, file) > 0) {
		const char *at = line + n;

		if (strncmp(line, key, n) != 0)
			continue;
		at += strspn(at, " \t");
		found = *at == ':';
		at += found;
		at += strspn(at, " \t");
		if (found)
			snprintf(text, size, "%.*s", (int)strcspn(at, "\n"), at);
	}
	free(line);
	if (file)
		fclose(file);
	return found;
}

static json_t *memory(const struct doctor *doctor, const char *key)
{
	char text[64];

	if (!find_field(doctor, "/proc/meminfo", key, text, sizeof(text)))
		return json_null();
	return json_integer((json_int_t)strtoull(text, NULL, 10) * 1024);
}

static json_t *choice(const struct doctor *doctor, const char *path)
{
	char text[64];

	return doctor_read_choice(doctor, path, text, sizeof(text)) ? json_null() :
								      json_string(text);
}

static json_t *line_of(const struct doctor *doctor, const char *path)
{
	char text[64];

	return doctor_read(doctor, path, text, sizeof(text)) ? json_null() : json_string(text);
}

static json_t *load(const struct doctor *doctor)
{
	char text[64];
	double load[3];

	if (doctor_read(doctor, "/proc/loadavg", text, sizeof(text)) ||
	    sscanf(text, "%lf %lf %lf", &load[0], &load[1], &load[2]) != 3)
		return json_null();
	return json_pack("[f, f, f]", load[0], load[1], load[2]);
}

static json_t *cpu_model(const struct doctor *doctor)
{
	char text[128];

	if (!find_field(doctor, "/proc/cpuinfo", "model name", text, sizeof(text)))
		return json_string("unknown CPU");
	return json_string(text);
}

static bool is_virtual(const struct doctor *doctor)
{
	char flags[8192];

	return find_field(doctor, "/proc/cpuinfo", "flags", flags, sizeof(flags)) &&
	       strstr(flags, " hypervisor");
}

static json_t *allowed(void)
{
	cpu_set_t cpus;

	return sched_getaffinity(0, sizeof(cpus), &cpus) ? json_null() :
							   json_integer(CPU_COUNT(&cpus));
}

json_t *bench_state_now(void)
{
	const char *root = getenv("HETMAP_ROOT");
	const struct doctor doctor = { .root = root ? root : "" };
	time_t now = time(NULL);
	struct utsname name;
	uint32_t version = hm_version();
	char date[32], hetmap[32];
	json_t *machine;

	uname(&name);
	snprintf(hetmap, sizeof(hetmap), "%u.%u.%u", version >> 16, version >> 8 & 0xff,
		 version & 0xff);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
	machine = json_pack("{s:s, s:s, s:s+, s:s}", "hetmap", hetmap, "date", date, "kernel",
			    "Linux ", name.release, "machine", name.machine);
	json_object_set_new(machine, "cpu", cpu_model(&doctor));
	json_object_set_new(machine, "cpus", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
	json_object_set_new(machine, "cpus_allowed", allowed());
	json_object_set_new(machine, "virtual", json_boolean(is_virtual(&doctor)));
	json_object_set_new(machine, "governor", line_of(&doctor, GOVERNOR));
	json_object_set_new(machine, "memory", memory(&doctor, "MemTotal"));
	json_object_set_new(machine, "memory_available", memory(&doctor, "MemAvailable"));
	json_object_set_new(machine, "thp", choice(&doctor, THP "enabled"));
	json_object_set_new(machine, "thp_shmem", choice(&doctor, THP "shmem_enabled"));
	json_object_set_new(machine, "load", load(&doctor));
	json_object_set_new(machine, "nice", json_integer(getpriority(PRIO_PROCESS, 0)));
	return machine;
}

/* ---- telling ---- */

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
