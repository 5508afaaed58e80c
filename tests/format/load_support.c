// SPDX-License-Identifier: MIT
/* Models that tests load, and checks of their bytes in a device's memory. */
#include "format/load_support.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const uint64_t load_four[LOAD_FOUR] = { 100000, 0, 7, 3 * 65536 + 1 };

struct hm_load_desc load_small_steps(uint32_t threads)
{
	return (struct hm_load_desc){
		.struct_size = sizeof(struct hm_load_desc),
		.window = 4 * PAGE,
		.threads = threads,
	};
}

int load_note(const struct hm_piece_info *piece, void *address, void *user)
{
	struct hm_pointer_info pointer;
	struct load_told *told = user;

	/* A tensor of no bytes may lie behind the map. */
	if (piece->bytes)
		CHECK_OK(hm_pointer_find(address, &pointer));
	if (told->n < 32)
		told->names[told->n] = piece->name;
	told->n++;
	return told->n > told->at_most ? told->r : 0;
}

int load_note_bytes(uint64_t bytes, uint64_t total, void *user)
{
	struct load_told *told = user;

	CHECK(bytes >= told->bytes && bytes <= total);
	told->bytes = bytes;
	return 0;
}

struct hm_load *rig_load(struct hm_device *device, struct hm_pieces *pieces,
			 const struct hm_load_desc *desc)
{
	struct hm_load *load = NULL;

	CHECK_OK_FATAL(hm_load_create(device, pieces, desc, &load));
	return load;
}

struct hm_load_info load_info(struct hm_load *load)
{
	struct hm_load_info info = { .struct_size = sizeof(info) };

	CHECK_OK_FATAL(hm_load_query(load, &info));
	return info;
}

const char *load_file(const char *folder, const uint64_t *bytes, unsigned int n)
{
	char *header = malloc(n * 100 + 3), *at = header;
	uint64_t begin = 0;
	const char *path;
	unsigned int i;

	CHECK_FATAL(header != NULL);
	for (i = 0; i < n; i++) {
		at += sprintf(at,
			      "%c\"t%u\":{\"dtype\":\"U8\",\"shape\":[%" PRIu64
			      "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
			      i ? ',' : '{', i, bytes[i], begin, begin + bytes[i]);
		begin += bytes[i];
	}
	strcpy(at, "}");
	path = tensors_file(folder, "a", header, begin);
	free(header);
	return path;
}

void load_check_tensor(struct hm_load *load, const char *name, uint64_t data)
{
	struct hm_load_place place = { .struct_size = sizeof(place) };
	struct hm_map *map = load_info(load).map;
	const unsigned char *bytes;
	uint64_t at, n, i;

	CHECK_OK_FATAL(hm_load_find(load, name, &place));
	CHECK(place.address == (char *)hm_map_address(map) + place.offset);
	CHECK_EQUAL(place.offset % load_info(load).alignment, 0);
	bytes = place.address;
	for (at = 0; at < place.bytes; at += n) {
		n = place.bytes - at < 64 * PAGE ? place.bytes - at : 64 * PAGE;
		CHECK_OK_FATAL(hm_map_begin_cpu(map, place.offset + at, n, HM_READ));
		for (i = at; i < at + n && bytes[i] == data_byte(data + i); i++)
			;
		if (i < at + n)
			test_fail(__FILE__, __LINE__,
				  "byte %" PRIu64 " of %s is %u, and in its file %u", i, name,
				  bytes[i], data_byte(data + i));
		CHECK_OK(hm_map_end_cpu(map, place.offset + at, n, HM_READ));
		if (i < at + n)
			break;
	}
}

void load_check_file(struct hm_load *load, const uint64_t *bytes, unsigned int n)
{
	uint64_t begin = 0;
	char name[16];
	unsigned int i;

	for (i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "t%u", i);
		load_check_tensor(load, name, begin);
		begin += bytes[i];
	}
}
