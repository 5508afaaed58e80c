// SPDX-License-Identifier: MIT
/*
 * A user of memory that remembers addresses (a network card's registration,
 * io_uring's buffers) is told before a map moves, and may refuse.
 */
#include <err.h>
#include <errno.h>
#include <hetmap/hetmap.h>
#include <stdbool.h>
#include <stdio.h>

struct transfer {
	bool running;
	void *address; /* registered with the card, say */
};

static int quiesce(void *user, const struct hm_view_change *change)
{
	struct transfer *transfer = user;

	(void)change;
	return transfer->running ? -EBUSY : 0;
}

static void invalidate(void *user, const struct hm_view_change *change)
{
	struct transfer *transfer = user;

	(void)change;
	transfer->address = NULL; /* unregister */
}

static void reattach(void *user, const struct hm_view_change *change)
{
	struct transfer *transfer = user;

	transfer->address = change->new_address; /* register again */
}

static const struct hm_view_ops ops = {
	.struct_size = sizeof(ops),
	.quiesce = quiesce,
	.invalidate = invalidate,
	.reattach = reattach,
};

int main(void)
{
	const struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.size = 1 << 20,
		.name = "frames",
	};
	struct transfer transfer = { .running = true };
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_view *view;
	struct hm_map *map;
	int r;

	if (hm_device_open("host", &device) || hm_buffer_create(device, &desc, &buffer) ||
	    hm_map_create(buffer, NULL, &map) ||
	    hm_view_create(map, 0, 0, &ops, &transfer, &view))
		errx(1, "%s", hm_errmsg());
	transfer.address = hm_map_address(map);

	r = hm_buffer_resize(buffer, 64 << 20, HM_MAY_MOVE);
	if (r != -EBUSY)
		errx(1, "the view did not refuse: %d", r);
	printf("refused: %s\n", hm_errmsg());

	transfer.running = false;
	if (hm_buffer_resize(buffer, 64 << 20, HM_MAY_MOVE))
		errx(1, "%s", hm_errmsg());
	if (transfer.address != hm_map_address(map))
		errx(1, "the view was not told where the map is now");
	printf("grown to %d MiB, and the view knows where it is\n",
	       (int)(hm_map_length(map) >> 20));

	hm_view_unref(view);
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	hm_device_unref(device);
	return 0;
}
