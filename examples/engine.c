// SPDX-License-Identifier: MIT
/*
 * Work for a device's own engine: no compiler, no driver, the CPU's pointers.
 *
 * engine [DEVICE]     (default: soft:0; in a machine with the module: sim:0)
 */
#include <err.h>
#include <hetmap/hetmap.h>
#include <inttypes.h>
#include <stdio.h>

enum { A, X, Y, CRC }; /* the arguments, as the steps name them */

/* y += a * x, and then the CRC-32 of y. */
static const struct hm_engine_step steps[] = {
	{ HM_ENGINE_AXPY, Y, X, HM_ENGINE_NONE, HM_ENGINE_NONE, A, 0 },
	{ HM_ENGINE_CRC32, CRC, Y, HM_ENGINE_NONE, HM_ENGINE_NONE, HM_ENGINE_NONE, 0 },
};

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "soft:0";
	const struct hm_kernel_desc desc = {
		.struct_size = sizeof(desc),
		.name = "axpy_crc",
		.signature = "u32 in inout out",
		.engine = steps,
		.n_engine = 2,
	};
	struct hm_fence_info info = { .struct_size = sizeof(info) };
	struct hm_device *device;
	struct hm_accel *accel;
	struct hm_queue *queue;
	struct hm_kernel *kernel;
	struct hm_fence *done;
	const int n = 1 << 20;
	uint32_t *x, *y, *crc;

	if (hm_device_open(name, &device) || hm_accel_open(name, NULL, &accel) ||
	    hm_queue_create(accel, 0, &queue) || hm_kernel_create(&desc, &kernel) ||
	    hm_alloc(device, n * sizeof(*x), HM_READ | HM_WRITE, &x) ||
	    hm_alloc(device, n * sizeof(*y), HM_READ | HM_WRITE, &y) ||
	    hm_alloc(device, sizeof(*crc), HM_READ | HM_WRITE, &crc))
		errx(1, "%s", hm_errmsg());
	for (int i = 0; i < n; i++)
		x[i] = (uint32_t)i, y[i] = 1;

	/* The grid does not matter to an engine: its commands have lengths. */
	if (hm_launch(queue, kernel, 1, &done, HM_U32(2), HM_IN(x), HM_INOUT(y), HM_OUT(crc)) ||
	    hm_fence_wait(done, UINT64_MAX) || hm_fence_query(done, &info))
		errx(1, "%s", hm_errmsg());
	printf("%s: 2 * %" PRIu32 " + 1 = %" PRIu32 ", CRC-32 %08" PRIx32 ", %" PRIu64
	       " bytes copied\n",
	       name, x[1000], y[1000], *crc, info.bytes_copied);

	hm_free(x), hm_free(y), hm_free(crc);
	hm_fence_unref(done), hm_kernel_unref(kernel), hm_queue_unref(queue);
	hm_accel_unref(accel), hm_device_unref(device);
	return 0;
}
