// SPDX-License-Identifier: MIT
/* The access hook where files are read and made, and where a simulated device is called. */
#include <errno.h>
#include <fcntl.h>
#include <hetmap/npy.h>
#include <hetmap/reader.h>
#include <hetmap/ring.h>
#include <hetmap/sim.h>
#include <hetmap/tokens.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <uapi/hetsim.h>
#include <unistd.h>

#include "accel/accel_support.h"
#include "hook/access_world.h"
#include "lib/command.h"
#include "lib/holding.h"
#include "lib/inject.h"
#include "format/safetensors_support.h"

#define UNTOUCHED ((void *)0x10)
#define FILES (1u << HM_ACCESS_FROM_FILE)

enum {
	RAW,
	NPY,
	INDEX,
	WRITTEN,
	RING,
	NEW_RING,
	N_FILE,
};

static const char *const names[N_FILE] = { "raw",     "a.npy", "m.safetensors.index.json",
					   "written", "ring",  "new" };

struct world {
	char *folder, *path[N_FILE];
};

static const struct hm_ring_desc ring_desc = { .struct_size = sizeof(ring_desc),
					       .capacity = 4096 };

static struct world world_begin(void)
{
	struct world w = { 0 };
	static const char npy[] = "\x93NUMPY\x01\0\x46\0{'descr': '<u2', 'fortran_order': "
				  "False, 'shape': (4,), }              \n01234567";
	static const char index[] = "{\"weight_map\":{\"a\":\"1.safetensors\"}}";
	size_t i;

	w.folder = folder_make();
	for (i = 0; i < N_FILE; i++)
		w.path[i] = folder_path(w.folder, names[i]);
	file_write(w.folder, names[RAW], npy, sizeof(npy) - 1);
	file_write(w.folder, names[NPY], npy, sizeof(npy) - 1);
	tensors_file(w.folder, "1.safetensors",
		     "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4);
	file_write(w.folder, names[INDEX], index, sizeof(index) - 1);
	CHECK_OK_FATAL(hm_ring_create(w.path[RING], -1, &ring_desc));
	return w;
}

static void world_end(struct world *w)
{
	size_t i;

	CHECK_OK(hm_access_hook_set(NULL, NULL));
	for (i = 0; i < N_FILE; i++)
		free(w->path[i]);
	folder_remove(w->folder);
}

AUTO_END(world, world_end)

/* ---- whatever opens or makes a file ---- */

static int op_reader(const struct world *w)
{
	struct hm_reader *reader = UNTOUCHED;
	int r = hm_reader_open(w->path[RAW], NULL, &reader);

	if (r)
		CHECK(reader == UNTOUCHED);
	else
		hm_reader_unref(reader);
	return r;
}

static int op_reader_files(const struct world *w)
{
	const char *const paths[] = { w->path[RAW], w->path[NPY] };
	struct hm_reader *reader = UNTOUCHED;
	int r = hm_reader_open_files(paths, 2, NULL, &reader);

	if (r)
		CHECK(reader == UNTOUCHED);
	else
		hm_reader_unref(reader);
	return r;
}

static int op_tokens(const struct world *w)
{
	const char *const paths[] = { w->path[RAW] };
	struct hm_tokens *tokens = UNTOUCHED;
	int r = hm_tokens_open(paths, 1, DESC(hm_tokens_desc, .dtype = HM_DTYPE_U16), &tokens);

	if (r)
		CHECK(tokens == UNTOUCHED);
	else
		hm_tokens_unref(tokens);
	return r;
}

static int op_npy(const struct world *w)
{
	struct hm_npy_info info = { .struct_size = sizeof(info) };

	return hm_npy_query(w->path[NPY], &info);
}

static int op_model(const struct world *w)
{
	struct hm_safetensors *model = UNTOUCHED;
	int r = hm_safetensors_open(w->path[INDEX], 0, &model);

	if (r)
		CHECK(model == UNTOUCHED);
	else
		hm_safetensors_unref(model);
	return r;
}

static int op_write(const struct world *w)
{
	const uint64_t shape = 4;
	const struct hm_tensor_source tensor = {
		.name = "a", .dtype = HM_DTYPE_U8, .rank = 1, .shape = &shape, .data = "0123"
	};
	int r = hm_safetensors_write(w->path[WRITTEN], DESC(hm_safetensors_desc, .n_tensors = 1,
							    .tensors = &tensor));

	CHECK_EQUAL(unlink(w->path[WRITTEN]), r ? -1 : 0);
	return r;
}

static int op_ring(const struct world *w)
{
	struct hm_ring *ring = UNTOUCHED;
	int r = hm_ring_open(w->path[RING], -1, HM_RING_WRITER, &ring);

	if (r)
		CHECK(ring == UNTOUCHED);
	else
		hm_ring_unref(ring);
	return r;
}

static int op_new_ring(const struct world *w)
{
	int r = hm_ring_create(w->path[NEW_RING], -1, &ring_desc);

	CHECK_EQUAL(unlink(w->path[NEW_RING]), r ? -1 : 0);
	return r;
}

static int op_ring_of_fd(const struct world *w)
{
	int fd = open(w->path[NEW_RING], O_RDWR | O_CREAT | O_CLOEXEC, 0600), r;
	struct stat st;

	CHECK_FATAL(fd >= 0);
	r = hm_ring_create(NULL, fd, &ring_desc);
	CHECK(!fstat(fd, &st));
	CHECK_EQUAL(st.st_size > 0, !r);
	close(fd);
	CHECK(!unlink(w->path[NEW_RING]));
	return r;
}

static const struct {
	int (*run)(const struct world *w);
	unsigned int path;
	uint32_t access;
} operations[] = {
	{ op_reader, RAW, HM_READ },
	{ op_reader_files, RAW, HM_READ },
	{ op_tokens, RAW, HM_READ },
	{ op_npy, NPY, HM_READ },
	{ op_model, INDEX, HM_READ },
	{ op_write, WRITTEN, HM_WRITE },
	{ op_ring, RING, HM_READ | HM_WRITE },
	{ op_new_ring, NEW_RING, HM_READ | HM_WRITE },
	{ op_ring_of_fd, NEW_RING, HM_READ | HM_WRITE },
};

#define OPERATIONS (sizeof(operations) / sizeof(operations[0]))

/* Some errors have a meaning for readers, which go on without the refused call. */
static void refused(void)
{
	static const int answers[] = { -EACCES, -EPERM,  -EINVAL, -ENODATA,
				       -ENOMEM, -EAGAIN, -ENOENT, -EOPNOTSUPP };
	struct test_holding held, now;
	struct access_log log;
	size_t i, k;
	AUTO(world) w = world_begin();

	for (i = 0; i < OPERATIONS; i++) {
		CHECK_OK(operations[i].run(&w));
		held = test_holding_now();
		for (k = 0; k < sizeof(answers) / sizeof(answers[0]); k++) {
			log = (struct access_log){ .refuse = FILES, .r = answers[k] };
			CHECK_OK(hm_access_hook_set(access_log_hook, &log));
			CHECK_ERROR(answers[k], operations[i].run(&w));
			CHECK(text_has("the access hook refused from_file"));
			CHECK_EQUAL(log.last.operation, HM_ACCESS_FROM_FILE);
			CHECK_TEXT(log.path, w.path[operations[i].path]);
			CHECK_TEXT(log.device, "file");
			CHECK_EQUAL(log.last.access, operations[i].access);
			CHECK(log.last.size > 0);
			CHECK_OK(hm_access_hook_set(NULL, NULL));
			now = test_holding_now();
			CHECK_EQUAL(now.fds, held.fds);
			CHECK_EQUAL(now.mappings, held.mappings);
			CHECK_EQUAL(now.objects, held.objects);
		}
		log = (struct access_log){ .refuse = 0 };
		CHECK_OK(hm_access_hook_set(access_log_hook, &log));
		CHECK_OK(operations[i].run(&w));
		CHECK_OK(hm_access_hook_set(NULL, NULL));
	}
}

/* A path has links, and is told without them, also of a file that is not there yet. */
static void told_in_truth(void)
{
	struct access_log log = { .refuse = FILES, .r = -EACCES };
	char *beyond;
	size_t i;
	AUTO(world) w = world_begin();
	AUTO_FREE char *link = folder_path(w.folder, "link");

	CHECK_FATAL(!symlink(".", link));
	CHECK_FATAL(asprintf(&beyond, "%s/../%s/new", link, strrchr(w.folder, '/') + 1) > 0);
	CHECK_OK(hm_access_hook_set(access_log_hook, &log));
	CHECK_ERROR(-EACCES, hm_ring_create(beyond, -1, &ring_desc));
	CHECK_TEXT(log.path, w.path[NEW_RING]);
	CHECK_FATAL(!chdir(w.folder));
	CHECK_ERROR(-EACCES, hm_ring_create("new", -1, &ring_desc));
	CHECK_TEXT(log.path, w.path[NEW_RING]);
	CHECK_ERROR(-ENOENT, hm_ring_create("none/new", -1, &ring_desc));
	CHECK_ERROR(-EACCES, hm_ring_create("/new", -1, &ring_desc));
	CHECK_TEXT(log.path, "/new");
	CHECK_FATAL(!chdir("/"));

	/* Without the path nothing is asked, nor done. */
	log.order[0] = '\0';
	inject_always("readlink", EIO);
	for (i = 0; i < OPERATIONS; i++) {
		CHECK_ERROR(-EIO, operations[i].run(&w));
		CHECK(text_has("the access hook must be told which file this is"));
	}
	CHECK(inject_disarm());
	CHECK(!strstr(log.order, "from_file"));
	free(beyond);
}

/* ---- readers, later ---- */

static int no_npy(void *user, const struct hm_access_request *request, char *reason)
{
	unsigned int *asked = user;

	(void)reason;
	if (request->operation != HM_ACCESS_FROM_FILE || !strstr(request->path, "/a.npy"))
		return 0;
	++*asked;
	return -EINVAL;
}

/* Each file again when its turn comes, and of advice no error comes. */
static void several_files(void)
{
	const struct hm_reader_desc desc = {
		.struct_size = sizeof(desc),
		.pattern = HM_PATTERN_RANDOM,
		.flags = HM_READER_DROP,
	};
	struct hm_piece first = { .bytes = 8 }, second;
	unsigned int asked = 0;
	struct hm_reader *reader;
	const char *paths[2];
	char to[8];
	AUTO(world) w = world_begin();

	paths[0] = w.path[RAW], paths[1] = w.path[NPY];
	CHECK_OK(hm_access_hook_set(no_npy, &asked));
	CHECK_ERROR(-EINVAL, hm_reader_open_files(paths, 2, &desc, &reader));
	CHECK_EQUAL(asked, 1);
	CHECK_OK(hm_access_hook_set(NULL, NULL));
	CHECK_OK_FATAL(hm_reader_open_files(paths, 2, &desc, &reader));
	CHECK_OK(hm_reader_file(reader, 1, &second));
	second.bytes = 8;
	CHECK_OK(hm_access_hook_set(no_npy, &asked));
	CHECK_OK(hm_reader_gather(reader, &first, 1, to));
	CHECK_EQUAL(asked, 1);
	CHECK_OK(hm_reader_announce(reader, &second, 1));
	CHECK(asked > 1);
	asked = 0;
	CHECK_ERROR(-EINVAL, hm_reader_gather(reader, &second, 1, to));
	CHECK(text_has("the access hook refused from_file"));
	CHECK(asked > 0);
	CHECK_OK(hm_access_hook_set(NULL, NULL));
	CHECK_OK(hm_reader_gather(reader, &second, 1, to));
	CHECK(!memcmp(to, "\x93NUMPY\x01", 8));
	hm_reader_unref(reader);
}

/* A refusal by the hook is an error, also where a reader can do without the call. */
static void later(void)
{
	static const uint32_t refuse[] = { FILES, 1u << HM_ACCESS_MAP };
	static const int answers[] = { -EINVAL, -ENODATA, -ENOMEM,    -EAGAIN,
				       -EACCES, -EPERM,   -EOPNOTSUPP };
	struct hm_reader *reader;
	struct access_log log;
	const void *data;
	uint64_t bytes;
	size_t i, k;
	AUTO(world) w = world_begin();

	CHECK_OK_FATAL(hm_reader_open(w.path[RAW], NULL, &reader));
	for (i = 0; i < sizeof(refuse) / sizeof(refuse[0]); i++)
		for (k = 0; k < sizeof(answers) / sizeof(answers[0]); k++) {
			log = (struct access_log){ .refuse = refuse[i], .r = answers[k] };
			CHECK_OK(hm_access_hook_set(access_log_hook, &log));
			CHECK_ERROR(answers[k],
				    hm_reader_range(reader, 0, 0, HM_PATTERN_SEQUENTIAL, 0));
			CHECK(text_has("the access hook refused"));
			CHECK_ERROR(answers[k], op_reader(&w));
			CHECK(text_has("the access hook refused"));
			if (refuse[i] != FILES)
				CHECK_ERROR(answers[k], op_tokens(&w));
		}
	CHECK_OK(hm_access_hook_set(NULL, NULL));
	CHECK_OK(hm_reader_next(reader, &data, NULL, &bytes));
	CHECK(bytes > 8 && !memcmp(data, "\x93NUMPY\x01", 8));
	hm_reader_unref(reader);
}

/* ---- the simulated device's own calls ---- */

static int raw_create(struct hm_device *device, struct hetsim_buffer_create *create)
{
	*create = (struct hetsim_buffer_create){
		.size = sizeof(*create),
		.length = 8192,
		.place = HETSIM_PLACE_SYSTEM,
	};
	return hm_sim_call(device, HETSIM_BUFFER_CREATE, create);
}

static void raw_calls(void)
{
	struct access_log log = { .refuse = ~0u, .r = -EPERM };
	struct hetsim_buffer_create create, none;
	struct hetsim_buffer_resize resize = { .size = sizeof(resize), .length = 4096 };
	struct hetsim_export export = { .size = sizeof(export), .flags = HETSIM_EXPORT_WRITE };
	struct hetsim_import import = { .size = sizeof(import), .length = 4096 };
	struct hetsim_buffer_close close_it = { .size = sizeof(close_it) };
	AUTO(hm_device) *device = rig_device("soft:0");

	CHECK_OK_FATAL(raw_create(device, &create));
	resize.handle = export.handle = close_it.handle = create.handle;
	import.fd = scratch_file(4096);
	CHECK_OK(hm_access_hook_set(access_log_hook, &log));

	CHECK_ERROR(-EPERM, raw_create(device, &none));
	CHECK_EQUAL(none.handle, 0);
	CHECK(text_has("the access hook refused create on \"soft:0\", 8192 bytes"));
	CHECK_EQUAL(log.last.place, HM_PLACE_SYSTEM);
	CHECK_ERROR(-EPERM, hm_sim_call(device, HETSIM_BUFFER_RESIZE, &resize));
	CHECK(text_has("the access hook refused resize on \"soft:0\", 4096 bytes"));
	CHECK_ERROR(-EPERM, hm_sim_call(device, HETSIM_EXPORT, &export));
	CHECK_EQUAL(log.last.operation, HM_ACCESS_EXPORT);
	CHECK_EQUAL(log.last.access, HM_READ | HM_WRITE);
	CHECK_ERROR(-EPERM, hm_sim_call(device, HETSIM_IMPORT, &import));
	CHECK_EQUAL(log.last.operation, HM_ACCESS_IMPORT);
	CHECK(strstr(log.path, " (deleted)") != NULL);
	CHECK_ERROR(-EPERM, hm_sim_call(device, HETSIM_SUBMIT, SIZED(hetsim_submit)));
	CHECK_EQUAL(log.last.operation, HM_ACCESS_LAUNCH);
	CHECK_TEXT(log.accel, "soft:0");
	CHECK_EQUAL(log.n, 5);

	/* The hook is not asked about queries, or ends. */
	CHECK_OK(hm_sim_call(device, HETSIM_QUERY, SIZED(hetsim_query)));
	CHECK_EQUAL(log.n, 5);
	log.refuse = 0;
	CHECK_OK(hm_sim_call(device, HETSIM_BUFFER_RESIZE, &resize));
	CHECK_OK(hm_sim_call(device, HETSIM_BUFFER_CLOSE, &close_it));
	CHECK_OK(hm_access_hook_set(NULL, NULL));
	close(import.fd);
}

/* If refused, the device that came back stays closed, and the old one's bytes stay lost. */
static void recovery(void)
{
	struct hetsim_inject unplug = { .size = sizeof(unplug), .kind = HETSIM_INJECT_UNPLUG };
	const struct hm_loss_desc desc = { .struct_size = sizeof(desc),
					   .policy = HM_LOSS_RECREATE };
	struct access_log log = { .refuse = ~0u, .r = -EPERM };
	struct hm_recover_info info = { .struct_size = sizeof(info), .generation = 77 };

	setenv("HETMAP_SOFT", "test=1", 1);
	AUTO(hm_device) *device = rig_device("soft:0");
	AUTO(hm_buffer) *buffer = rig_buffer(device, DESC(hm_buffer_desc, .size = 4096));
	CHECK_OK_FATAL(hm_buffer_set_loss(buffer, &desc));
	CHECK_OK(hm_access_hook_set(access_log_hook, &log));
	CHECK_OK(hm_device_recover(device, 0, NULL));
	CHECK_EQUAL(log.n, 0);

	CHECK_OK_FATAL(hm_sim_call(device, HETSIM_INJECT, &unplug));
	CHECK_OK_FATAL(hm_sim_plug("soft:0"));
	CHECK_ERROR(-EPERM, hm_device_recover(device, 0, &info));
	CHECK(text_has("the access hook refused open \"soft:0\""));
	CHECK_EQUAL(info.generation, 77);
	CHECK_EQUAL(log.n, 1);
	CHECK_EQUAL(log.last.operation, HM_ACCESS_OPEN);
	CHECK_TEXT(log.device, "soft:0");
	CHECK(buffer_info(buffer).lost & HM_LOST_BYTES);

	log.refuse = 0;
	CHECK_OK(hm_device_recover(device, 0, &info));
	CHECK_EQUAL(info.buffers_back, 1);
	CHECK_EQUAL(buffer_info(buffer).lost, 0);
	CHECK_OK(hm_access_hook_set(NULL, NULL));
}

static const struct test tests[] = {
	{ "refused", refused, 60, 0 },
	{ "told_in_truth", told_in_truth, 60, 0 },
	{ "several_files", several_files, 60, 0 },
	{ "later", later, 60, 0 },
	{ "raw_calls", raw_calls, 60, 0 },
	{ "recovery", recovery, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "access_files", tests)
