// SPDX-License-Identifier: MIT
/* Retires the old address range of a map that moves, as a map is retired. */
#include "map/vacate.h"

#include <stdlib.h>

#include "core/buffer.h"
#include "base/reserve.h"
#include "core/segments.h"
#include "base/sys.h"

int vacate_prepare(struct hm_map *map, struct vacated **ret_vacated)
{
	struct hm_buffer *buffer = map->buffer;
	struct vacated *vacated = sys_calloc(1, sizeof(*vacated));

	if (!vacated)
		return err_set(-ENOMEM, "%s: no memory to note the bytes that its map leaves",
			       buffer->name);
	vacated->buffer = hm_buffer_ref(buffer);
	vacated->segments = segments_get(buffer);
	vacated->range = map->reservation;
	vacated->bytes = buffer_pages(buffer, map->length);
	*ret_vacated = vacated;
	return 0;
}

void vacate_abandon(struct vacated *vacated)
{
	if (!vacated)
		return;
	segments_put(vacated->buffer, vacated->segments);
	hm_buffer_unref(vacated->buffer);
	free(vacated);
}

static void dispose(struct retired *retired)
{
	struct vacated *vacated = caa_container_of(retired, struct vacated, retired);
	struct hm_buffer *buffer = vacated->buffer;

	reserve_release(&vacated->range);
	segments_put(buffer, vacated->segments);
	free(vacated);
	buffer_unref_retired(buffer);
}

void vacate(struct vacated *vacated)
{
	if (vacated)
		retire(&vacated->retired, vacated->bytes, false, dispose);
}
