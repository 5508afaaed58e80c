// SPDX-License-Identifier: MIT
/*
 * A step of a load. Storage reads ahead the bytes to be copied; read(2) then puts them straight
 * into the device's memory, so that a fault on either side is an error and no signal.
 */
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

#include "api/api.h"
#include "map/announce.h"
#include "base/compat.h"
#include "format/load/load.h"
#include "map/map.h"
#include "base/reserve.h"
#include "map/remap.h"
#include "core/segments.h"
#include "base/sys.h"

/*
 * Bytes of the device's memory made present and read into at a time: caches hold them in
 * between.
 */
#define FILL MIB(1)
/*
 * Tries to bring back bytes that other users push out of the CPU's reach, and to ask again where
 * they leave no room: with longer and longer pauses between, 0.5 s in all.
 */
#define TRIES 10

/* The pages of a file that hold a step. */
struct pages {
	struct hm_map *map; /* of the whole file */
	uint64_t begin, length;
};

static struct pages pages_of(const struct hm_load *load, const struct load_step *step)
{
	uint64_t page = page_size(), begin = round_down(step->offset, page);

	return (struct pages){
		.map = load->pieces->file[step->file].map,
		.begin = begin,
		.length = round_up(step->offset + step->bytes, page) - begin,
	};
}

uint64_t load_vector(const struct hm_load *load)
{
	return load->info.step / page_size() + 2;
}

uint64_t load_announce(const struct hm_load *load, struct load_step *step,
		       unsigned char *vector)
{
	struct pages pages = pages_of(load, step);
	uint64_t n = 0, all = pages.length / page_size(), i;
	char *address = pages.map->address + pages.begin;

	if (!step->bytes)
		return 0;
	if (!sys_mincore(address, pages.length, vector))
		for (i = 0; i < all; i++)
			n += vector[i] & 1;
	step->resident = n == all;
	/*
	 * Announces in any case: for a foreign user's file mincore() reports everything
	 * resident. Only advice: if it fails, bytes come when they are waited for.
	 */
	announce_pages(pages.map->buffer, address, pages.length);
	return step->resident ? step->bytes : n * step->bytes / all;
}

/* Uses a mapping of its own, so that its page tables go with it. */
void load_fetch(const struct hm_load *load, const struct load_step *step)
{
	struct pages pages = pages_of(load, step);
	struct reservation reservation;
	struct segment_list *list;
	char *address;

	if (!step->bytes || step->resident)
		return;
	list = segments_get(pages.map->buffer);
	if (!map_scratch(list->segment, list->n, pages.begin, pages.length, page_size(),
			 PROT_READ, &reservation, &address)) {
		sys_madvise(address, pages.length, MADV_POPULATE_READ);
		reserve_release(&reservation);
	}
	segments_put(pages.map->buffer, list);
}

/* ---- into the device's memory ---- */

/* Making pages present by one call costs less than as many faults. */
static void make_present(struct hm_map *map, uint64_t place, uint64_t length)
{
	uint64_t page = map->buffer->page_size, begin = round_down(place, page);

	if (length >= page && (map->buffer->caps & HM_CAP_POPULATE))
		sys_madvise(map->address + begin, round_up(place + length, page) - begin,
			    MADV_POPULATE_WRITE);
}

static int fill(struct hm_map *file, uint64_t offset, struct hm_map *map, uint64_t place,
		uint64_t length)
{
	uint64_t n;
	int r = 0;

	for (; length && !r; length -= n, offset += n, place += n) {
		n = min_u64(length, FILL);
		make_present(map, place, n);
		r = pieces_pread(file->buffer, map->address + place, n, offset);
	}
	return r;
}

/* Explains why read(2) could not write there. */
static int explain_fault(struct hm_map *map, uint64_t place, uint64_t length)
{
	struct hm_device_info info = { .struct_size = sizeof(info) };
	int r = device_query(map->buffer->device, &info);

	if (r)
		return r;
	if (atomic_load(&map->lost))
		return err_set(-ENODEV, "%s: the map is lost", map->buffer->name);
	return err_set(-EIO,
		       "%" PRIu64 " bytes at %" PRIu64
		       " of the buffer %s can't be written: CPUs don't reach them",
		       length, place, map->buffer->name);
}

static int fill_bracketed(struct hm_map *file, uint64_t offset, struct hm_map *map,
			  uint64_t place, uint64_t length)
{
	int r, end;

	r = map_begin_cpu(map, place, length, HM_WRITE);
	if (r)
		return r;
	r = fill(file, offset, map, place, length);
	if (!r)
		return map_end_cpu(map, place, length, HM_WRITE);
	err_hold();
	end = map_end_cpu(map, place, length, HM_WRITE);
	err_release();
	return end == -ENODEV ? remap_refuse_lost(map) : r;
}

/* Did other users take the room within the CPU's reach, which they will leave again? */
static bool is_crowded(int r, struct hm_map *map)
{
	return (r == -EFAULT || r == -ENOSPC) && (map->buffer->caps & HM_CAP_BRACKET) &&
	       !atomic_load(&map->lost);
}

/* Copies bytes of one piece. */
static int copy_part(struct hm_map *file, uint64_t offset, struct hm_map *map, uint64_t place,
		     uint64_t length)
{
	struct timespec pause = { .tv_nsec = 1000000 };
	unsigned int tries;
	int r;

	for (tries = 1;; tries++) {
		r = fill_bracketed(file, offset, map, place, length);
		if (!is_crowded(r, map) || tries == TRIES)
			break;
		nanosleep(&pause, NULL);
		pause.tv_nsec *= 2;
	}
	return r == -EFAULT ? explain_fault(map, place, length) : r;
}

int load_copy(const struct hm_load *load, const struct load_step *step)
{
	const struct piece_file *file = &load->pieces->file[step->file];
	uint64_t from = step->from, left = step->bytes, n;
	uint32_t position;
	int r;

	for (position = step->first; left; position++, from = 0) {
		const struct piece *piece = load_at(load, position);

		n = min_u64(piece->bytes - from, left);
		if (!n)
			continue;
		r = copy_part(file->map, piece->offset + from, load->map,
			      load->place[load->order[position]] + from, n);
		if (r)
			return r == -ENODATA || r == -EIO ? err_prefix(r, "%s", file->path) : r;
		left -= n;
	}
	return 0;
}

int load_check(const struct hm_load *load, uint32_t generation)
{
	struct hm_device_info info = { .struct_size = sizeof(info) };
	int r;

	/* Asks, since a device reports its end only when asked. */
	r = device_query(load->map->buffer->device, &info);
	if (r)
		return r;
	if (atomic_load(&load->map->lost) || atomic_load(&load->map->generation) != generation)
		return err_set(-ENODEV, "%s: its bytes were lost while the pieces were loaded",
			       load->map->buffer->name);
	return 0;
}
