// SPDX-License-Identifier: MIT
/*
 * Tracepoints: their names and meanings, and the places of their fields, which a kernel's
 * format files have. These may come from anywhere: nothing is read beyond the data.
 */
#include "points.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MOST 64

const struct point_known points_known[N_POINT] = {
	[POINT_SIM_FAULT] = { "hetsim", "fault", POINTS_DEVICE,
			      .fields = { "device", "opener", "buffer", "page", "n_pages" },
			      .chain = true },
	[POINT_SIM_ACCESS] = { "hetsim", "access", POINTS_DEVICE,
			       .fields = { "device", "opener", "buffer", "page" },
			       .chain = true },
	[POINT_SIM_MOVE] = { "hetsim", "move", POINTS_DEVICE,
			     .fields = { "device", "opener", "buffer", "page", "n_pages",
					 "place", "evicted" },
			     .chain = true },
	[POINT_SIM_SUBMIT] = { "hetsim", "submit", POINTS_DEVICE,
			       .fields = { "device", "opener", "queue", "seqno", "status" } },
	[POINT_SIM_COMPLETE] = { "hetsim", "complete", POINTS_DEVICE,
				 .fields = { "device", "opener", "queue", "seqno", "status" } },
	[POINT_SIM_FENCE] = { "hetsim", "fence", POINTS_DEVICE,
			      .fields = { "device", "opener", "queue", "seqno", "status" } },
	[POINT_SIM_LOST] = { "hetsim", "lost", POINTS_DEVICE, .fields = { "device" } },
	[POINT_FAULT_USER] = { "exceptions", "page_fault_user", POINTS_ACCESS,
			       .fields = { "address", "error_code" } },
	[POINT_FAULT_KERNEL] = { "exceptions", "page_fault_kernel", POINTS_ACCESS,
				 .fields = { "address", "error_code" } },
	[POINT_MMAP] = { "syscalls", "sys_enter_mmap", POINTS_CALLS,
			 .fields = { "addr", "len" } },
	[POINT_MMAP_DONE] = { "syscalls", "sys_exit_mmap", POINTS_CALLS, .fields = { "ret" } },
	[POINT_MREMAP] = { "syscalls", "sys_enter_mremap", POINTS_CALLS,
			   .fields = { "addr", "old_len", "new_len" } },
	[POINT_MREMAP_DONE] = { "syscalls", "sys_exit_mremap", POINTS_CALLS,
				.fields = { "ret" } },
	[POINT_MPROTECT] = { "syscalls", "sys_enter_mprotect", POINTS_CALLS,
			     .fields = { "start", "len" } },
	[POINT_MPROTECT_DONE] = { "syscalls", "sys_exit_mprotect", POINTS_CALLS,
				  .fields = { "ret" } },
	[POINT_MUNMAP] = { "syscalls", "sys_enter_munmap", POINTS_CALLS,
			   .fields = { "addr", "len" } },
	[POINT_MADVISE] = { "syscalls", "sys_enter_madvise", POINTS_CALLS,
			    .fields = { "start", "len_in", "behavior" } },
};

/* The number behind @key in @line, before its end. */
static bool number_of(const char *line, const char *key, uint64_t most, uint64_t *ret_number)
{
	const char *at = strstr(line, key);
	char *end;

	if (!at)
		return false;
	at += strlen(key);
	if (*at < '0' || *at > '9')
		return false;
	*ret_number = strtoull(at, &end, 10);
	return *ret_number <= most;
}

/* "\tfield:unsigned long address;\toffset:8;\tsize:8;\tsigned:0;" */
static void parse_field(const char *line, struct point_layout *layout)
{
	const char *const *fields = points_known[layout->point].fields;
	const char *end = strchr(line, ';'), *name = end;
	uint64_t offset, size, is_signed;
	uint32_t i;

	if (!end || !number_of(end, "offset:", UINT16_MAX, &offset) ||
	    !number_of(end, "size:", 8, &size) || !number_of(end, "signed:", 1, &is_signed))
		return;
	while (name > line && name[-1] != ' ' && name[-1] != '*' && name[-1] != '\t')
		name--;
	/* Fields of other sizes are no numbers. */
	if (size != 1 && size != 2 && size != 4 && size != 8)
		return;
	for (i = 0; i < POINT_FIELDS && fields[i]; i++)
		if (strlen(fields[i]) == (size_t)(end - name) &&
		    !strncmp(fields[i], name, (size_t)(end - name)))
			layout->field[i] = (struct point_place){
				.offset = (uint16_t)offset,
				.size = (uint8_t)size,
				.is_signed = is_signed,
			};
}

static bool find_known(const char *system, const char *name, enum point *ret_point)
{
	uint32_t i;

	for (i = 0; i < N_POINT; i++) {
		if (strcmp(points_known[i].system, system) != 0 ||
		    strcmp(points_known[i].name, name) != 0)
			continue;
		*ret_point = i;
		return true;
	}
	return false;
}

bool point_parse(const char *system, const char *format, struct point_layout *ret_layout)
{
	struct point_layout layout = { 0 };
	char line[512], name[NAME_MOST] = "";
	bool known = false, id = false;
	size_t n;

	for (; *format; format += n + (format[n] == '\n')) {
		n = strcspn(format, "\n");
		snprintf(line, sizeof(line), "%.*s", n < sizeof(line) ? (int)n : 0, format);
		if (!strncmp(line, "print fmt:", 10))
			break;
		if (sscanf(line, "name: %63s", name) == 1)
			known = find_known(system, name, &layout.point);
		else if (number_of(line, "ID: ", UINT32_MAX, &layout.id))
			id = true;
		else if (known && strstr(line, "field:"))
			parse_field(strstr(line, "field:") + 6, &layout);
	}
	if (!known || !id)
		return false;
	*ret_layout = layout;
	return true;
}

bool point_value(const struct point_layout *layout, uint32_t i, const void *data,
		 uint64_t length, uint64_t *ret_value)
{
	const struct point_place *place = &layout->field[i];
	const char *at = data;
	int64_t wide;
	union {
		uint8_t u8;
		uint16_t u16;
		uint32_t u32;
		uint64_t u64;
	} value;

	if (!place->size || place->offset > length || place->size > length - place->offset)
		return false;
	memcpy(&value, at + place->offset, place->size);
	switch (place->size) {
	case 1:
		wide = place->is_signed ? (int8_t)value.u8 : (int64_t)value.u8;
		break;
	case 2:
		wide = place->is_signed ? (int16_t)value.u16 : (int64_t)value.u16;
		break;
	case 4:
		wide = place->is_signed ? (int32_t)value.u32 : (int64_t)value.u32;
		break;
	default:
		wide = (int64_t)value.u64;
		break;
	}
	*ret_value = (uint64_t)wide;
	return true;
}
