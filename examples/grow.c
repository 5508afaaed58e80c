// SPDX-License-Identifier: MIT
/*
 * An allocation grows sixteen times while a pointer into it stays good, in host memory or that of
 * the device which HETMAP_DEVICE names.
 */
#include <err.h>
#include <errno.h>
#include <hetmap/hetmap.h>
#include <stdio.h>

int main(void)
{
	const uint64_t step = 4 << 20;
	struct hm_device *device;
	char *bytes, *middle, *moved;
	uint64_t size;
	int r;

	if (hm_device_open(NULL, &device) || hm_alloc(device, step, HM_READ | HM_WRITE, &bytes))
		errx(1, "%s", hm_errmsg());
	hm_device_unref(device); /* the allocation keeps it */

	middle = bytes + step / 2;
	snprintf(middle, 32, "written at the start");
	for (size = 2 * step; size <= 16 * step; size += step) {
		if (hm_realloc(bytes, size, 0, NULL)) /* 0: it must not move */
			errx(1, "%s", hm_errmsg());
		bytes[size - 1] = 1;
	}
	printf("%d MiB, and %p still says: %s\n", (int)((size - step) >> 20), (void *)middle,
	       middle);

	/* Past what hm_alloc reserved, moving has to be allowed. */
	r = hm_realloc(bytes, 1ull << 30, 0, NULL);
	if (r != -ENOSPC)
		errx(1, "1 GiB without moving: %d", r);
	printf("refused: %s\n", hm_errmsg());
	if (hm_realloc(bytes, 1ull << 30, HM_MAY_MOVE, &moved))
		errx(1, "%s", hm_errmsg());
	printf("1 GiB at %p: %s\n", (void *)moved, moved + step / 2);
	return hm_free(moved) < 0;
}
