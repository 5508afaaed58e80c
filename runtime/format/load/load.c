// SPDX-License-Identifier: MIT
/* Load: pieces of files in a buffer of a device; made, queried, dropped. */
#include "api/api.h"
#include "format/load/load.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "core/core.h"
#include "format/text/shown.h"
#include "map/map.h"
#include "reader/facts.h"

#define LOAD_DESC_LEAST sizeof(struct hm_load_desc)
#define LOAD_INFO_LEAST sizeof(struct hm_load_info)
#define LOAD_PLACE_LEAST sizeof(struct hm_load_place)

static void destroy(struct hm_load *load)
{
	hm_map_unref(load->map);
	hm_pieces_unref(load->pieces);
	free(load->place);
	free(load->order);
	load->object.kind = OBJECT_FREED;
	free(load);
}

/* ---- create ---- */

static int read_desc(const struct hm_load_desc *from, struct hm_load_desc *ret_desc)
{
	int r;

	*ret_desc = (struct hm_load_desc){ .struct_size = sizeof(*ret_desc) };
	if (!from)
		return 0;
	r = struct_read(ret_desc, sizeof(*ret_desc), from, from->struct_size, LOAD_DESC_LEAST,
			"hm_load_desc");
	if (r)
		return r;
	if (ret_desc->flags || ret_desc->reserved)
		return err_set(-EINVAL, "hm_load_create: flags 0x%x and reserved %u must be 0",
			       ret_desc->flags, ret_desc->reserved);
	if (ret_desc->n_pieces && !ret_desc->pieces)
		return err_set(-EINVAL,
			       "hm_load_create: n_pieces is %" PRIu64 ", and pieces is NULL",
			       ret_desc->n_pieces);
	return 0;
}

/*
 * Refuses a buffer in ordinary pages of this machine that is larger than the memory of the process:
 * the kernel would end the process at the first touch that exceeds it. Devices with memory of their
 * own refuse by themselves.
 */
static int check_memory(const struct hm_load *load)
{
	char need[16], have[16];
	uint64_t most;

	if (!(load->map->buffer->caps & HM_CAP_POPULATE))
		return 0;
	most = facts_ram_and_swap();
	if (load->info.buffer <= most)
		return 0;
	return err_set(-ENOMEM,
		       "%u %ss take %s of this machine's memory, and the process may have %s, "
		       "swap included: raise memory.max of its control group if that is the "
		       "limit, or load fewer",
		       load->n, load->pieces->word,
		       format_bytes(load->info.buffer, need, sizeof(need)),
		       format_bytes(most, have, sizeof(have)));
}

/* Makes one buffer for all pieces, named after the first file. */
static int make_room(struct hm_load *load, struct hm_device *device)
{
	const char *path = load->pieces->path, *slash = strrchr(path, '/');
	const struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.size = load->info.buffer,
		.name = slash ? slash + 1 : path,
	};
	struct hm_buffer *buffer;
	char text[16];
	int r;

	r = buffer_create(device, &desc, &buffer);
	if (r)
		return err_prefix(r, "%u %ss, a buffer of %s", load->n, load->pieces->word,
				  format_bytes(load->info.buffer, text, sizeof(text)));
	r = map_create(buffer, NULL, &load->map);
	/* The map holds it from here on. */
	hm_buffer_unref(buffer);
	return r;
}

int hm_load_create(struct hm_device *device, struct hm_pieces *pieces,
		   const struct hm_load_desc *from, struct hm_load **ret_load)
{
	struct hm_load_desc desc;
	struct hm_load *load;
	int r;

	err_begin();
	if (!ret_load)
		return err_set(-EINVAL, "hm_load_create: ret_load is NULL");
	r = object_check(device ? &device->object : NULL, OBJECT_DEVICE);
	if (!r)
		r = object_check(pieces ? &pieces->object : NULL, OBJECT_PIECES);
	if (!r)
		r = read_desc(from, &desc);
	if (r)
		return r;
	load = sys_calloc(1, sizeof(*load));
	if (!load)
		return err_set(-ENOMEM, "no memory for a load");
	object_init(&load->object, OBJECT_LOAD);
	load->pieces = hm_pieces_ref(pieces);
	r = load_plan(load, &desc);
	if (!r)
		r = make_room(load, device);
	if (!r)
		r = check_memory(load);
	if (!r)
		r = load_run(load, &desc);
	if (r) {
		destroy(load);
		return r;
	}
	*ret_load = load;
	return 0;
}

struct hm_load *hm_load_ref(struct hm_load *load)
{
	if (load)
		object_ref(&load->object);
	return load;
}

void hm_load_unref(struct hm_load *load)
{
	if (!load || !object_put(&load->object))
		return;
	err_hold();
	destroy(load);
	err_release();
}

/* ---- results ---- */

int hm_load_query(struct hm_load *load, struct hm_load_info *ret_info)
{
	struct hm_load_info info;
	int r;

	err_begin();
	if (!ret_info)
		return err_set(-EINVAL, "hm_load_query: ret_info is NULL");
	r = object_check(load ? &load->object : NULL, OBJECT_LOAD);
	if (!r)
		r = struct_check_out(ret_info->struct_size, sizeof(info), LOAD_INFO_LEAST,
				     "hm_load_info");
	if (r)
		return r;
	info = load->info;
	info.map = load->map;
	struct_write(ret_info, &info, ret_info->struct_size);
	return 0;
}

static int check(const struct hm_load *load, const struct hm_load_place *place,
		 const char *what)
{
	int r;

	if (!place)
		return err_set(-EINVAL, "%s: ret_place is NULL", what);
	r = object_check(load ? &load->object : NULL, OBJECT_LOAD);
	return r ? r :
		   struct_check_out(place->struct_size, sizeof(*place), LOAD_PLACE_LEAST,
				    "hm_load_place");
}

static int tell_place(const struct hm_load *load, uint64_t index,
		      struct hm_load_place *ret_place)
{
	const struct piece *piece = &load->pieces->piece[index];
	char shown[SHOWN_MAX];

	if (load->place[index] == LOAD_NOWHERE)
		return err_set(-ENOENT, "%s %s was not among the %u that were loaded",
			       load->pieces->word, name_shown(piece->name, shown), load->n);
	struct_write(ret_place,
		     &(struct hm_load_place){
			     .address = load->map->address + load->place[index],
			     .offset = load->place[index],
			     .bytes = piece->bytes,
		     },
		     ret_place->struct_size);
	return 0;
}

int hm_load_piece(struct hm_load *load, uint64_t index, struct hm_load_place *ret_place)
{
	int r;

	err_begin();
	r = check(load, ret_place, "hm_load_piece");
	if (r)
		return r;
	if (index >= load->pieces->n_piece)
		return err_set(-ERANGE, "there is no %s %" PRIu64 ": there are %u",
			       load->pieces->word, index, load->pieces->n_piece);
	return tell_place(load, index, ret_place);
}

int hm_load_find(struct hm_load *load, const char *name, struct hm_load_place *ret_place)
{
	uint64_t index;
	int r;

	err_begin();
	r = check(load, ret_place, "hm_load_find");
	if (!r)
		r = pieces_find_name(load->pieces, name, &index);
	return r ? r : tell_place(load, index, ret_place);
}
