// SPDX-License-Identifier: MIT
/* hetmap run load: the choices, and the cost in time and in memory. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/command.h"
#include "common/text.h"
#include "run_load.h"

/* Reading the figures takes about 30 us: not in each step. */
#define SAMPLE_SECONDS 0.01

/* ---- memory ---- */

void load_memory_begin(struct run_load *l)
{
	/* Where that is not allowed the peak is the process's, which is said to be more. */
	l->own_peak = !process_memory_reset_peak();
	if (!l->own_peak)
		remark("the peak of memory is the process's, not the load's: "
		       "/proc/self/clear_refs can't be written");
	l->before = process_memory_now();
	l->most = l->before;
}

void load_memory_sample(struct run_load *l)
{
	struct process_memory now;
	double time = job_now();

	if (time - l->sampled < SAMPLE_SECONDS && l->job.bytes_loaded < l->model.bytes)
		return;
	l->sampled = time;
	now = process_memory_now();
	process_memory_most(&l->most, &now);
}

/* Memory of the load beside the device's memory and the memory from before. */
static uint64_t beside(const struct run_load *l)
{
	int64_t bytes = process_memory_beside(&l->before, &l->most, l->info.buffer);

	return bytes > 0 ? (uint64_t)bytes : 0;
}

/* ---- time ---- */

static double seconds_of(uint64_t ns)
{
	return (double)ns / 1e9;
}

/* Seconds of disk, copies and the caller's work that overlapped. */
static double overlap(const struct run_load *l)
{
	double all = seconds_of(l->info.disk_ns) + seconds_of(l->info.copy_ns) +
		     seconds_of(l->info.loaded_ns) - seconds_of(l->info.wall_ns);

	return all > 0 ? all : 0;
}

static double rate(const struct run_load *l)
{
	return l->info.wall_ns ? (double)l->info.bytes / (double)l->info.wall_ns : 0;
}

/* ---- for people ---- */

static void line(const char *label, char *text)
{
	printf("  %-13s", label);
	text_wrap(text, 15, 15, 79);
	free(text);
}

static void print_times(const struct run_load *l)
{
	char wall[TEXT_MAX], disk[TEXT_MAX], copy[TEXT_MAX], same[TEXT_MAX], after[TEXT_MAX];
	char window[TEXT_MAX], step[TEXT_MAX], fast[TEXT_MAX], rated[TEXT_MAX + 4] = "";

	if (l->info.bytes >= 1 << 20)
		snprintf(rated, sizeof(rated), " (%s)", text_rate(rate(l) * 1e9, fast));
	line("loaded",
	     text_format("in %s%s, by %u thread%s, in steps of %s, a window of %s "
			 "under way",
			 text_seconds(seconds_of(l->info.wall_ns), wall), rated,
			 l->info.threads, l->info.threads == 1 ? "" : "s",
			 text_bytes(l->info.step, step), text_bytes(l->info.window, window)));
	line("disk", text_format("waited for %s; %.0f %% was in RAM before",
				 text_seconds(seconds_of(l->info.disk_ns), disk),
				 l->info.bytes ? 100.0 * (double)l->info.resident /
							 (double)l->info.bytes :
						 100.0));
	line("copies", text_format("%s, into the device's memory, where the bytes stay",
				   text_seconds(seconds_of(l->info.copy_ns), copy)));
	line("overlap", text_format("%s of all that at the same time as something else",
				    text_seconds(overlap(l), same)));
	text_seconds(l->compute_after, after);
	line("compute",
	     !l->n_layer ? text_format("no layers") :
	     l->n_layer == 1 ?
			   text_format("1 layer, once it was complete; %s more until it "
				       "was done",
				       after) :
			   text_format("%" PRIu64 " layers, each as it was complete; %s more "
				       "until the last one was done",
				       l->n_layer, after));
}

static void print_memory(const struct run_load *l)
{
	char peak[TEXT_MAX], file[TEXT_MAX], anonymous[TEXT_MAX], shared[TEXT_MAX];
	char device[TEXT_MAX], own[TEXT_MAX];
	const char *accel = l->job.in_place.info.name;
	bool mapped_twice = !strncmp(accel, "soft", 4);

	line("memory",
	     text_format("%s beside the device's %s: a peak of %s (VmHWM), at most %s of it "
			 "files (RssFile), %s anonymous (RssAnon), %s shared (RssShmem)%s%s%s",
			 l->own_peak ? text_bytes(beside(l), own) : "unknown",
			 text_bytes(l->info.buffer, device), text_bytes(l->most.peak, peak),
			 text_bytes(l->most.file, file),
			 text_bytes(l->most.anonymous, anonymous),
			 text_bytes(l->most.shared, shared),
			 mapped_twice ? "; the engine of " : "", mapped_twice ? accel : "",
			 mapped_twice ? " is in this process, and what it has mapped of the "
					"device counts once more" :
					""));
}

static void print_text(const struct run_load *l)
{
	const char *word = l->model.word;
	char bytes[TEXT_MAX], count[TEXT_MAX];

	printf("%s: %s %s%s, %s, in %u file%s\n\n", l->shown,
	       text_count(l->model.pieces, count), word, l->model.pieces == 1 ? "" : "s",
	       text_bytes(l->model.bytes, bytes), l->model.files,
	       l->model.files == 1 ? "" : "s");
	line("device", text_format("%s, each %s at a multiple of %" PRIu64, l->job.device, word,
				   l->info.alignment));
	line("accelerator", text_format("%s, %s", l->job.in_place.info.name,
					l->job.in_place.info.description));
	line("way in", text_format("%s", job_way_name(l->job.pass.way_in)));
	print_times(l);
	print_memory(l);
	line("verified",
	     !l->model.pieces ? text_format("nothing: the model has no %ss", word) :
	     l->by_cpu ? text_format("every %s's checksums in the device (%s), by %s, are its "
				     "file's; the last bytes of some, %s, by the CPU",
				     word, checksum_name(l->checksum),
				     l->job.in_place.info.name, text_bytes(l->by_cpu, bytes)) :
			 text_format("every %s's checksums in the device (%s), by %s, are its "
				     "file's",
				     word, checksum_name(l->checksum),
				     l->job.in_place.info.name));
}

/* ---- as JSON ---- */

static void print_json(const struct run_load *l)
{
	char *path = text_escape_json(l->path);
	json_t *object;

	object = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "job", "load", "file", path,
			   "files", (json_int_t)l->model.files, "tensors",
			   (json_int_t)l->model.pieces, "layers", (json_int_t)l->n_layer,
			   "bytes", (json_int_t)l->info.bytes);
	if (!object)
		abort();
	job_json(&l->job, object);
	/* A single pass has no other pass to compare it with. */
	json_object_del(object, "rounds");
	json_object_del(object, "faults");
	json_object_set_new(
		object, "chosen",
		json_pack("{s:I, s:I, s:I, s:I, s:I}", "window", (json_int_t)l->info.window,
			  "step", (json_int_t)l->info.step, "threads",
			  (json_int_t)l->info.threads, "alignment",
			  (json_int_t)l->info.alignment, "buffer", (json_int_t)l->info.buffer));
	json_object_set_new(object, "bytes_resident",
			    json_integer((json_int_t)l->info.resident));
	json_object_set_new(
		object, "seconds",
		json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "load",
			  seconds_of(l->info.wall_ns), "disk", seconds_of(l->info.disk_ns),
			  "copy", seconds_of(l->info.copy_ns), "hand_over",
			  seconds_of(l->info.loaded_ns), "overlap", overlap(l), "compute_after",
			  l->compute_after, "check", l->check_seconds));
	json_object_set_new(object, "gigabytes_per_second", json_real(rate(l)));
	json_object_set_new(
		object, "memory",
		json_pack("{s:o, s:I, s:I, s:I, s:I, s:I}", "beside",
			  l->own_peak ? json_integer((json_int_t)beside(l)) : json_null(),
			  "device", (json_int_t)l->info.buffer, "peak",
			  (json_int_t)l->most.peak, "file", (json_int_t)l->most.file,
			  "anonymous", (json_int_t)l->most.anonymous, "shared",
			  (json_int_t)l->most.shared));
	json_object_set_new(object, "checksum", json_string(checksum_name(l->checksum)));
	json_object_set_new(object, "bytes_by_cpu", json_integer((json_int_t)l->by_cpu));
	json_object_set_new(object, "verified", json_true());
	output_object(object);
	free(path);
}

void load_print(const struct run_load *l)
{
	if (output.json)
		print_json(l);
	else
		print_text(l);
}
