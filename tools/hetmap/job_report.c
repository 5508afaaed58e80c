// SPDX-License-Identifier: MIT
/* The cost of a job, for people and as JSON: the same facts for every job. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/command.h"
#include "common/text.h"
#include "job.h"

static const struct {
	const char *name; /* in JSON */
	const char *text;
	const char *words; /* where a line has little room */
} ways[] = {
	[HM_WAY_NONE] = { NULL, "nothing was launched", "none" },
	[HM_WAY_DIRECT] = { "direct", "the CPU's own addresses are the accelerator's",
			    "direct" },
	[HM_WAY_SVM] = { "svm", "system SVM: any pointer is the device's, too", "system SVM" },
	[HM_WAY_IMPORT] = { "import", "the buffer's dma-buf, imported", "import" },
	[HM_WAY_HOST_PTR] = { "host_ptr", "host pointer, tested to be in place",
			      "host pointer" },
	[HM_WAY_COPY] = { "copy", "copies to the device and back", "copies" },
};

#define N_WAY (sizeof(ways) / sizeof(ways[0]))

const char *job_way_json(uint32_t way)
{
	return way < N_WAY && ways[way].name ? ways[way].name : "";
}

const char *job_way_name(uint32_t way)
{
	return way < N_WAY ? ways[way].words : "unknown";
}

static void line(const char *label, const char *text)
{
	printf("  %-13s", label);
	text_wrap(text, 15, 15, 79);
}

static void print_copied(const struct job *job)
{
	char copied[TEXT_MAX], loaded[TEXT_MAX];
	char *text;

	if (job->bytes_loaded)
		text = text_format("%s to load them into device %s, %s by the launches",
				   text_count(job->bytes_loaded, loaded), job->device,
				   text_count(job->pass.bytes_copied, copied));
	else
		text = text_format("%s", text_count(job->pass.bytes_copied, copied));
	line("bytes copied", text);
	free(text);
	if (job->reason)
		line("", job->reason);
}

static void print_times(const struct job *job, uint64_t bytes)
{
	/* The device that it is on may have to be copied to all the same. */
	const char *how = job->pass.way_in == HM_WAY_COPY ? "by the pointer" : "in place";
	double fast = job->in_place.seconds, slow = job->copies.seconds;
	char in_place[TEXT_MAX], with_copies[TEXT_MAX], first[TEXT_MAX], rate[TEXT_MAX];
	char *text;

	text_seconds(fast, in_place);
	text_seconds(slow, with_copies);
	text_seconds(job->first_seconds, first);
	/* The rate of a few bytes means nothing. */
	if (bytes >= 1 << 20 && fast > 0)
		text = text_format("%s %s (%s)", in_place, how,
				   text_rate((double)bytes / fast, rate));
	else
		text = text_format("%s %s", in_place, how);
	line("time", text);
	free(text);
	if (job->copies.accel && slow > 0) {
		text = text_format("%s with copies: %s takes %.2f of that", with_copies, how,
				   fast / slow);
		line("", text);
		free(text);
	}
	if (job->rounds > 1)
		text = text_format("median of %" PRIu64 " rounds%s, after a first pass of %s",
				   job->rounds,
				   job->copies.accel ? ", one of each in turn" : "", first);
	else
		text = text_format("one round, after a first pass of %s", first);
	line("", text);
	free(text);
}

void job_print(const struct job *job, uint64_t bytes)
{
	char minor[TEXT_MAX], major[TEXT_MAX];
	char *text;

	text = text_format("%s, %s", job->in_place.info.name, job->in_place.info.description);
	line("accelerator", text);
	free(text);
	line("device", job->device);
	if (job->pass.way_in < N_WAY)
		line("way in", ways[job->pass.way_in].text);
	print_copied(job);
	print_times(job, bytes);
	text = text_format("%s minor, %s major, in the first pass",
			   text_count((uint64_t)job->minor, minor),
			   text_count((uint64_t)job->major, major));
	line("page faults", text);
	free(text);
}

void job_json(const struct job *job, json_t *object)
{
	uint32_t way = job->pass.way_in;
	bool known = way < N_WAY && ways[way].name;

	json_object_set_new(
		object, "bytes_copied",
		json_integer((json_int_t)(job->bytes_loaded + job->pass.bytes_copied)));
	json_object_set_new(object, "seconds",
			    json_pack("{s:f, s:f, s:o}", "in_place", job->in_place.seconds,
				      "first", job->first_seconds, "with_copies",
				      job->copies.accel && job->copies.seconds > 0 ?
					      json_real(job->copies.seconds) :
					      json_null()));
	json_object_set_new(object, "rounds", json_integer((json_int_t)job->rounds));
	json_object_set_new(object, "faults",
			    json_pack("{s:I, s:I}", "minor", (json_int_t)job->minor, "major",
				      (json_int_t)job->major));
	json_object_set_new(object, "device", json_string(job->device));
	json_object_set_new(object, "accel", json_string(job->in_place.info.name));
	json_object_set_new(object, "way_in",
			    known ? json_string(ways[way].name) : json_null());
}
