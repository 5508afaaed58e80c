// SPDX-License-Identifier: MIT
/* Facts of this machine: files of /proc and /sys, rights, free memory. */
#include "machine.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <hetmap/hetmap.h>

#include "command.h"
#include "text.h"

#define THP "/sys/kernel/mm/transparent_hugepage/"
#define GOVERNOR "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"

/* ---- files ---- */

const char *machine_root(void)
{
	const char *root = getenv("HETMAP_ROOT");

	return root ? root : "";
}

char *machine_path(const char *root, const char *path)
{
	return text_format("%s%s", root, path);
}

int machine_read(const char *root, const char *path, char *text, size_t size)
{
	char *full = machine_path(root, path);
	int fd = open(full, O_RDONLY | O_CLOEXEC);
	ssize_t n;
	int r;

	r = fd < 0 ? -errno : 0;
	free(full);
	if (r)
		return r;
	n = read(fd, text, size - 1);
	r = n < 0 ? -errno : 0;
	close(fd);
	if (r)
		return r;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return 0;
}

int machine_read_number(const char *root, const char *path, uint64_t *ret_number)
{
	char text[64], *end;
	unsigned long long number;
	int r;

	r = machine_read(root, path, text, sizeof(text));
	if (r)
		return r;
	if (!strcmp(text, "max")) {
		*ret_number = UINT64_MAX;
		return 0;
	}
	number = strtoull(text, &end, 10);
	if (end == text)
		return -EINVAL;
	*ret_number = number;
	return 0;
}

int machine_read_choice(const char *root, const char *path, char *text, size_t size)
{
	char line[256], *begin, *end;
	int r;

	r = machine_read(root, path, line, sizeof(line));
	if (r)
		return r;
	begin = strchr(line, '[');
	end = begin ? strchr(begin, ']') : NULL;
	if (!end)
		return -EINVAL;
	snprintf(text, size, "%.*s", (int)(end - begin - 1), begin + 1);
	return 0;
}

int machine_read_all(const char *root, const char *path, char **ret_text)
{
	char *full = machine_path(root, path);
	size_t size = 16384, n = 0;
	char *text = NULL, *larger;
	int fd = open(full, O_RDONLY | O_CLOEXEC);
	ssize_t got = 0;
	int r = fd < 0 ? -errno : 0;

	free(full);
	if (r)
		return r;
	/* One byte is for the end; a file that fills the rest may go on. */
	do {
		larger = realloc(text, size);
		if (!larger)
			abort();
		text = larger;
		got = read(fd, text + n, size - n - 1);
		if (got > 0)
			n += (size_t)got;
		if (n == size - 1)
			size *= 2;
	} while (got > 0);
	r = got < 0 ? -errno : 0;
	close(fd);
	if (r) {
		free(text);
		return r;
	}
	text[n] = '\0';
	*ret_text = text;
	return 0;
}

/* ---- rights and memory ---- */

bool machine_capable(unsigned int capability)
{
	unsigned long long set = 0;
	char line[256];
	/* This process, not the tree that a test may show. */
	FILE *file = fopen("/proc/self/status", "re");

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "CapEff: %llx", &set) == 1)
			break;
	if (file)
		fclose(file);
	return set >> capability & 1;
}

/*
 * Asked beforehand: memory is promised freely, and the shortage would come as
 * the kernel's OOM killer.
 */
int machine_check_memory(uint64_t bytes, const char *remedy)
{
	char need[TEXT_MAX], have[TEXT_MAX], line[128];
	FILE *file = fopen("/proc/meminfo", "re");
	unsigned long long kib = 0;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
			break;
	if (file)
		fclose(file);
	if (!kib || bytes < kib << 10)
		return 0;
	return fail(STATUS_ENVIRONMENT, ENOMEM, remedy,
		    "%s are needed, and %s of memory are available", text_bytes(bytes, need),
		    text_bytes(kib << 10, have));
}

/* ---- all that times depend on ---- */

/* Finds the text behind "KEY : " or "KEY:" in a file of /proc; false: there is none. */
static bool find_field(const char *root, const char *path, const char *key, char *text,
		       size_t size)
{
	char *full = machine_path(root, path), *line = NULL;
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

static json_t *memory(const char *root, const char *key)
{
	char text[64];

	if (!find_field(root, "/proc/meminfo", key, text, sizeof(text)))
		return json_null();
	return json_integer((json_int_t)strtoull(text, NULL, 10) * 1024);
}

static json_t *choice(const char *root, const char *path)
{
	char text[64];

	return machine_read_choice(root, path, text, sizeof(text)) ? json_null() :
								     json_string(text);
}

static json_t *line_of(const char *root, const char *path)
{
	char text[64];

	return machine_read(root, path, text, sizeof(text)) ? json_null() : json_string(text);
}

static json_t *load(const char *root)
{
	char text[64];
	double load[3];

	if (machine_read(root, "/proc/loadavg", text, sizeof(text)) ||
	    sscanf(text, "%lf %lf %lf", &load[0], &load[1], &load[2]) != 3)
		return json_null();
	return json_pack("[f, f, f]", load[0], load[1], load[2]);
}

static json_t *cpu_model(const char *root)
{
	char text[128];

	if (!find_field(root, "/proc/cpuinfo", "model name", text, sizeof(text)))
		return json_string("unknown CPU");
	return json_string(text);
}

static bool is_virtual(const char *root)
{
	char flags[8192];

	return find_field(root, "/proc/cpuinfo", "flags", flags, sizeof(flags)) &&
	       strstr(flags, " hypervisor");
}

static json_t *allowed(void)
{
	cpu_set_t cpus;

	return sched_getaffinity(0, sizeof(cpus), &cpus) ? json_null() :
							   json_integer(CPU_COUNT(&cpus));
}

json_t *machine_json(void)
{
	const char *root = machine_root();
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
	json_object_set_new(machine, "cpu", cpu_model(root));
	json_object_set_new(machine, "cpus", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
	json_object_set_new(machine, "cpus_allowed", allowed());
	json_object_set_new(machine, "virtual", json_boolean(is_virtual(root)));
	json_object_set_new(machine, "governor", line_of(root, GOVERNOR));
	json_object_set_new(machine, "memory", memory(root, "MemTotal"));
	json_object_set_new(machine, "memory_available", memory(root, "MemAvailable"));
	json_object_set_new(machine, "thp", choice(root, THP "enabled"));
	json_object_set_new(machine, "thp_shmem", choice(root, THP "shmem_enabled"));
	json_object_set_new(machine, "load", load(root));
	json_object_set_new(machine, "nice", json_integer(getpriority(PRIO_PROCESS, 0)));
	return machine;
}
