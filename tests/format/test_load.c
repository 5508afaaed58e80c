// SPDX-License-Identifier: MIT
/*
 * Models loaded into the memory of simulated devices: every type, in windows smaller than a
 * tensor, in parts, with work on tensors that are there.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/load_support.h"
#include "lib/units.h"

/* ---- loaded bytes ---- */

/* Every type of the format, an element of no dimension, and one of no elements. */
static void test_types(void)
{
	struct load_told told = { .at_most = UINT64_MAX };
	AUTO_TEXT *header = malloc(8000), *folder = folder_make();
	char *at = header, name[16];
	struct hm_device *device = sim_open();
	struct hm_pieces *pieces;
	uint64_t data = 0, bytes;
	AUTO(hm_load) *load = NULL;
	uint32_t i;

	for (i = 0; hm_dtype_name(i); i++) {
		bytes = 4 * hm_dtype_bits(i) / 8;
		at += sprintf(at,
			      "%c\"%s\":{\"dtype\":\"%s\",\"shape\":[2,2],\"data_offsets\":["
			      "%" PRIu64 ",%" PRIu64 "]}",
			      i ? ',' : '{', hm_dtype_name(i), hm_dtype_name(i), data,
			      data + bytes);
		data += bytes;
	}
	sprintf(at,
		",\"one\":{\"dtype\":\"I32\",\"shape\":[],\"data_offsets\":[%" PRIu64
		",%" PRIu64
		"]},\"none\":{\"dtype\":\"F64\",\"shape\":[3,0],\"data_offsets\":[%" PRIu64
		",%" PRIu64 "]}}",
		data, data + 4, data + 4, data + 4);
	pieces = pieces_open(tensors_file(folder, "a", header, data + 4));
	load = rig_load(device, pieces,
			DESC(hm_load_desc, .loaded = load_note, .progress = load_note_bytes,
			     .user = &told));
	CHECK_EQUAL(told.n, i + 2);
	CHECK_EQUAL(told.bytes, data + 4);
	CHECK(!strcmp(told.names[0], hm_dtype_name(0)) && !strcmp(told.names[i], "one"));
	CHECK_EQUAL(load_info(load).pieces, i + 2);
	CHECK_EQUAL(load_info(load).bytes, data + 4);
	CHECK_EQUAL(load_info(load).alignment, 256);
	CHECK(load_info(load).wall_ns >= load_info(load).copy_ns);
	/* The load needs its model and its device no more. */
	hm_device_unref(device);
	for (i = 0, data = 0; hm_dtype_name(i); i++) {
		snprintf(name, sizeof(name), "%s", hm_dtype_name(i));
		load_check_tensor(load, name, data);
		data += 4 * hm_dtype_bits(i) / 8;
	}
	load_check_tensor(load, "one", data);
	load_check_tensor(load, "none", data + 4);
	hm_pieces_unref(pieces);
	CHECK(hm_load_ref(load) == load);
	hm_load_unref(load);
	hm_load_unref(NULL);
}

/* By one thread, two and as many as are chosen; each window is smaller than a tensor. */
static void test_windows(void)
{
	static const uint64_t windows[] = { PAGE, 2 * PAGE, 8 * PAGE, 17 * PAGE, MIB(64) };
	static const uint64_t alignments[] = { 1, 64, PAGE };
	AUTO_TEXT *folder = folder_make();
	AUTO(hm_device) *device = sim_open();
	struct hm_load *load;
	size_t i;
	uint32_t threads;
	AUTO(hm_pieces) *pieces = pieces_open(load_file(folder, load_four, LOAD_FOUR));

	for (i = 0; i < 5; i++)
		for (threads = 0; threads < 3; threads++) {
			load = rig_load(device, pieces,
					DESC(hm_load_desc, .window = windows[i],
					     .alignment = alignments[i % 3],
					     .threads = threads));
			CHECK_EQUAL(load_info(load).window, windows[i]);
			CHECK_EQUAL(load_info(load).alignment, alignments[i % 3]);
			CHECK(load_info(load).step <= windows[i]);
			if (threads)
				CHECK_EQUAL(load_info(load).threads, threads);
			load_check_file(load, load_four, LOAD_FOUR);
			hm_load_unref(load);
		}
}

/* A window larger than the model takes no longer steps, and costs nothing. */
static void test_large_windows(void)
{
	static const uint64_t windows[] = { MIB(65), 1ull << 40, 1ull << 62, UINT64_MAX };
	struct hm_load_desc desc = { .struct_size = sizeof(desc) };
	AUTO(hm_device) *device = sim_open();
	AUTO_TEXT *folder = folder_make();
	struct hm_load *load;
	size_t i;
	AUTO(hm_pieces) *pieces = pieces_open(load_file(folder, load_four, LOAD_FOUR));

	for (i = 0; i < 4; i++) {
		desc.window = windows[i];
		CHECK_OK_FATAL(hm_load_create(device, pieces, &desc, &load));
		CHECK_EQUAL(load_info(load).window, MIB(64));
		CHECK_EQUAL(load_info(load).step, MIB(4));
		load_check_file(load, load_four, LOAD_FOUR);
		hm_load_unref(load);
	}
}

/* Many that share steps, in a file's order and in another one. */
static void test_small_ones(void)
{
	uint64_t bytes[300], order[300];
	struct hm_load_desc desc = load_small_steps(2);
	AUTO(hm_device) *device = sim_open();
	AUTO_TEXT *folder = folder_make();
	AUTO(hm_pieces) *pieces = NULL;
	struct hm_load *load;
	uint64_t i;

	for (i = 0; i < 300; i++) {
		bytes[i] = i * 13 % 101;
		order[i] = i * 7 % 300;
	}
	pieces = pieces_open(load_file(folder, bytes, 300));
	desc.alignment = 8;
	CHECK_OK_FATAL(hm_load_create(device, pieces, &desc, &load));
	load_check_file(load, bytes, 300);
	hm_load_unref(load);
	desc.pieces = order;
	desc.n_pieces = 300;
	CHECK_OK_FATAL(hm_load_create(device, pieces, &desc, &load));
	load_check_file(load, bytes, 300);
	hm_load_unref(load);
}

static void test_model(void)
{
	static const char index[] =
		"{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"2.safetensors\","
		"\"none\":\"2.safetensors\",\"c\":\"3.safetensors\"}}";
	struct hm_load_desc desc = load_small_steps(0);
	AUTO(hm_device) *device = sim_open();
	AUTO_TEXT *folder = folder_make();
	AUTO(hm_pieces) *pieces = NULL;
	AUTO(hm_load) *load = NULL;

	tensors_file(folder, "1.safetensors",
		     "{\"a\":{\"dtype\":\"U8\",\"shape\":[30000],\"data_offsets\":[0,30000]}}",
		     30000);
	tensors_file(folder, "2.safetensors",
		     "{\"none\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
		     "\"b\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[0,5]}}",
		     5);
	tensors_file(folder, "3.safetensors",
		     "{\"c\":{\"dtype\":\"U8\",\"shape\":[9999],\"data_offsets\":[0,9999]}}",
		     9999);
	file_write(folder, "model.safetensors.index.json", index, strlen(index));
	pieces = pieces_open(folder);
	CHECK_OK_FATAL(hm_load_create(device, pieces, &desc, &load));
	CHECK_EQUAL(load_info(load).bytes, 40004);
	load_check_tensor(load, "a", 0);
	load_check_tensor(load, "b", 0);
	load_check_tensor(load, "c", 0);
	load_check_tensor(load, "none", 0);
}

/* Some of them, in their own order. */
static void test_chosen(void)
{
	static const uint64_t order[] = { 3, 0 }, twice[] = { 3, 0, 3 }, beyond[] = { 4 };
	struct load_told told = { .at_most = UINT64_MAX };
	struct hm_load_desc desc = load_small_steps(2);
	struct hm_load_place place = { .struct_size = sizeof(place) };
	struct hm_load *load, *none = UNTOUCHED;
	AUTO(hm_device) *device = sim_open();
	AUTO_TEXT *folder = folder_make();
	AUTO(hm_pieces) *pieces = pieces_open(load_file(folder, load_four, LOAD_FOUR));

	desc.loaded = load_note;
	desc.user = &told;
	desc.pieces = order;
	desc.n_pieces = 2;
	CHECK_OK_FATAL(hm_load_create(device, pieces, &desc, &load));
	CHECK(told.n == 2 && !strcmp(told.names[0], "t3") && !strcmp(told.names[1], "t0"));
	CHECK_EQUAL(load_info(load).bytes, load_four[0] + load_four[3]);
	load_check_tensor(load, "t0", 0);
	load_check_tensor(load, "t3", load_four[0] + load_four[2]);
	CHECK_OK(hm_load_piece(load, 3, &place));
	CHECK_EQUAL(place.offset, 0);
	CHECK_ERROR(-ENOENT, hm_load_piece(load, 2, &place));
	CHECK(strstr(hm_errmsg(), "\"t2\" was not among the 2") != NULL);
	CHECK_ERROR(-ENOENT, hm_load_find(load, "t1", &place));
	CHECK_ERROR(-ENOENT, hm_load_find(load, "t9", &place));
	CHECK_ERROR(-ERANGE, hm_load_piece(load, 4, &place));
	hm_load_unref(load);

	desc.pieces = twice;
	desc.n_pieces = 3;
	CHECK_ERROR(-EINVAL, hm_load_create(device, pieces, &desc, &none));
	CHECK(strstr(hm_errmsg(), "\"t3\", is listed twice") != NULL);
	desc.pieces = beyond;
	desc.n_pieces = 1;
	CHECK_ERROR(-ERANGE, hm_load_create(device, pieces, &desc, &none));
	CHECK(none == UNTOUCHED);
	/* None at all. */
	desc.n_pieces = 0;
	CHECK_OK_FATAL(hm_load_create(device, pieces, &desc, &load));
	CHECK_EQUAL(load_info(load).pieces, 0);
	hm_load_unref(load);
}

/* A file's place loses no bit: a tensor that is across 4 GiB, and one behind it. */
static void test_beyond(void)
{
	static const uint64_t edge = (1ull << 32) - 100000, last = (1ull << 32) + 100000,
			      end = (1ull << 32) + 433333, order[] = { 2, 1 };
	struct hm_load_desc desc = load_small_steps(2);
	char *folder = folder_make(), header[400];
	AUTO(hm_device) *device = sim_open();
	AUTO(hm_pieces) *pieces = NULL;
	struct hm_load *load;
	const char *path;

	snprintf(header, sizeof(header),
		 "{\"t0\":{\"dtype\":\"U8\",\"shape\":[%" PRIu64
		 "],\"data_offsets\":[0,%" PRIu64
		 "]},\"t1\":{\"dtype\":\"I16\",\"shape\":[100000],\"data_offsets\":[%" PRIu64
		 ",%" PRIu64 "]},\"t2\":{\"dtype\":\"U8\",\"shape\":[333333],"
		 "\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}}",
		 edge, edge, edge, last, last, end);
	path = tensors_sparse_file(folder, "a", header, edge, end);
	pieces = pieces_open(path);
	desc.pieces = order;
	for (desc.n_pieces = 1; desc.n_pieces <= 2; desc.n_pieces++) {
		CHECK_OK_FATAL(hm_load_create(device, pieces, &desc, &load));
		CHECK_EQUAL(load_info(load).bytes,
			    end - last + (desc.n_pieces - 1) * (last - edge));
		load_check_tensor(load, "t2", last);
		if (desc.n_pieces > 1)
			load_check_tensor(load, "t1", edge);
		hm_load_unref(load);
		/* As if no window was given, too. */
		desc.window = 0;
	}
	folder_remove(folder);
}

/* ---- work on loaded tensors, while the rest comes ---- */

struct work {
	struct hm_queue *queue;
	struct hm_kernel *kernel;
	struct hm_fence *done[LOAD_FOUR];
	uint64_t *sums; /* one of each tensor */
	uint64_t n;
};

static int add_up(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	const unsigned char *bytes = args[0].pointer;
	uint64_t *sum = (uint64_t *)args[2].pointer, i;

	(void)range;
	for (*sum = 0, i = 0; i < args[1].u64; i++)
		*sum += bytes[i];
	return 0;
}

static int launch(const struct hm_piece_info *piece, void *address, void *user)
{
	struct work *work = user;
	uint64_t n = work->n++;

	if (!piece->bytes)
		return 0;
	return hm_launch(work->queue, work->kernel, 1, &work->done[n],
			 HM_RANGE(address, piece->bytes, HM_READ), HM_U64(piece->bytes),
			 HM_RANGE(work->sums + n, sizeof(uint64_t), HM_WRITE));
}

static void test_work(void)
{
	const struct hm_kernel_desc kernel = {
		.struct_size = sizeof(kernel),
		.name = "add_up",
		.cpu = add_up,
		.signature = "in u64 out",
	};
	struct hm_load_desc desc = load_small_steps(2);
	AUTO(hm_device) *device = sim_open(), *host = NULL;
	AUTO_TEXT *folder = folder_make();
	AUTO(hm_pieces) *pieces = NULL;
	struct work work = { 0 };
	struct hm_accel *accel;
	struct hm_load *load;
	uint64_t data = 0, sum, i, k;

	CHECK_OK_FATAL(hm_device_open("host", &host));
	CHECK_OK_FATAL(hm_alloc(host, PAGE, HM_READ | HM_WRITE, &work.sums));
	CHECK_OK_FATAL(hm_accel_open("cpu", NULL, &accel));
	CHECK_OK_FATAL(hm_queue_create(accel, 0, &work.queue));
	CHECK_OK_FATAL(hm_kernel_create(&kernel, &work.kernel));
	pieces = pieces_open(load_file(folder, load_four, LOAD_FOUR));
	desc.loaded = launch;
	desc.user = &work;
	CHECK_OK_FATAL(hm_load_create(device, pieces, &desc, &load));
	/* The work keeps its tensors. */
	hm_load_unref(load);
	for (i = 0; i < LOAD_FOUR; i++) {
		if (work.done[i])
			CHECK_OK(hm_fence_wait(work.done[i], UINT64_MAX));
		hm_fence_unref(work.done[i]);
		for (sum = 0, k = 0; k < load_four[i]; k++)
			sum += data_byte(data++);
		CHECK_EQUAL(work.sums[i], sum);
	}
	hm_kernel_unref(work.kernel);
	hm_queue_unref(work.queue);
	hm_accel_unref(accel);
	hm_free(work.sums);
}

/* ---- memory ---- */

static void reset_peak(void)
{
	int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);

	CHECK_FATAL(fd >= 0);
	CHECK_EQUAL(write(fd, "5", 1), 1);
	close(fd);
}

/* One CPU only: counts that other CPUs have not added up yet stay as they are. */
static void use_one_cpu(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	CHECK_FATAL(!sched_setaffinity(0, sizeof(set), &set));
}

/*
 * Bytes that the kernel may count too much: of each kind (files, anonymous, shared) 64 pages a
 * thread; from 6.2 on a batch for each CPU, of 32 pages or 2 for each CPU there is.
 */
static uint64_t not_counted(uint64_t threads)
{
	uint64_t batch = 2 * (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);

	return threads * 3 * (batch > 64 ? batch : 64) * PAGE;
}

/* Beside the device's memory no more than a window and a tensor: 24 MiB by 1 MiB. */
static void test_memory(void)
{
	static const char header[] =
		"{\"t\":{\"dtype\":\"U8\",\"shape\":[25165824],\"data_offsets\":[0,25165824]}}";
	const struct hm_load_desc desc = {
		.struct_size = sizeof(desc),
		.window = MIB(1),
		.threads = 2,
	};
	AUTO(hm_device) *device = sim_open();
	AUTO_TEXT *folder = folder_make();
	AUTO(hm_pieces) *pieces = NULL;
	uint64_t before, peak, buffer;
	struct hm_load *load;

	if (TEST_ASAN || TEST_TSAN) {
		test_skip("sanitizer", "its own memory is the process's, too");
		return;
	}
	use_one_cpu();
	pieces = pieces_open(tensors_odd_file(folder, "a", header, strlen(header),
					      8 + strlen(header) + 25165824));
	/* Once before: memory that the library takes for good is not the load's. */
	CHECK_OK_FATAL(hm_load_create(device, pieces, &desc, &load));
	hm_load_unref(load);
	before = test_status_bytes("VmRSS");
	reset_peak();
	CHECK_OK_FATAL(hm_load_create(device, pieces, &desc, &load));
	peak = test_status_bytes("VmHWM");
	buffer = load_info(load).buffer;
	/* This thread, the disk's, and those that copy. */
	if (peak > before + buffer + MIB(1) + not_counted(2 + desc.threads))
		test_fail(__FILE__, __LINE__,
			  "a peak of %" PRIu64 " KiB, %" PRIu64 " before, %" PRIu64
			  " of the buffer",
			  peak >> 10, before >> 10, buffer >> 10);
	hm_load_unref(load);
}

/* ---- the rest ---- */

static void *load_one(void *user)
{
	struct hm_load_desc desc = load_small_steps(2);
	AUTO(hm_device) *device = sim_open();
	AUTO(hm_load) *load = rig_load(device, user, &desc);

	load_check_file(load, load_four, LOAD_FOUR);
	return NULL;
}

/* Three threads load one model at the same time. */
static void test_threads(void)
{
	AUTO_TEXT *folder = folder_make();
	pthread_t thread[3];
	int i;
	AUTO(hm_pieces) *pieces = pieces_open(load_file(folder, load_four, LOAD_FOUR));

	for (i = 0; i < 3; i++)
		CHECK_FATAL(!pthread_create(&thread[i], NULL, load_one, pieces));
	for (i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
}

/* Other devices: one that makes buffers, one that makes none. */
static void test_others(void)
{
	struct hm_load_desc desc = load_small_steps(0);
	struct hm_load *none = UNTOUCHED;
	AUTO_TEXT *folder = folder_make();
	AUTO(hm_pieces) *pieces = pieces_open(load_file(folder, load_four, LOAD_FOUR));
	struct hm_device *device = rig_device("host");
	struct hm_load *load = rig_load(device, pieces, &desc);

	hm_device_unref(device);
	load_check_file(load, load_four, LOAD_FOUR);
	hm_load_unref(load);
	CHECK_OK_FATAL(hm_device_open("file", &device));
	CHECK_ERROR(-EOPNOTSUPP, hm_load_create(device, pieces, &desc, &none));
	CHECK(none == UNTOUCHED);
	hm_device_unref(device);
}

static void test_arguments(void)
{
	struct hm_load_place place = { .struct_size = sizeof(place) };
	struct hm_load_info info = { .struct_size = sizeof(info) };
	struct hm_load_desc desc = { .struct_size = sizeof(desc) };
	struct hm_load *load, *none = UNTOUCHED;
	AUTO(hm_device) *device = sim_open();
	AUTO_TEXT *folder = folder_make();
	AUTO(hm_pieces) *pieces = pieces_open(load_file(folder, load_four, LOAD_FOUR));

	CHECK_ERROR(-EINVAL, hm_load_create(device, NULL, NULL, &none));
	CHECK_ERROR(-EINVAL, hm_load_create(NULL, pieces, NULL, &none));
	CHECK_ERROR(-EINVAL, hm_load_create(device, pieces, NULL, NULL));
	desc.flags = 1;
	CHECK_ERROR(-EINVAL, hm_load_create(device, pieces, &desc, &none));
	desc.flags = 0;
	desc.reserved = 1;
	CHECK_ERROR(-EINVAL, hm_load_create(device, pieces, &desc, &none));
	desc.reserved = 0;
	desc.window = 4095;
	CHECK_ERROR(-EINVAL, hm_load_create(device, pieces, &desc, &none));
	desc.window = 0;
	desc.alignment = 24;
	CHECK_ERROR(-EINVAL, hm_load_create(device, pieces, &desc, &none));
	desc.alignment = 2 * PAGE;
	CHECK_ERROR(-EINVAL, hm_load_create(device, pieces, &desc, &none));
	desc.alignment = 0;
	desc.n_pieces = 1;
	CHECK_ERROR(-EINVAL, hm_load_create(device, pieces, &desc, &none));
	desc.pieces = (uint64_t[]){ 0, 1, 2, 3, 0 };
	desc.n_pieces = 5;
	CHECK_ERROR(-EINVAL, hm_load_create(device, pieces, &desc, &none));
	desc.struct_size = sizeof(desc) - 4;
	CHECK_ERROR(-EINVAL, hm_load_create(device, pieces, &desc, &none));
	CHECK(none == UNTOUCHED);
	CHECK_OK_FATAL(hm_load_create(device, pieces, NULL, &load));
	CHECK_EQUAL(load_info(load).window, MIB(64));
	CHECK_ERROR(-EINVAL, hm_load_query(load, NULL));
	CHECK_ERROR(-EINVAL, hm_load_query((struct hm_load *)pieces, &info));
	info.struct_size++;
	CHECK_ERROR(-E2BIG, hm_load_query(load, &info));
	CHECK_ERROR(-EINVAL, hm_load_find(load, NULL, &place));
	CHECK_ERROR(-EINVAL, hm_load_find(load, "t0", NULL));
	place.struct_size++;
	CHECK_ERROR(-E2BIG, hm_load_piece(load, 0, &place));
	hm_load_unref(load);
}

static const struct sim_case cases[] = {
	{ "types", test_types },
	{ "windows", test_windows },
	{ "large_windows", test_large_windows },
	{ "small_ones", test_small_ones },
	{ "model", test_model },
	{ "chosen", test_chosen },
	{ "beyond", test_beyond },
	{ "work", test_work },
	{ "memory", test_memory },
	{ "threads", test_threads },
	{ "others", test_others },
	{ "arguments", test_arguments },
	{ NULL, NULL },
};

TEST_MAIN(sim_main, "load", cases)
