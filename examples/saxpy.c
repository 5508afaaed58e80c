// SPDX-License-Identifier: MIT
/*
 * y = a * x + y on the best accelerator there is, through plain pointers, in host memory or
 * that of the device which HETMAP_DEVICE names.
 */
#include <err.h>
#include <hetmap/hetmap.h>
#include <stdio.h>

int main(void)
{
	const struct hm_kernel_desc desc = {
		.struct_size = sizeof(desc),
		.name = "saxpy",
		.opencl = "kernel void saxpy(float a, global float *x, global float *y)"
			  "{ size_t i = get_global_id(0); y[i] += a * x[i]; }",
	};
	struct hm_device *device;
	struct hm_accel *accel;
	struct hm_queue *queue;
	struct hm_kernel *saxpy;
	struct hm_fence *done;
	const int n = 1 << 20;
	float *x, *y;

	if (hm_device_open(NULL, &device) || hm_accel_open(NULL, NULL, &accel) ||
	    hm_queue_create(accel, 0, &queue) || hm_kernel_create(&desc, &saxpy) ||
	    hm_alloc(device, n * sizeof(*x), HM_READ | HM_WRITE, &x) ||
	    hm_alloc(device, n * sizeof(*y), HM_READ | HM_WRITE, &y))
		errx(1, "%s", hm_errmsg());
	for (int i = 0; i < n; i++)
		x[i] = i, y[i] = 1;
	if (hm_launch(queue, saxpy, n, &done, HM_F32(2), HM_IN(x), HM_INOUT(y)) ||
	    hm_fence_wait(done, UINT64_MAX))
		errx(1, "%s", hm_errmsg());
	printf("2 * %g + 1 = %g\n", x[1000], y[1000]);

	hm_free(x), hm_free(y); /* these in any order */
	hm_fence_unref(done), hm_kernel_unref(saxpy);
	hm_queue_unref(queue), hm_accel_unref(accel), hm_device_unref(device);
	return 0;
}
