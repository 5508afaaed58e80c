// SPDX-License-Identifier: MIT
/* Readers: opened, queried, ended. window.c, stream.c and gather.c do the reading. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "reader/reader.h"
#include "base/sys.h"

#define READER_FLAGS HM_READER_DROP

static int reader_check(const struct hm_reader *reader)
{
	return object_check(reader ? &reader->object : NULL, OBJECT_READER);
}

static int check_wish(const struct reader_wish *wish)
{
	if (wish->pattern > HM_PATTERN_RANDOM)
		return err_set(-EINVAL, "pattern %u is unknown: 0 and 1 are", wish->pattern);
	if (wish->policy > HM_POLICY_DIRECT)
		return err_set(-EINVAL, "policy %u is unknown: 0 to %u are", wish->policy,
			       HM_POLICY_DIRECT);
	return 0;
}

static int read_desc(const struct hm_reader_desc *from, struct reader_wish *wish,
		     uint32_t *ret_flags)
{
	struct hm_reader_desc desc = { 0 };
	int r;

	if (from) {
		r = struct_read(&desc, sizeof(desc), from, from->struct_size, sizeof(desc),
				"hm_reader_desc");
		if (r)
			return r;
	}
	if (desc.flags & ~READER_FLAGS)
		return err_set(-EINVAL, "hm_reader_desc.flags 0x%x has unknown bits 0x%x",
			       desc.flags, desc.flags & ~READER_FLAGS);
	*wish = (struct reader_wish){
		.pattern = desc.pattern,
		.policy = desc.policy,
		.window = desc.window,
		.budget = desc.budget,
	};
	*ret_flags = desc.flags;
	return check_wish(wish);
}

/* ---- opening ---- */

static void reader_free(struct hm_reader *reader)
{
	reader->object.kind = OBJECT_FREED;
	hm_device_unref(reader->device);
	files_close(reader->files);
	if (reader->fd >= 0)
		sys_close(reader->fd);
	pthread_mutex_destroy(&reader->lock);
	free(reader->path);
	free(reader);
}

static int create(const char *path, struct hm_reader **ret_reader)
{
	struct hm_reader *reader = sys_calloc(1, sizeof(*reader));
	struct stat st;
	int r;

	if (!reader)
		return err_set(-ENOMEM, "no memory for a reader");
	object_init(&reader->object, OBJECT_READER);
	pthread_mutex_init(&reader->lock, NULL);
	reader->fd = -1;
	reader->path = sys_calloc(1, strlen(path) + 1);
	if (!reader->path) {
		r = err_set(-ENOMEM, "no memory for a path of %zu bytes", strlen(path));
		goto err_reader;
	}
	strcpy(reader->path, path);
	r = device_open("file", &reader->device);
	if (!r)
		r = reader_open_file(path, &reader->fd, &st);
	if (r)
		goto err_reader;
	*ret_reader = reader;
	return 0;

err_reader:
	reader_free(reader);
	return r;
}

/* Takes over @files, or NULL, on failure, too. */
static int open_reader(const char *path, struct files *files, const struct hm_reader_desc *desc,
		       struct hm_reader **ret_reader)
{
	struct hm_reader *reader = NULL;
	struct reader_wish wish;
	uint32_t flags = 0;
	int r;

	r = read_desc(desc, &wish, &flags);
	if (!r)
		r = create(path, &reader);
	if (r) {
		files_close(files);
		return r;
	}
	reader->files = files;
	reader->flags = flags;
	r = phase_begin(reader, 0, 0, &wish, &reader->phase);
	if (r) {
		reader_free(reader);
		return r;
	}
	phase_take_up(reader);
	*ret_reader = reader;
	return 0;
}

int hm_reader_open(const char *path, const struct hm_reader_desc *desc,
		   struct hm_reader **ret_reader)
{
	int r;

	err_begin();
	if (!path || !ret_reader)
		return err_set(-EINVAL, "hm_reader_open: %s is NULL",
			       path ? "ret_reader" : "path");
	r = open_reader(path, NULL, desc, ret_reader);
	return r ? err_prefix(r, "%s", path) : 0;
}

int hm_reader_open_files(const char *const *paths, uint64_t n_paths,
			 const struct hm_reader_desc *desc, struct hm_reader **ret_reader)
{
	struct files *files;
	int r;

	err_begin();
	if (!paths || !n_paths || !ret_reader)
		return err_set(-EINVAL, "hm_reader_open_files: %s",
			       ret_reader ? "there are no paths" : "ret_reader is NULL");
	r = files_open(paths, n_paths, &files);
	return r ? r : open_reader(paths[0], files, desc, ret_reader);
}

int hm_reader_file(struct hm_reader *reader, uint64_t index, struct hm_piece *ret_piece)
{
	uint64_t n, begin, end;
	int r;

	err_begin();
	r = reader_check(reader);
	if (r)
		return r;
	if (!ret_piece)
		return err_set(-EINVAL, "hm_reader_file: ret_piece is NULL");
	n = reader->files ? files_count(reader->files) : 1;
	if (index >= n)
		return err_set(-ERANGE, "there is no file %" PRIu64 ": the reader has %" PRIu64,
			       index, n);
	pthread_mutex_lock(&reader->lock);
	begin = reader->files ? files_start(reader->files, index) : 0;
	end = reader->files ? files_start(reader->files, index + 1) : reader->phase.facts.size;
	pthread_mutex_unlock(&reader->lock);
	*ret_piece = (struct hm_piece){ .offset = begin, .bytes = end - begin };
	return 0;
}

struct hm_reader *hm_reader_ref(struct hm_reader *reader)
{
	if (reader)
		object_ref(&reader->object);
	return reader;
}

void hm_reader_unref(struct hm_reader *reader)
{
	if (!reader || !object_put(&reader->object))
		return;
	err_hold();
	window_end(reader, &reader->phase);
	phase_end(&reader->phase);
	reader_free(reader);
	err_release();
}

/* ---- using ---- */

/* With several files the text has the path already. */
static int explain(const struct hm_reader *reader, int r)
{
	return reader->files ? r : err_prefix(r, "%s", reader->path);
}

static void note_peak(struct hm_reader *reader)
{
	reader->peak = max_u64(reader->peak, phase_memory(&reader->phase));
}

int hm_reader_range(struct hm_reader *reader, uint64_t begin, uint64_t end, uint32_t pattern,
		    uint32_t policy)
{
	struct reader_wish wish;
	struct phase phase;
	int r;

	err_begin();
	r = reader_check(reader);
	if (r)
		return r;
	pthread_mutex_lock(&reader->lock);
	wish = reader->phase.wish;
	wish.pattern = pattern;
	wish.policy = policy;
	r = check_wish(&wish);
	if (!r)
		r = phase_begin(reader, begin, end, &wish, &phase);
	if (!r) {
		window_end(reader, &reader->phase);
		phase_end(&reader->phase);
		reader->phase = phase;
		/* A name that the table does not have is stored in the phase itself. */
		if (phase.facts.fs == phase.fs_name)
			reader->phase.facts.fs = reader->phase.fs_name;
		phase_take_up(reader);
	}
	pthread_mutex_unlock(&reader->lock);
	return r ? explain(reader, r) : 0;
}

static int next_locked(struct hm_reader *reader, const void **ret_data, uint64_t *ret_bytes)
{
	struct phase *phase = &reader->phase;

	if (phase->wish.pattern != HM_PATTERN_SEQUENTIAL)
		return err_set(-EINVAL, "the range is for pieces (HM_PATTERN_RANDOM): "
					"hm_reader_range() sets one for windows");
	if (phase->position < phase->end)
		return phase->choice.mapped ? window_next(reader, ret_data, ret_bytes) :
					      stream_next(reader, ret_data, ret_bytes);
	window_end(reader, phase);
	stream_end(phase);
	*ret_data = NULL;
	*ret_bytes = 0;
	return 0;
}

int hm_reader_next(struct hm_reader *reader, const void **ret_data, uint64_t *ret_offset,
		   uint64_t *ret_bytes)
{
	const void *data;
	uint64_t bytes;
	int r;

	err_begin();
	r = reader_check(reader);
	if (r)
		return r;
	if (!ret_data || !ret_bytes)
		return err_set(-EINVAL, "hm_reader_next: %s is NULL",
			       ret_data ? "ret_bytes" : "ret_data");
	pthread_mutex_lock(&reader->lock);
	r = next_locked(reader, &data, &bytes);
	note_peak(reader);
	if (!r) {
		*ret_data = data;
		*ret_bytes = bytes;
		if (ret_offset)
			*ret_offset = reader->phase.position;
		reader->phase.position += bytes;
		reader->bytes += bytes;
	}
	pthread_mutex_unlock(&reader->lock);
	return r ? explain(reader, r) : 0;
}

static int check_pieces(const struct hm_piece *pieces, uint64_t n_pieces)
{
	if (pieces || !n_pieces)
		return 0;
	return err_set(-EINVAL, "pieces is NULL, and n_pieces is %" PRIu64, n_pieces);
}

int hm_reader_announce(struct hm_reader *reader, const struct hm_piece *pieces,
		       uint64_t n_pieces)
{
	int r;

	err_begin();
	r = reader_check(reader);
	if (!r)
		r = check_pieces(pieces, n_pieces);
	if (r || !n_pieces)
		return r;
	pthread_mutex_lock(&reader->lock);
	r = gather_announce(reader, pieces, n_pieces);
	note_peak(reader);
	pthread_mutex_unlock(&reader->lock);
	return r ? explain(reader, r) : 0;
}

int hm_reader_gather(struct hm_reader *reader, const struct hm_piece *pieces, uint64_t n_pieces,
		     void *to)
{
	uint64_t i;
	int r;

	err_begin();
	r = reader_check(reader);
	if (!r)
		r = check_pieces(pieces, n_pieces);
	if (r || !n_pieces)
		return r;
	if (!to)
		return err_set(-EINVAL, "hm_reader_gather: to is NULL");
	pthread_mutex_lock(&reader->lock);
	r = gather(reader, pieces, n_pieces, to);
	note_peak(reader);
	for (i = 0; !r && i < n_pieces; i++)
		reader->bytes += pieces[i].bytes;
	pthread_mutex_unlock(&reader->lock);
	return r ? explain(reader, r) : 0;
}

/* ---- asking ---- */

static uint32_t flags_of(const struct phase *phase)
{
	return (phase->facts.private_map ? HM_READER_PRIVATE_MAP : 0) |
	       (phase->facts.mappable ? 0 : HM_READER_NO_MAP) |
	       (phase->facts.fs_flags & FS_NETWORK ? HM_READER_NETWORK : 0) |
	       (phase->whole ? HM_READER_GUARDED : 0) | (phase->held ? HM_READER_HELD : 0);
}

int hm_reader_query(struct hm_reader *reader, struct hm_reader_info *ret_info)
{
	const struct phase *phase;
	struct hm_reader_info info;
	int r;

	err_begin();
	r = reader_check(reader);
	if (r)
		return r;
	if (!ret_info)
		return err_set(-EINVAL, "hm_reader_query: ret_info is NULL");
	r = struct_check_out(ret_info->struct_size, sizeof(info), sizeof(struct hm_reader_info),
			     "hm_reader_info");
	if (r)
		return r;
	pthread_mutex_lock(&reader->lock);
	phase = &reader->phase;
	info = (struct hm_reader_info){
		.flags = flags_of(phase),
		.policy = phase->choice.policy,
		.pattern = phase->wish.pattern,
		.why = phase->choice.why,
		.file_system = phase->facts.fs,
		.map = phase->whole,
		.size = phase->facts.size,
		.begin = phase->begin,
		.end = phase->end,
		.position = phase->position,
		.window = phase->choice.window,
		.budget = phase->choice.budget,
		.memory = phase_memory(phase),
		.peak = reader->peak,
		.bytes = reader->bytes,
		.read_ahead = phase->facts.read_ahead,
		.ram = phase->facts.ram,
		.ahead = phase->choice.ahead,
		.resident = phase->facts.resident == RESIDENT_UNKNOWN ? 0 :
									phase->facts.resident,
	};
	struct_write(ret_info, &info, ret_info->struct_size);
	pthread_mutex_unlock(&reader->lock);
	return 0;
}
