// SPDX-License-Identifier: MIT
/* A recording's head: where its records are, and of which events. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recording_private.h"

/* All tracepoints of a kernel are some MiB. */
#define FORMATS_MOST (UINT64_C(64) << 20)

ssize_t recorded_read_at(int fd, void *to, uint64_t length, uint64_t offset)
{
	uint64_t done = 0;
	ssize_t n;

	while (done < length) {
		n = pread(fd, (char *)to + done, length - done, (off_t)(offset + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		done += (uint64_t)n;
	}
	return (ssize_t)done;
}

static enum recorded kind_of(const struct perf_event_attr *attr, bool *ret_fault)
{
	*ret_fault = attr->type == PERF_TYPE_SOFTWARE;
	switch (attr->config) {
	case PERF_COUNT_SW_PAGE_FAULTS:
		return RECORDED_FAULT;
	case PERF_COUNT_SW_PAGE_FAULTS_MIN:
		return RECORDED_MINOR;
	case PERF_COUNT_SW_PAGE_FAULTS_MAJ:
		return RECORDED_MAJOR;
	default:
		*ret_fault = false;
		return RECORDED_FAULT;
	}
}

static int compare_ids(const void *a, const void *b)
{
	const struct recorded_id *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

static int read_ids(struct recorded_head *head, const struct perf_data_section *section,
		    uint32_t attr, uint64_t size)
{
	struct recorded_attrs *attrs = head->attrs;
	uint64_t n = section->size / sizeof(uint64_t), i;
	struct recorded_id *more;
	uint64_t *ids;

	if (section->offset > size || section->size > size - section->offset)
		return -EPROTO;
	ids = malloc(n * sizeof(*ids) + 1);
	more = realloc(attrs->ids, (attrs->n_id + n + 1) * sizeof(*more));
	if (more)
		attrs->ids = more;
	if (!ids || !more) {
		free(ids);
		return -ENOMEM;
	}
	if (recorded_read_at(head->fd, ids, n * sizeof(*ids), section->offset) !=
	    (ssize_t)(n * sizeof(*ids)))
		n = 0;
	for (i = 0; i < n; i++)
		attrs->ids[attrs->n_id++] = (struct recorded_id){ ids[i], attr };
	free(ids);
	return 0;
}

static int read_attr(struct recorded_head *head, const struct perf_data_head *file, uint32_t i,
		     uint64_t size)
{
	struct perf_data_section ids;
	struct perf_event_attr attr = { 0 };
	uint64_t offset = file->attrs.offset + i * file->attr_size;
	uint64_t length = file->attr_size - sizeof(ids);
	struct recorded_attr *known = &head->attrs->attr[i];

	if (length > sizeof(attr))
		length = sizeof(attr);
	if (recorded_read_at(head->fd, &attr, length, offset) != (ssize_t)length ||
	    recorded_read_at(head->fd, &ids, sizeof(ids),
			     offset + file->attr_size - sizeof(ids)) != (ssize_t)sizeof(ids))
		return -EPROTO;
	known->sample_type = attr.sample_type;
	known->trailer = attr.sample_id_all;
	known->time_at = recorded_time_at(attr.sample_type);
	known->samples = attr.freq || attr.sample_period > 1;
	known->period = attr.freq || !attr.sample_period ? 1 : attr.sample_period;
	known->registers = attr.sample_regs_user;
	known->kind = kind_of(&attr, &known->fault);
	if (attr.type == PERF_TYPE_TRACEPOINT)
		known->point = recorded_point(head->attrs, attr.config);
	return read_ids(head, &ids, i, size);
}

/* Where the formats of tracepoints are: a recording that is cut off has no table of features. */
static bool find_formats(const struct recorded_head *head, const struct perf_data_head *file,
			 uint64_t size, struct perf_data_section *ret_section)
{
	uint64_t table = file->data.offset + file->data.size;
	uint64_t before = file->features[0] & ((UINT64_C(1) << PERF_DATA_FORMATS) - 1);

	*ret_section = file->formats;
	if (file->formats.size)
		return true;
	if (!(file->features[0] & UINT64_C(1) << PERF_DATA_FORMATS) ||
	    file->data.size > size - file->data.offset)
		return false;
	table += (uint64_t)__builtin_popcountll(before) * sizeof(*ret_section);
	return recorded_read_at(head->fd, ret_section, sizeof(*ret_section), table) ==
	       (ssize_t)sizeof(*ret_section);
}

/* Wrong ones count as missing. */
static void read_points(struct recorded_head *head, const struct perf_data_head *file,
			uint64_t size)
{
	struct perf_data_section section;
	char *data;

	if (!find_formats(head, file, size, &section) || section.offset > size ||
	    section.size > size - section.offset || section.size > FORMATS_MOST)
		return;
	data = malloc(section.size + 1);
	if (data && recorded_read_at(head->fd, data, section.size, section.offset) ==
			    (ssize_t)section.size)
		recorded_points_take(head->attrs, data, section.size);
	free(data);
}

/*
 * Of several events, each sample has to say of which it is, at one place in all: perf has
 * them do so at their front where their types differ, and else behind the address.
 */
static const char *look_at_attrs(const struct recorded_attrs *attrs)
{
	uint32_t i, id_at = recorded_id_at(attrs->attr[0].sample_type);
	bool any = false;

	for (i = 0; i < attrs->n; i++) {
		any |= attrs->attr[i].fault;
		if (!(attrs->attr[i].sample_type & PERF_SAMPLE_TIME))
			return "it has no times: perf record -T -d -e page-faults -c 1";
		if (attrs->attr[i].fault && !(attrs->attr[i].sample_type & PERF_SAMPLE_ADDR))
			return "it has no addresses: perf record -d -e page-faults -c 1";
		if (attrs->n > 1 &&
		    (!id_at || recorded_id_at(attrs->attr[i].sample_type) != id_at))
			return "its samples don't say of which event they are";
	}
	return any ? NULL : "no page faults were recorded: perf record -d -e page-faults -c 1";
}

/* A file that begins like one of perf's, and which this program does not read. */
static const char *look_at_file(const struct perf_data_head *file)
{
	if (!file->magic[0] && !file->size)
		return "its recorder did not end properly: its head is not written";
	if (!memcmp(file->magic, PERF_DATA_MAGIC_SWAPPED, sizeof(file->magic)))
		return "it is of a machine with the other byte order: run perf script there, "
		       "and read its output by hetmap report --perf-script";
	if (!memcmp(file->magic, PERF_DATA_MAGIC_OLD, sizeof(file->magic)))
		return "it is of a perf from before Linux 3.2: record it with a newer one";
	if (memcmp(file->magic, PERF_DATA_MAGIC, sizeof(file->magic)) != 0)
		return "it is no recording of perf or hetmap";
	if (file->size < sizeof(*file))
		return "it was written to a pipe: perf record -o FILE";
	if (file->features[0] & UINT64_C(1) << PERF_DATA_FOLDER)
		return PERF_DATA_FOLDER_REASON;
	if (file->attr_size < PERF_ATTR_SIZE_VER0 + sizeof(struct perf_data_section) ||
	    file->attr_size > 4096)
		return "its head makes no sense";
	return NULL;
}

int recorded_head_read(struct recorded_head *head, const char **ret_reason)
{
	struct perf_data_head file;
	struct stat st;
	uint64_t size, n;
	uint32_t i;
	int r = 0;

	*ret_reason = "it is no recording of perf or hetmap";
	if (fstat(head->fd, &st))
		return -errno;
	size = (uint64_t)st.st_size;
	if (!S_ISREG(st.st_mode) ||
	    recorded_read_at(head->fd, &file, sizeof(file), 0) != (ssize_t)sizeof(file))
		return -EPROTO;
	*ret_reason = look_at_file(&file);
	if (*ret_reason)
		return -EPROTO;
	*ret_reason =
		"it is cut off before its records, or its head makes no sense: nothing of "
		"it can be read. Copy it again, or record it again";
	if (file.attrs.offset > size || file.attrs.size > size - file.attrs.offset ||
	    file.data.offset > size)
		return -EPROTO;
	n = file.attrs.size / file.attr_size;
	if (!n || n > ATTRS_MOST)
		return -EPROTO;
	head->attrs->n = (uint32_t)n;
	read_points(head, &file, size);
	for (i = 0; i < n && !r; i++)
		r = read_attr(head, &file, i, size);
	if (r)
		return r;
	if (head->attrs->n_id)
		qsort(head->attrs->ids, head->attrs->n_id, sizeof(*head->attrs->ids),
		      compare_ids);
	*ret_reason = look_at_attrs(head->attrs);
	if (*ret_reason)
		return -EPROTO;
	head->first = file.data.offset;
	/* perf writes the size at its end: without it, all that is there. */
	head->end = size;
	head->cut_off = !file.data.size || file.data.size > size - file.data.offset;
	if (!head->cut_off)
		head->end = file.data.offset + file.data.size;
	return 0;
}
