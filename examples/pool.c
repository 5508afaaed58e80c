// SPDX-License-Identifier: MIT
/*
 * A thousand small vectors in one block of a pool, in host memory or that of the device which
 * HETMAP_DEVICE names.
 */
#include <err.h>
#include <hetmap/hetmap.h>
#include <stdio.h>

int main(void)
{
	static float *vectors[1000];
	struct hm_pool_desc desc = {
		.struct_size = sizeof(desc),
		.name = "vectors",
		.limit = 256 << 20,
	};
	struct hm_pool_info info = { .struct_size = sizeof(info) };
	struct hm_pointer_info at;
	struct hm_device *device;
	struct hm_pool *pool;
	int i;

	if (hm_device_open(NULL, &device) || hm_pool_create(device, &desc, &pool))
		errx(1, "%s", hm_errmsg());
	hm_device_unref(device); /* the pool keeps it */
	for (i = 0; i < 1000; i++)
		if (hm_pool_alloc(pool, 300 * sizeof(float), 0, &vectors[i]))
			errx(1, "%s", hm_errmsg());

	/* A launch with HM_INOUT(&vectors[7][100]) would get the vector, and no more. */
	if (hm_pointer_find(&vectors[7][100], &at) || at.base != vectors[7])
		errx(1, "the vector is not found");
	if (hm_pool_query(pool, &info))
		errx(1, "%s", hm_errmsg());
	printf("%d vectors of %d bytes in %d blocks\n", (int)info.allocations, (int)at.length,
	       (int)info.blocks);
	for (i = 0; i < 1000; i++)
		if (hm_pool_free(pool, vectors[i]))
			errx(1, "%s", hm_errmsg());
	hm_pool_unref(pool);
	return 0;
}
