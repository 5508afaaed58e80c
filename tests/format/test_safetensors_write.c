// SPDX-License-Identifier: MIT
/* Safetensors files that are written: read back, in order, and replaced whole or not at all. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/inject.h"
#include "format/safetensors_support.h"

static unsigned char bytes[3 * PAGE];

static const uint64_t one[] = { 1 }, three[] = { 3 }, seven[] = { 7 }, page[] = { 2, PAGE / 4 },
		      none[] = { 4, 0 }, many[] = { 2 * PAGE };

/* In the order of the file. */
static const struct hm_tensor_source sources[] = {
	{ "empty", HM_DTYPE_F64, 2, none, NULL },
	{ "page", HM_DTYPE_BF16, 2, page, bytes + 1 },
	{ "pages", HM_DTYPE_U8, 1, many, bytes + 2 },
	{ "c", HM_DTYPE_C64, 1, three, bytes + 3 },
	{ "f", HM_DTYPE_F32, 1, seven, bytes + 4 },
	{ "scalar", HM_DTYPE_F32, 0, NULL, bytes + 5 },
	{ "h", HM_DTYPE_F16, 1, three, bytes + 6 },
	{ "\"quoted\\\"\n\x01 \xf0\x9f\x98\x80", HM_DTYPE_I8, 1, one, bytes + 7 },
	{ "b", HM_DTYPE_BOOL, 1, seven, bytes + 8 },
	{ "six", HM_DTYPE_F6_E2M3, 1, (const uint64_t[]){ 4 }, bytes + 9 },
};

#define N (sizeof(sources) / sizeof(sources[0]))

static const struct hm_metadata strings[] = { { "format", "pt" }, { "a\tb", "\"\xc3\xa9\"" } };

static struct hm_safetensors_desc desc_of(const struct hm_tensor_source *tensors, uint64_t n)
{
	uint64_t i;

	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = data_byte(i);
	return (struct hm_safetensors_desc){
		.struct_size = sizeof(struct hm_safetensors_desc),
		.tensors = tensors,
		.n_tensors = n,
		.metadata = strings,
		.n_metadata = 2,
	};
}

static unsigned int count_files(const char *folder)
{
	DIR *dir = opendir(folder);
	unsigned int n = 0;

	CHECK_FATAL(dir != NULL);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 2; /* "." and ".." */
}

static void check_same(struct hm_safetensors *safetensors, uint64_t index,
		       const struct hm_tensor_source *source)
{
	struct hm_tensor_info info = { .struct_size = sizeof(info) };
	AUTO(hm_tensor) *tensor = NULL;

	CHECK_OK_FATAL(hm_safetensors_tensor(safetensors, 0, index, &info));
	CHECK(!strcmp(info.name, source->name));
	CHECK_EQUAL(info.dtype, source->dtype);
	CHECK_EQUAL(info.rank, source->rank);
	CHECK(!source->rank ||
	      !memcmp(info.shape, source->shape, info.rank * sizeof(uint64_t)));
	CHECK_EQUAL(info.bytes % (PAGE / 4) || info.alignment == PAGE, true);
	CHECK(info.alignment >= hm_dtype_bits(info.dtype) / 8);
	CHECK_OK_FATAL(hm_safetensors_view(safetensors, index, NULL, 0, 0, 0, &tensor));
	CHECK(!info.bytes || !memcmp(hm_tensor_address(tensor), source->data, info.bytes));
}

static void round_trip(void)
{
	struct hm_tensor_source mixed[N];
	struct hm_safetensors *safetensors;
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "a.safetensors");
	struct hm_safetensors_info info = { .struct_size = sizeof(info) };
	struct hm_safetensors_desc desc;
	const char *value;
	struct stat st;
	size_t i;

	/* Whatever order they are handed over in. */
	for (i = 0; i < N; i++)
		mixed[i] = sources[(i * 7 + 3) % N];
	desc = desc_of(mixed, N);
	umask(027);
	CHECK_OK_FATAL(hm_safetensors_write(path, &desc));
	CHECK(!stat(path, &st));
	CHECK_EQUAL(st.st_mode & 0777, 0640);
	safetensors = tensors_open(path);
	CHECK_OK(hm_safetensors_query(safetensors, &info));
	CHECK_EQUAL(info.tensors, N);
	for (i = 0; i < N; i++)
		check_same(safetensors, i, &sources[i]);
	CHECK_EQUAL(tensor_info(safetensors, "empty").offset, PAGE);
	CHECK_OK(hm_safetensors_metadata_find(safetensors, "a\tb", &value));
	CHECK(!strcmp(value, "\"\xc3\xa9\""));
	hm_safetensors_unref(safetensors);
	CHECK_EQUAL(count_files(folder), 1);

	/* Nothing at all, beside the program. */
	CHECK(!chdir(folder));
	desc.n_tensors = desc.n_metadata = 0;
	CHECK_OK_FATAL(hm_safetensors_write("a.safetensors", &desc));
	safetensors = tensors_open(path);
	CHECK_OK(hm_safetensors_query(safetensors, &info));
	CHECK_EQUAL(info.tensors + info.metadata, 0);
	hm_safetensors_unref(safetensors);
	CHECK(!chdir("/"));
}

/* A reader of the old file keeps it. */
static void replaces(void)
{
	static const struct hm_tensor_source other = { "other", HM_DTYPE_U8, 1, one, bytes };
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "a");
	struct hm_safetensors_desc desc = desc_of(sources, N), second = desc_of(&other, 1);
	struct hm_safetensors *old, *new;
	AUTO(hm_tensor) *tensor = NULL;
	uint64_t index;

	CHECK_OK_FATAL(hm_safetensors_write(path, &desc));
	old = tensors_open(path);
	CHECK_OK_FATAL(hm_safetensors_view(old, 2, NULL, 0, 0, 0, &tensor));
	CHECK_OK_FATAL(hm_safetensors_write(path, &second));
	new = tensors_open(path);
	CHECK_OK(hm_safetensors_find(new, "other", &index));
	CHECK_ERROR(-ENOENT, hm_safetensors_find(new, "pages", &index));
	hm_safetensors_unref(new);
	CHECK(!unlink(path));
	CHECK(!memcmp(hm_tensor_address(tensor), bytes + 2, 2 * PAGE));
	check_same(old, 2, &sources[2]);
	hm_safetensors_unref(old);
}

/* The n-th call fails: the old file is whole, and nothing is left beside it. */
static void undone(void)
{
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "a");
	struct hm_safetensors_desc first = desc_of(sources, 1), desc = desc_of(sources, N);
	struct hm_safetensors_info info = { .struct_size = sizeof(info) };
	struct hm_safetensors *safetensors;
	unsigned int n, after = 0;
	bool failed = true, told;
	int r;

	make_table();
	inject_install();
	for (n = 1; failed; n++) {
		CHECK_OK_FATAL(hm_safetensors_write(path, &first));
		inject_arm(n, INJECT_ONE);
		r = hm_safetensors_write(path, &desc);
		failed = inject_disarm();
		told = strstr(hm_errmsg(), "the new file is there") != NULL;
		CHECK_EQUAL(count_files(folder), 1);
		safetensors = tensors_open(path);
		CHECK_OK(hm_safetensors_query(safetensors, &info));
		hm_safetensors_unref(safetensors);
		if (r && info.tensors == N) {
			/* Only its folder could not be written out. */
			after++;
			CHECK(told);
		} else if (r) {
			CHECK_EQUAL(info.tensors, 1);
		} else {
			CHECK_EQUAL(info.tensors, N);
		}
	}
	CHECK(n > 15);
	CHECK_EQUAL(after, 2);
}

static void refuses(void)
{
	static const uint64_t huge[] = { 1ull << 32, 1ull << 32, 4 },
			      large[] = { (1ull << 61) - 1 }, most[] = { 1ull << 61, 4 },
			      odd[] = { 3 };
	static const struct {
		struct hm_tensor_source source;
		int error;
		const char *text;
	} cases[] = {
		{ { NULL, HM_DTYPE_U8, 1, one, bytes }, -EINVAL, "tensor 1, NULL: its name" },
		{ { "page", HM_DTYPE_U8, 1, one, bytes },
		  -EINVAL,
		  "\"page\": the name is there twice" },
		{ { "__metadata__", HM_DTYPE_U8, 1, one, bytes }, -EINVAL, "the format's own" },
		{ { "\xff", HM_DTYPE_U8, 1, one, bytes }, -EINVAL, "no UTF-8" },
		{ { "t", HM_DTYPE_U64 + 1, 1, one, bytes }, -EINVAL, "dtype 22" },
		{ { "t", HM_DTYPE_U8, HM_TENSOR_RANK_MAX + 1, one, bytes },
		  -EINVAL,
		  "65 dimensions" },
		{ { "t", HM_DTYPE_U8, 1, NULL, bytes }, -EINVAL, "shape is NULL" },
		{ { "t", HM_DTYPE_U8, 1, one, NULL }, -EINVAL, "data is NULL" },
		{ { "t", HM_DTYPE_F4, 1, odd, bytes }, -EINVAL, "inside of a byte" },
		{ { "t", HM_DTYPE_U8, 3, huge, bytes }, -EOVERFLOW, "\"t\": the product" },
		{ { "t", HM_DTYPE_U8, 2, most, bytes }, -EOVERFLOW, "bits" },
		{ { "t", HM_DTYPE_U8, 1, many, (const void *)PAGE },
		  -EFAULT,
		  "tensor \"t\": writing" },
	};
	static const char *const names[] = { "A", "B", "C" };
	struct hm_tensor_source two[2] = { sources[1] }, three_large[3];
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "a");
	struct hm_safetensors_desc desc = desc_of(two, 2);
	const struct hm_metadata twice[] = { { "k", "" }, { "k", "" } };
	const struct hm_metadata bad[] = { { "k", "\xc0\x80" } }, null[] = { { "k", NULL } };
	struct rlimit limit = { 2 * PAGE, RLIM_INFINITY }, before;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		two[1] = cases[i].source;
		CHECK_ERROR(cases[i].error, hm_safetensors_write(path, &desc));
		CHECK_HAS(hm_errmsg(), cases[i].text);
	}
	for (i = 0; i < 3; i++) {
		three_large[i] =
			(struct hm_tensor_source){ names[i], HM_DTYPE_U8, 1, large, bytes };
		desc.n_tensors = i + 1;
	}
	desc.tensors = three_large;
	CHECK_ERROR(-EFBIG, hm_safetensors_write(path, &desc));
	CHECK(strstr(hm_errmsg(), "tensor 2, \"C\": the tensors are beyond") != NULL);
	desc.tensors = two;
	desc.n_tensors = 1;
	desc.metadata = twice;
	CHECK_ERROR(-EINVAL, hm_safetensors_write(path, &desc));
	desc.n_metadata = 1;
	desc.metadata = bad;
	CHECK_ERROR(-EINVAL, hm_safetensors_write(path, &desc));
	desc.metadata = null;
	CHECK_ERROR(-EINVAL, hm_safetensors_write(path, &desc));
	desc.metadata = NULL;
	CHECK_ERROR(-EINVAL, hm_safetensors_write(path, &desc));
	desc.n_metadata = 0;
	desc.flags = 1;
	CHECK_ERROR(-EINVAL, hm_safetensors_write(path, &desc));
	desc.flags = 0;
	CHECK_ERROR(-EINVAL, hm_safetensors_write(path, NULL));
	CHECK_ERROR(-EINVAL, hm_safetensors_write(NULL, &desc));
	CHECK_ERROR(-ENOENT, hm_safetensors_write("/nowhere/a", &desc));
	CHECK_EQUAL(count_files(folder), 0);

	/* No room: as RLIMIT_FSIZE has it. */
	signal(SIGXFSZ, SIG_IGN);
	CHECK(!getrlimit(RLIMIT_FSIZE, &before));
	limit.rlim_max = before.rlim_max;
	two[0] = sources[2];
	CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
	CHECK_ERROR(-EFBIG, hm_safetensors_write(path, &desc));
	CHECK(!setrlimit(RLIMIT_FSIZE, &before));
	CHECK_EQUAL(count_files(folder), 0);
}

static const struct test tests[] = {
	{ "round_trip", round_trip, 0, 0 },
	{ "replaces", replaces, 0, 0 },
	{ "undone", undone, 0, 0 },
	{ "refuses", refuses, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "safetensors_write", tests)
