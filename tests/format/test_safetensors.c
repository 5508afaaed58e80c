// SPDX-License-Identifier: MIT
/* Safetensors files: opened, listed, found, seen in place, and cut off. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/inject.h"
#include "format/safetensors_support.h"

/* 24 + 0 + 4 + 5 bytes; listed in no order. */
#define FOUR                                                                       \
	"{\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"      \
	"\"__metadata__\":{\"format\":\"pt\",\"\\u00e9\\n\":\"\\ud83d\\ude00\"},"  \
	"\"odd\":{\"shape\":[5],\"data_offsets\":[28,33],\"dtype\":\"U8\"},"       \
	"\"none\":{\"dtype\":\"F64\",\"shape\":[3,0,2],\"data_offsets\":[24,24]}," \
	"\"scalar\":{\"dtype\":\"I32\",\"shape\":[],\"data_offsets\":[24,28]}}   "

static bool is_data(const void *address, uint64_t from, uint64_t length)
{
	const unsigned char *bytes = address;
	uint64_t i;

	for (i = 0; i < length; i++)
		if (bytes[i] != data_byte(from + i))
			return false;
	return true;
}

static void lists(void)
{
	static const char *const by_offset[] = { "w", "none", "scalar", "odd" };
	static const char *const by_name[] = { "none", "odd", "scalar", "w" };
	struct hm_safetensors_info all = { .struct_size = sizeof(all) };
	struct hm_shard_info shard = { .struct_size = sizeof(shard) };
	struct hm_tensor_info info = { .struct_size = sizeof(info) };
	AUTO_TEXT *folder = folder_make();
	struct hm_metadata metadata;
	const char *value = NULL;
	uint64_t index = 99, i;
	AUTO(hm_safetensors) *safetensors = tensors_open(tensors_file(folder, "a", FOUR, 33));

	CHECK_OK(hm_safetensors_query(safetensors, &all));
	CHECK_EQUAL(all.shards, 1);
	CHECK_EQUAL(all.tensors, 4);
	CHECK_EQUAL(all.metadata, 2);
	CHECK_EQUAL(all.bytes, 33);
	CHECK_OK(hm_safetensors_shard(safetensors, 0, &shard));
	CHECK_EQUAL(shard.data_offset, 8 + strlen(FOUR));
	CHECK_EQUAL(shard.size, 8 + strlen(FOUR) + 33);
	CHECK_EQUAL(shard.tensors, 4);
	CHECK_EQUAL(hm_map_length(shard.map), shard.size);
	CHECK(!strcmp(shard.path + strlen(shard.path) - 2, "/a"));

	for (i = 0; i < 4; i++) {
		CHECK_OK(hm_safetensors_tensor(safetensors, HM_TENSORS_BY_OFFSET, i, &info));
		CHECK(!strcmp(info.name, by_offset[i]));
		CHECK_EQUAL(info.index, i);
		CHECK_OK(hm_safetensors_tensor(safetensors, HM_TENSORS_BY_NAME, i, &info));
		CHECK(!strcmp(info.name, by_name[i]));
		CHECK(!strcmp(by_offset[info.index], by_name[i]));
	}
	info = tensor_info(safetensors, "w");
	CHECK_EQUAL(info.dtype, HM_DTYPE_F32);
	CHECK_EQUAL(info.rank, 2);
	CHECK_EQUAL(info.shape[0], 2);
	CHECK_EQUAL(info.shape[1], 3);
	CHECK_EQUAL(info.offset, shard.data_offset);
	CHECK_EQUAL(info.bytes, 24);
	CHECK_EQUAL(info.alignment, info.offset & -info.offset);
	info = tensor_info(safetensors, "scalar");
	CHECK_EQUAL(info.rank, 0);
	CHECK_EQUAL(info.bytes, 4);
	CHECK_EQUAL(tensor_info(safetensors, "none").bytes, 0);

	CHECK_OK(hm_safetensors_metadata(safetensors, 0, &metadata));
	CHECK(!strcmp(metadata.key, "format") && !strcmp(metadata.value, "pt"));
	CHECK_OK(hm_safetensors_metadata_find(safetensors, "\xc3\xa9\n", &value));
	CHECK(value && !strcmp(value, "\xf0\x9f\x98\x80"));

	CHECK_ERROR(-ENOENT, hm_safetensors_find(safetensors, "W", &index));
	CHECK(strstr(hm_errmsg(), "\"W\" among the 4") != NULL);
	CHECK_ERROR(-ENOENT, hm_safetensors_metadata_find(safetensors, "f", &value));
	CHECK_ERROR(-ERANGE, hm_safetensors_tensor(safetensors, 0, 4, &info));
	CHECK_ERROR(-EINVAL, hm_safetensors_tensor(safetensors, 2, 0, &info));
	CHECK_ERROR(-ERANGE, hm_safetensors_shard(safetensors, 1, &shard));
	CHECK_ERROR(-ERANGE, hm_safetensors_metadata(safetensors, 2, &metadata));
	info.struct_size++;
	CHECK_ERROR(-E2BIG, hm_safetensors_tensor(safetensors, 0, 0, &info));
	CHECK_ERROR(-EINVAL, hm_safetensors_find(safetensors, NULL, &index));
	CHECK_ERROR(-EINVAL, hm_safetensors_query(NULL, &all));
	CHECK_EQUAL(index, 99);
	CHECK(hm_safetensors_ref(safetensors) == safetensors);
	hm_safetensors_unref(safetensors);
	hm_safetensors_unref(NULL);
}

static void in_place(void)
{
	struct hm_tensor_place place = { .struct_size = sizeof(place) };
	struct hm_shard_info shard = { .struct_size = sizeof(shard) };
	struct hm_tensor *tensor, *copy, *none = UNTOUCHED;
	char *folder = folder_make();
	struct hm_pointer_info pointer;
	struct hm_tensor_info info;
	struct hm_safetensors *safetensors = tensors_open(tensors_file(folder, "a", FOUR, 33));

	CHECK_OK(hm_safetensors_shard(safetensors, 0, &shard));
	info = tensor_info(safetensors, "odd");
	CHECK_OK_FATAL(hm_safetensors_view(safetensors, info.index, NULL, 0, 0, 0, &tensor));
	CHECK_OK(hm_tensor_query(tensor, &place));
	CHECK_EQUAL(place.copied, 0);
	CHECK(place.map == shard.map);
	CHECK_EQUAL(place.offset, info.offset);
	CHECK_EQUAL(place.bytes, 5);
	CHECK_EQUAL(place.dtype, HM_DTYPE_U8);
	CHECK_EQUAL(place.rank, 1);
	CHECK_EQUAL(place.shape[0], 5);
	CHECK(place.address == hm_tensor_address(tensor));
	CHECK(is_data(place.address, 28, 5));
	CHECK(test_write_signal(place.address) == SIGSEGV);
	/* Any pointer into a map goes to a kernel: this is one. */
	CHECK_OK(hm_pointer_find(place.address, &pointer));
	CHECK_EQUAL(pointer.map_offset, info.offset);

	/* Misaligned: said, and copied when asked to. */
	CHECK_FATAL(info.alignment < 64);
	CHECK_ERROR(-EXDEV,
		    hm_safetensors_view(safetensors, info.index, NULL, 0, 64, 0, &none));
	CHECK(strstr(hm_errmsg(), "\"odd\"") && strstr(hm_errmsg(), "HM_TENSOR_MAY_COPY"));
	CHECK_OK_FATAL(hm_safetensors_view(safetensors, info.index, NULL, 0, PAGE,
					   HM_TENSOR_MAY_COPY, &copy));
	CHECK_OK(hm_tensor_query(copy, &place));
	CHECK_EQUAL(place.copied, 1);
	CHECK_EQUAL((uintptr_t)place.address % PAGE, 0);
	CHECK(is_data(place.address, 28, 5));

	CHECK_ERROR(-EINVAL, hm_safetensors_view(safetensors, 0, NULL, 0, 3, 0, &none));
	CHECK_ERROR(-EINVAL, hm_safetensors_view(safetensors, 0, NULL, 0, 2 * PAGE, 0, &none));
	CHECK_ERROR(-EINVAL, hm_safetensors_view(safetensors, 0, NULL, 0, 0, 2, &none));
	CHECK_ERROR(-ERANGE, hm_safetensors_view(safetensors, 4, NULL, 0, 0, 0, &none));
	CHECK(none == UNTOUCHED);

	/* Both live on their own. */
	hm_safetensors_unref(safetensors);
	folder_remove(folder);
	CHECK(is_data(hm_tensor_address(tensor), 28, 5));
	CHECK(hm_tensor_ref(copy) == copy);
	hm_tensor_unref(copy);
	CHECK(is_data(hm_tensor_address(copy), 28, 5));
	hm_tensor_unref(copy);
	hm_tensor_unref(tensor);
	hm_tensor_unref(NULL);
	CHECK(!hm_tensor_address(NULL));
}

/* Slices of no bytes, at the file's end; and copied. */
static void of_no_bytes(void)
{
	static const char header[] =
		"{\"e\":{\"dtype\":\"F16\",\"shape\":[0,18446744073709],\"data_offsets\":[0,0]}}";
	struct hm_tensor_place place = { .struct_size = sizeof(place) };
	AUTO_TEXT *folder = folder_make();
	struct hm_tensor *tensor;
	char byte = 1;
	AUTO(hm_safetensors) *safetensors = tensors_open(tensors_file(folder, "a", header, 0));

	CHECK_OK_FATAL(hm_safetensors_view(safetensors, 0, NULL, 0, 0, 0, &tensor));
	CHECK_OK(hm_tensor_query(tensor, &place));
	CHECK_EQUAL(place.bytes, 0);
	hm_tensor_unref(tensor);
	CHECK_OK_FATAL(hm_safetensors_view(safetensors, 0, NULL, 0, PAGE, HM_TENSOR_MAY_COPY,
					   &tensor));
	CHECK_OK(hm_tensor_query(tensor, &place));
	CHECK_EQUAL(place.bytes, 0);
	CHECK_EQUAL(place.shape[1], 18446744073709);
	hm_tensor_unref(tensor);
	CHECK_OK(hm_safetensors_read(safetensors, 0, NULL, 0, &byte, 0));
	CHECK_EQUAL(byte, 1);
}

/* Every type of the format, by the size of three elements. */
static void types(void)
{
	static const struct {
		const char *name;
		uint32_t dtype, bits;
	} known[] = {
		{ "BOOL", HM_DTYPE_BOOL, 8 },
		{ "U8", HM_DTYPE_U8, 8 },
		{ "I8", HM_DTYPE_I8, 8 },
		{ "F8_E5M2", HM_DTYPE_F8_E5M2, 8 },
		{ "F8_E4M3", HM_DTYPE_F8_E4M3, 8 },
		{ "F8_E8M0", HM_DTYPE_F8_E8M0, 8 },
		{ "F8_E4M3FNUZ", HM_DTYPE_F8_E4M3FNUZ, 8 },
		{ "F8_E5M2FNUZ", HM_DTYPE_F8_E5M2FNUZ, 8 },
		{ "F4", HM_DTYPE_F4, 4 },
		{ "F6_E2M3", HM_DTYPE_F6_E2M3, 6 },
		{ "F6_E3M2", HM_DTYPE_F6_E3M2, 6 },
		{ "I16", HM_DTYPE_I16, 16 },
		{ "U16", HM_DTYPE_U16, 16 },
		{ "F16", HM_DTYPE_F16, 16 },
		{ "BF16", HM_DTYPE_BF16, 16 },
		{ "I32", HM_DTYPE_I32, 32 },
		{ "U32", HM_DTYPE_U32, 32 },
		{ "F32", HM_DTYPE_F32, 32 },
		{ "C64", HM_DTYPE_C64, 64 },
		{ "F64", HM_DTYPE_F64, 64 },
		{ "I64", HM_DTYPE_I64, 64 },
		{ "U64", HM_DTYPE_U64, 64 },
	};
	AUTO_TEXT *folder = folder_make();
	struct hm_safetensors *safetensors;
	struct hm_tensor_info info;
	char header[200];
	size_t i;

	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		snprintf(header, sizeof(header),
			 "{\"t\":{\"dtype\":\"%s\",\"shape\":[4],\"data_offsets\":[0,%u]}}",
			 known[i].name, known[i].bits / 2);
		safetensors =
			tensors_open(tensors_file(folder, "a", header, known[i].bits / 2));
		info = tensor_info(safetensors, "t");
		CHECK_EQUAL(info.dtype, known[i].dtype);
		CHECK_EQUAL(hm_dtype_bits(info.dtype), known[i].bits);
		CHECK(!strcmp(hm_dtype_name(info.dtype), known[i].name));
		hm_safetensors_unref(safetensors);
	}
	CHECK_EQUAL(i, HM_DTYPE_U64 + 1);
	CHECK(!hm_dtype_name((uint32_t)i) && !hm_dtype_bits((uint32_t)i));
}

/* Offsets that 32 bits don't hold; nothing of it is on the disk. */
static void beyond_4_gib(void)
{
	static const char header[] =
		"{\"small\":{\"dtype\":\"U8\",\"shape\":[16],\"data_offsets\":[6442450944,6442450960]},"
		"\"large\":{\"dtype\":\"BF16\",\"shape\":[3,1073741824],\"data_offsets\":[0,6442450944]}}";
	const struct hm_slice last = { 2, 3 };
	char *folder = folder_make(), bytes[16];
	AUTO(hm_safetensors) *safetensors = NULL;
	struct hm_tensor *tensor;
	struct hm_tensor_info info;
	uint64_t size = 8 + strlen(header) + 6442450960;
	const char *path;
	int fd;

	path = tensors_odd_file(folder, "a", header, strlen(header), size);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	CHECK_EQUAL(pwrite(fd, "sixteen bytes...", 16, (off_t)(size - 16)), 16);
	CHECK_EQUAL(pwrite(fd, "there", 5, (off_t)(8 + strlen(header) + 4294967296)), 5);
	close(fd);
	safetensors = tensors_open(path);
	info = tensor_info(safetensors, "small");
	CHECK_EQUAL(info.offset, size - 16);
	CHECK_EQUAL(info.index, 1);
	CHECK_OK_FATAL(hm_safetensors_view(safetensors, 1, NULL, 0, 0, 0, &tensor));
	CHECK(!memcmp(hm_tensor_address(tensor), "sixteen bytes...", 16));
	hm_tensor_unref(tensor);
	CHECK_OK(hm_safetensors_read(safetensors, 1, NULL, 0, bytes, 16));
	CHECK(!memcmp(bytes, "sixteen bytes...", 16));
	CHECK_EQUAL(tensor_info(safetensors, "large").bytes, 6442450944);
	CHECK_OK_FATAL(hm_safetensors_view(safetensors, 0, &last, 1, 0, 0, &tensor));
	CHECK(!memcmp(hm_tensor_address(tensor), "there", 5));
	hm_tensor_unref(tensor);
	folder_remove(folder);
}

static unsigned int count_fds(void)
{
	return test_holding_now().fds;
}

static void many_opens(void)
{
	AUTO_TEXT *folder = folder_make(), *path = NULL;
	struct hm_safetensors *safetensors;
	struct hm_tensor *tensor;
	unsigned int before, i;

	make_table();
	path = strdup(tensors_file(folder, "a", FOUR, 33));
	before = count_fds();
	for (i = 0; i < 10000; i++) {
		safetensors = tensors_open(path);
		CHECK_OK(hm_safetensors_view(safetensors, 0, NULL, 0, 0, 0, &tensor));
		hm_safetensors_unref(safetensors);
		hm_tensor_unref(tensor);
		if (i % 1000 == 0)
			CHECK_EQUAL(count_fds(), before);
	}
	CHECK_EQUAL(count_fds(), before);
}

/* ---- cut off ---- */

static const char *cut_path;
static uint64_t cut_to;

/* Between the opening and the reading of the header. */
static int cut(void)
{
	return truncate(cut_path, (off_t)cut_to);
}

static void cut_off(void)
{
	struct hm_safetensors *safetensors = UNTOUCHED;
	char *folder = folder_make(), bytes[24];
	uint64_t size = 8 + strlen(FOUR) + 33, length;
	const char *path;

	/* A file of any length but its own. */
	for (length = 0; length <= size; length++) {
		path = tensors_file(folder, "a", FOUR, 33);
		CHECK(!truncate(path, (off_t)length));
		if (length == size)
			continue;
		CHECK_ERROR(length ? -EBADMSG : -ENODATA,
			    hm_safetensors_open(path, 0, &safetensors));
		CHECK(safetensors == UNTOUCHED);
	}
	/* Longer by one. */
	CHECK(!truncate(path, (off_t)size + 1));
	CHECK_ERROR(-EBADMSG, hm_safetensors_open(path, 0, &safetensors));
	CHECK(strstr(hm_errmsg(), "longer than it says") != NULL);

	/* After it was opened: reads are errors, and the process lives. */
	safetensors = tensors_open(tensors_file(folder, "a", FOUR, 33));
	cut_path = path;
	cut_to = 8;
	CHECK(!cut());
	CHECK_ERROR(-ENODATA, hm_safetensors_read(safetensors, 0, NULL, 0, bytes, 24));
	CHECK(strstr(hm_errmsg(), "cut off") != NULL);
	hm_safetensors_unref(safetensors);
	folder_remove(folder);
}

/* The n-th call fails: nothing is left, nothing is opened. */
static void undone(void)
{
	AUTO(hm_safetensors) *safetensors = NULL;
	AUTO_TEXT *folder = folder_make();
	const char *path = tensors_file(folder, "a", FOUR, 33);
	struct hm_tensor *tensor;
	bool failed = true;
	unsigned int n;
	int r;

	tensors_open_failing(path, 10);
	safetensors = tensors_open(path);
	for (n = 1, failed = true; failed; n++) {
		tensor = UNTOUCHED;
		inject_arm(n, INJECT_ONE);
		r = hm_safetensors_view(safetensors, 3, NULL, 0, PAGE, HM_TENSOR_MAY_COPY,
					&tensor);
		failed = inject_disarm();
		if (r)
			CHECK(failed && tensor == UNTOUCHED && *hm_errmsg());
		else
			hm_tensor_unref(tensor);
		inject_forgive();
	}
	CHECK(n > 5);
}

/* ---- threads ---- */

#define THREADS 4

static void *use(void *argument)
{
	struct hm_tensor_info info = { .struct_size = sizeof(info) };
	AUTO(hm_safetensors) *safetensors = argument;
	struct hm_tensor *tensor;
	uint64_t i, index;
	int n;

	for (n = 0; n < 50; n++)
		for (i = 0; i < 4; i++) {
			CHECK_OK(hm_safetensors_tensor(safetensors, HM_TENSORS_BY_NAME, i,
						       &info));
			CHECK_OK(hm_safetensors_find(safetensors, info.name, &index));
			CHECK_EQUAL(index, info.index);
			CHECK_OK(hm_safetensors_view(safetensors, index, NULL, 0, 0, 0,
						     &tensor));
			hm_tensor_unref(tensor);
		}
	return NULL;
}

static void by_threads(void)
{
	AUTO_TEXT *folder = folder_make();
	pthread_t thread[THREADS];
	int i;
	struct hm_safetensors *safetensors = tensors_open(tensors_file(folder, "a", FOUR, 33));

	for (i = 0; i < THREADS; i++)
		CHECK_FATAL(!pthread_create(&thread[i], NULL, use,
					    hm_safetensors_ref(safetensors)));
	hm_safetensors_unref(safetensors);
	for (i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

static void arguments(void)
{
	struct hm_safetensors *safetensors = UNTOUCHED;
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "none");

	CHECK_ERROR(-EINVAL, hm_safetensors_open(NULL, 0, &safetensors));
	CHECK_ERROR(-EINVAL, hm_safetensors_open(folder, 0, NULL));
	CHECK_ERROR(-EINVAL, hm_safetensors_open(folder, 1, &safetensors));
	CHECK_ERROR(-ENOENT, hm_safetensors_open(path, 0, &safetensors));
	CHECK_ERROR(-ENOENT, hm_safetensors_open(folder, 0, &safetensors));
	CHECK(strstr(hm_errmsg(), "the folder has no *.safetensors") != NULL);
	CHECK(!mkfifo(path, 0600));
	CHECK_ERROR(-EINVAL, hm_safetensors_open(path, 0, &safetensors));
	CHECK(safetensors == UNTOUCHED);
	safetensors = tensors_open(tensors_file(folder, "a", FOUR, 33));
	CHECK_ERROR(-EINVAL,
		    hm_tensor_query((struct hm_tensor *)safetensors, DESC(hm_tensor_place)));
	hm_safetensors_unref(safetensors);
	/* A folder with a model in it. */
	tensors_file(folder, "model.safetensors", FOUR, 33);
	hm_safetensors_unref(tensors_open(folder));
}

static const struct test tests[] = {
	{ "lists", lists, 0, 0 },
	{ "in_place", in_place, 0, 0 },
	{ "of_no_bytes", of_no_bytes, 0, 0 },
	{ "types", types, 0, 0 },
	{ "beyond_4_gib", beyond_4_gib, 0, 0 },
	{ "many_opens", many_opens, 60, 0 },
	{ "cut_off", cut_off, 0, 0 },
	{ "undone", undone, 0, 0 },
	{ "by_threads", by_threads, 0, 0 },
	{ "arguments", arguments, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "safetensors", tests)
