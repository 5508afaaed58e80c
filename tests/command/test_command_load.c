// SPDX-License-Identifier: MIT
/* hetmap run load: models brought into devices, checked there, and files that are no model. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/safetensors_support.h"
#include "format/tokens_support.h"

#define NO_OPENCL "OCL_ICD_VENDORS=/nonexistent"
#define NOBODY 65534

/* 3 MiB and a bit of two layers and the tensors before and behind them. */
#define MODEL                                                            \
	"{\"m.embed.weight\":{\"dtype\":\"BF16\",\"shape\":[1048576],"   \
	"\"data_offsets\":[0,2097152]},"                                 \
	"\"m.layers.0.a.weight\":{\"dtype\":\"U8\",\"shape\":[70001],"   \
	"\"data_offsets\":[2097152,2167153]},"                           \
	"\"m.layers.0.b\":{\"dtype\":\"F32\",\"shape\":[0,9],"           \
	"\"data_offsets\":[2167153,2167153]},"                           \
	"\"m.layers.1.a.weight\":{\"dtype\":\"F16\",\"shape\":[500000]," \
	"\"data_offsets\":[2167153,3167153]},"                           \
	"\"head\":{\"dtype\":\"I8\",\"shape\":[3],\"data_offsets\":[3167153,3167156]}}"
#define MODEL_BYTES 3167156

static const char *make_model(const char *folder)
{
	return tensors_file(folder, "model.safetensors", MODEL, MODEL_BYTES);
}

static json_t *load_with(const char *settings, const char *device, const char *accel,
			 const char *window, const char *path)
{
	const struct command command = {
		.args = { "run", "load", "--json", "--device", device, "--accel", accel,
			  "--window", window, "--", path },
		.env = { NO_OPENCL, settings },
	};
	AUTO(outcome) outcome = { 0 };
	json_t *json;

	command_run(&command, &outcome);
	if (outcome.status)
		test_fail(__FILE__, __LINE__, "status %d: %s%s", outcome.status, outcome.out,
			  outcome.err);
	CHECK(!*outcome.err);
	json = outcome_json(&outcome);
	CHECK(json_is_true(json_object_get(json, "verified")));
	return json;
}

static json_t *load(const char *device, const char *accel, const char *window, const char *path)
{
	return load_with("HETMAP_SOFT=", device, accel, window, path);
}

/* By each checksum there is, in place and by copies, a window of a page included. */
static void devices(void)
{
	static const struct {
		const char *device, *accel, *window, *way_in, *checksum;
	} ways[] = {
		{ "host", "cpu", "64M", "direct", "lanes" },
		{ "soft:0", "cpu", "4K", "direct", "lanes" },
		{ "soft", "soft", "1M", "direct", "crc32" },
		{ "host", "soft:0", "128K", "copy", "crc32" },
	};
	AUTO_TEXT *folder = folder_make();
	const char *path = make_model(folder);
	const json_t *chosen, *memory;
	size_t i;

	for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		AUTO(json_t) *json = load(ways[i].device, ways[i].accel, ways[i].window, path);

		CHECK(!strcmp(string_of(json, "job"), "load"));
		CHECK(!strcmp(string_of(json, "way_in"), ways[i].way_in));
		CHECK(!strcmp(string_of(json, "checksum"), ways[i].checksum));
		CHECK(!strncmp(string_of(json, "device"), ways[i].device, 4));
		CHECK_EQUAL(integer_of(json, "tensors"), 5);
		CHECK_EQUAL(integer_of(json, "layers"), 4);
		CHECK_EQUAL(integer_of(json, "files"), 1);
		CHECK_EQUAL(integer_of(json, "bytes"), MODEL_BYTES);
		/* 70001 and 3 bytes: engines take multiples of 4. */
		CHECK_EQUAL(integer_of(json, "bytes_by_cpu"),
			    strcmp(ways[i].checksum, "lanes") ? 4 : 0);
		chosen = json_object_get(json, "chosen");
		CHECK(integer_of(chosen, "step") <= integer_of(chosen, "window"));
		CHECK(integer_of(chosen, "buffer") >= MODEL_BYTES);
		CHECK(real_of(json_object_get(json, "seconds"), "load") > 0);
		memory = json_object_get(json, "memory");
		CHECK(integer_of(memory, "peak") > 0 && integer_of(memory, "file") > 0);
		CHECK(integer_of(memory, "beside") >= 0);
	}
}

/* The engine's windows of 1 MiB begin inside of tensors; it takes multiples of 64. */
static void across_windows(void)
{
	AUTO_TEXT *folder = folder_make();
	const char *path = make_model(folder);
	json_t *json = load_with("HETMAP_SOFT=kind=fpga", "soft", "soft", "64K", path);

	CHECK_EQUAL(integer_of(json, "bytes_by_cpu"), 70001 % 64 + 3);
	json_decref(json);
	json = load_with("HETMAP_SOFT=kind=fpga", "host", "soft", "64K", path);
	CHECK(!strcmp(string_of(json, "way_in"), "copy"));
	json_decref(json);
}

static void text(void)
{
	AUTO_TEXT *folder = folder_make();
	const char *path = make_model(folder);
	const struct command command = {
		.args = { "run", "load", "--device", "soft:0", "--accel", "cpu", path },
		.env = { NO_OPENCL, "LC_ALL=C" },
	};
	static const char *const parts[] = {
		"5 tensors, 3.0 MiB, in 1 file",
		"  device       soft:0, each tensor at a multiple of 256\n",
		"  disk         waited for ",
		"  copies  ",
		"  overlap  ",
		"  compute      4 layers, each as it was complete",
		"(VmHWM)",
		"(RssFile)",
		"(RssAnon)",
		"(RssShmem)",
		"  verified     every tensor's checksums in the device (lanes), by cpu",
	};
	AUTO(outcome) outcome = { 0 };
	size_t i;

	CHECK_RUN(0, &outcome, &command);
	for (i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		CHECK_HAS(outcome.out, parts[i]);
}

/* Where the peak can't begin anew, the memory of the load is not known, and it says so. */
static void no_own_peak(void)
{
	AUTO_TEXT *folder = folder_make();
	const char *path = make_model(folder);
	struct command command = {
		.args = { "run", "load", "--device", "soft:0", "--accel", "cpu", path },
		.env = { NO_OPENCL, "LC_ALL=C" },
		.prepare = command_refuse_writing,
	};
	const json_t *memory;
	AUTO(outcome) outcome = { 0 };
	AUTO(json_t) *json = NULL;

	command_run(&command, &outcome);
	if (outcome.status == COMMAND_NO_FILTER) {
		test_skip("kernel", "no seccomp filters");
		return;
	}
	CHECK_EQUAL(outcome.status, 0);
	CHECK(strstr(outcome.err, "the peak of memory is the process's") != NULL);
	CHECK(strstr(outcome.out, "unknown beside the device's 3.0 MiB") != NULL);
	check_lines(outcome.out);
	command.args[7] = "--json";
	json = command_json(&command, 0);
	memory = json_object_get(json, "memory");
	CHECK(json_is_null(json_object_get(memory, "beside")));
	CHECK(integer_of(memory, "peak") > 0);
}

static void of_shards(void)
{
	static const char index[] = "{\"weight_map\":{\"a\":\"1.safetensors\","
				    "\"b\":\"2.safetensors\"}}";
	struct command ignoring = {
		.args = { "run", "load", "--device", "host", "--accel", "cpu" },
	};
	AUTO_TEXT *folder = folder_make(), *path = NULL;
	AUTO(outcome) outcome = { 0 };
	json_t *json;

	tensors_file(folder, "1.safetensors",
		     "{\"a\":{\"dtype\":\"U8\",\"shape\":[99],\"data_offsets\":[0,99]}}", 99);
	tensors_file(folder, "2.safetensors",
		     "{\"b\":{\"dtype\":\"U8\",\"shape\":[5000],\"data_offsets\":[0,5000]}}",
		     5000);
	file_write(folder, "model.safetensors.index.json", index, strlen(index));
	path = folder_path(folder, "model.safetensors.index.json");
	json = load("soft:0", "soft:0", "64K", path);
	CHECK_EQUAL(integer_of(json, "files"), 2);
	CHECK_EQUAL(integer_of(json, "bytes"), 5099);
	json_decref(json);
	json = load("host", "cpu", "64K", folder);
	CHECK_EQUAL(integer_of(json, "files"), 2);
	json_decref(json);
	/* A copy of "a", which the index does not list there: its remark is no failure. */
	tensors_file(folder, "2.safetensors",
		     "{\"a\":{\"dtype\":\"U8\",\"shape\":[7],\"data_offsets\":[0,7]},"
		     "\"b\":{\"dtype\":\"U8\",\"shape\":[5000],\"data_offsets\":[7,5007]}}",
		     5007);
	ignoring.args[6] = path;
	CHECK_RUN(0, &outcome, &ignoring);
	CHECK(strstr(outcome.err, "1 tensor of the files: ignored") != NULL);
}

/* A .npy file is one piece, of any type: a number of bytes where the library has none. */
static void array(void)
{
	static const char *const types[] = { "<i2", ">i2", "|V2" };
	char *folder = folder_make(), *path, bytes[60000];
	AUTO(outcome) outcome = { 0 };
	struct command command = { .args = { "run", "load", "--accel", "cpu" },
				   .env = { NO_OPENCL, "LC_ALL=C" } };
	json_t *json;
	size_t i;

	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)data_byte(i);
	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		path = tokens_npy(folder, "a.npy", 1, types[i], false, "(300, 100)", bytes,
				  sizeof(bytes));
		json = load("soft:0", "cpu", "4K", path);
		CHECK_EQUAL(integer_of(json, "tensors"), 1);
		CHECK_EQUAL(integer_of(json, "layers"), 1);
		CHECK_EQUAL(integer_of(json, "bytes"), sizeof(bytes));
		json_decref(json);
		command.args[4] = path;
		CHECK_RUN(0, &outcome, &command);
		CHECK(strstr(outcome.out, "a.npy: 1 array, 58.6 KiB, in 1 file\n") != NULL);
		CHECK(strstr(outcome.out, "  verified     every array's checksums in") != NULL);
		free(path);
	}
	folder_remove(folder);
}

/* ---- bad input ---- */

#define LFS "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"

/* Ends with @status; the sentence has @text, and so has the JSON. A remedy, if @remedy. */
static void refused(const struct command *command, int status, const char *text,
		    const char *remedy)
{
	struct command again = *command;
	AUTO(outcome) outcome = { 0 };
	AUTO(json_t) *json = NULL;
	int n = 0;

	CHECK_RUN(status, &outcome, command);
	CHECK(!*outcome.out);
	CHECK(!strncmp(outcome.err, "hetmap: ", 8));
	if (!strstr(outcome.err, text) || (remedy && !strstr(outcome.err, remedy)))
		test_fail(__FILE__, __LINE__, "no '%s' or no '%s' in: %s", text,
			  remedy ? remedy : "", outcome.err);

	while (again.args[n])
		n++;
	/* Behind "run load". */
	memmove(again.args + 4, again.args + 2, (size_t)(n - 2) * sizeof(again.args[0]));
	again.args[2] = "--json";
	again.args[3] = "--quiet"; /* that there is no OpenCL here */
	CHECK_RUN(status, &outcome, &again);
	CHECK(!*outcome.err);
	json = outcome_json(&outcome);
	CHECK(strstr(string_of(json, "error"), text) != NULL);
}

static void bad_input(void)
{
	char *fifo, *npy;
	AUTO_TEXT *folder = folder_make(), *none = folder_path(folder, "none"), *other = NULL;
	AUTO_TEXT *path = strdup(make_model(folder));

	refused(&(struct command){ .args = { "run", "load" } }, 2, "load needs a model",
		"hetmap run load model.safetensors");
	refused(&(struct command){ .args = { "run", "load", none } }, 2,
		"No such file or directory", NULL);
	refused(&(struct command){ .args = { "run", "load", folder, path } }, 2,
		"one file at a time", NULL);
	file_write(folder, "other", "no tensors at all, but some text", 32);
	other = folder_path(folder, "other");
	refused(&(struct command){ .args = { "run", "load", other } }, 2,
		"it is of no kind that hetmap reads", "known are npy (an array");
	file_write(folder, "empty/x", "", 0);
	fifo = folder_path(folder, "empty");
	refused(&(struct command){ .args = { "run", "load", fifo } }, 2,
		"the folder has no *.safetensors and no", NULL);
	free(fifo);
	fifo = folder_path(folder, "fifo");
	CHECK(!mkfifo(fifo, 0600));
	refused(&(struct command){ .args = { "run", "load", fifo } }, 2, "is a FIFO",
		"write its bytes to a file first");
	refused(&(struct command){ .args = { "run", "load", "/dev/null" } }, 2,
		"is a character device", NULL);
	refused(&(struct command){ .args = { "run", "load", "/proc/self/maps" } }, 2,
		"is made by the kernel as it is read", "copy it to a file first");
	file_write(folder, "a.npy", "\x93NUMPY\1\0 and more", 17);
	npy = folder_path(folder, "a.npy");
	refused(&(struct command){ .args = { "run", "load", npy } }, 2,
		"its header has 24864 characters", NULL);
	free(npy);
	file_write(folder, "lfs.safetensors", LFS, sizeof(LFS) - 1);
	npy = folder_path(folder, "lfs.safetensors");
	refused(&(struct command){ .args = { "run", "load", npy } }, 2,
		"it is a pointer of Git LFS", "git lfs pull");
	CHECK(!unlink(npy) && !symlink("blobs/none", npy));
	refused(&(struct command){ .args = { "run", "load", npy } }, 2,
		"No such file or directory", "it is a link to 'blobs/none'");
	free(npy);
	npy = strdup(tensors_odd_file(folder, "l.safetensors", "{}", 100000008, 200000000));
	refused(&(struct command){ .args = { "run", "load", npy } }, 2,
		"its header has 100000008 bytes", "store the model in several files");
	free(npy);
	refused(&(struct command){ .args = { "run", "load", "--device", "sofa:0", path } }, 3,
		"cannot open the device", "hetmap devices lists the devices");
	refused(&(struct command){ .args = { "run", "load", "--device", "file", path } }, 2,
		"device file creates none", "--device host");
	refused(&(struct command){ .args = { "run", "load", "--accel", "tpu", path } }, 3,
		"cannot open the accelerator", "hetmap devices");
	refused(&(struct command){ .args = { "run", "load", "--window", "5", path } }, 2,
		"--window", "a multiple of the page size");
	refused(&(struct command){ .args = { "run", "load", "--rounds", "3", path } }, 2,
		"--rounds is an option of histogram and saxpy, not of load", NULL);
	refused(&(struct command){ .args = { "run", "load", "--size", "4K", path } }, 2,
		"--size is an option of saxpy", NULL);
	CHECK(!chmod(folder, 0755) && !chmod(path, 0600));
	if (!geteuid())
		refused(&(struct command){ .args = { "run", "load", path }, .uid = NOBODY }, 3,
			"Permission denied", "run it with sudo");
	CHECK(!truncate(path, 100));
	refused(&(struct command){ .args = { "run", "load", path } }, 1, "the file is broken",
		"get the file again: it is cut off or damaged");
	free(fifo);
}

static void no_tensors(void)
{
	AUTO_TEXT *folder = folder_make();
	const char *path = tensors_file(folder, "none.safetensors", "{}", 0);
	AUTO(outcome) outcome = { 0 };

	CHECK_RUN(0, &outcome,
		  &(struct command){ .args = { "run", "load", "--accel", "cpu", path } });
	check_lines(outcome.out);
	CHECK(strstr(outcome.out, "verified     nothing: the model has no tensors"));
	CHECK(strstr(outcome.out, "  compute      no layers\n") != NULL);
	/* One is its own last one. */
	path = tensors_file(folder, "one.safetensors",
			    "{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
			    1);
	CHECK_RUN(0, &outcome,
		  &(struct command){ .args = { "run", "load", "--accel", "cpu", path } });
	check_lines(outcome.out);
	CHECK(strstr(outcome.out, "  compute      1 layer, once it was complete; ") != NULL);
}

/* Cut off between the opening and the load is for test_load_failures; here: too large. */
static void full(void)
{
	static const char header[] = "{\"t\":{\"dtype\":\"U8\",\"shape\":[8388608],"
				     "\"data_offsets\":[0,8388608]}}";
	AUTO_TEXT *folder = folder_make();
	const char *path = tensors_odd_file(folder, "m.safetensors", header, strlen(header),
					    8 + strlen(header) + 8388608);

	refused(&(struct command){ .args = { "run", "load", "--device", "soft:0", "--accel",
					     "cpu", path },
				   .env = { "HETMAP_SOFT=vram_mb=4 system_mb=4" } },
		3, "cannot load '", "hetmap devices says how much memory each has");
}

static const struct test tests[] = {
	{ "devices", devices, 60, 0 },     { "across_windows", across_windows, 60, 0 },
	{ "text", text, 60, 0 },           { "no_own_peak", no_own_peak, 60, 0 },
	{ "of_shards", of_shards, 60, 0 }, { "array", array, 60, 0 },
	{ "bad_input", bad_input, 60, 0 }, { "no_tensors", no_tensors, 0, 0 },
	{ "full", full, 60, 0 },           { NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main_once, "command_load", tests)
