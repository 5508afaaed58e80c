// SPDX-License-Identifier: MIT
/* Files such as hetmap bench --json writes, made up. */
#include "perf/bench_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/command.h"

char *line_make(const char *bench, const char *name, double value, double peer, double own,
		double noise)
{
	char *text;

	if (asprintf(
		    &text,
		    "{\"bench\": \"%s\", \"case\": \"%s\", \"unit\": \"us\", \"value\": %f, "
		    "\"p99\": %f, \"peer\": \"bare calls\", \"peer_value\": %f, \"ratio\": %f, "
		    "\"target_ratio\": 1.1, \"met\": true, \"rounds\": 100, \"value_95\": [%f, "
		    "%f], \"peer_p99\": %f, \"peer_value_95\": [%f, %f], \"ratio_95\": [%f, "
		    "%f], " SAMPLES "}\n",
		    bench, name, value, value * 2, peer, value / peer, value - own, value + own,
		    peer * 2, peer - own, peer + own, value / peer - noise,
		    value / peer + noise) < 0)
		abort();
	return text;
}

char *file_make(const char *folder, const char *name, const char *const *texts)
{
	char *path = folder_path(folder, name);
	FILE *file = fopen(path, "we");

	CHECK_FATAL(file != NULL);
	for (; *texts; texts++)
		fputs(*texts, file);
	fclose(file);
	return path;
}

const char *rest_of(const char *text, const char *name)
{
	static char rest[256];
	const char *at = strstr(text, name);

	if (!at) {
		test_fail(__FILE__, __LINE__, "no '%s' in: %s", name, text);
		return "";
	}
	at += strlen(name);
	snprintf(rest, sizeof(rest), "%.*s", (int)strcspn(at, "\n"), at);
	return rest;
}
