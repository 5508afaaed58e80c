// SPDX-License-Identifier: MIT
/* The accelerator "opencl:N": listing, opening, query, and its table. */
#include "accel/opencl/opencl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/sys.h"

static uint32_t possible_ways(const struct opencl_device *device, uint32_t flags)
{
	uint32_t ways = 1u << HM_WAY_COPY;

	if (flags & HM_ACCEL_FORCE_COPY)
		return ways;
	if (flags & HM_ZERO_COPY_ONLY)
		ways = 0;
	if (device->svm & CL_DEVICE_SVM_FINE_GRAIN_SYSTEM)
		ways |= 1u << HM_WAY_SVM;
	if (device->arm_import)
		ways |= 1u << HM_WAY_IMPORT;
	return ways | 1u << HM_WAY_HOST_PTR;
}

/*
 * Does a kernel take any pointer of the process? Where the driver says so, or where a quirk of it
 * is known: interior pointers of maps go by that quirk, too.
 */
static bool takes_any(const struct opencl_device *device, uint32_t flags, bool with_quirks)
{
	return !(flags & HM_ACCEL_FORCE_COPY) &&
	       (device->svm & CL_DEVICE_SVM_FINE_GRAIN_SYSTEM ||
		(with_quirks && device->quirk));
}

static void describe(const struct opencl_device *device, uint32_t index, uint32_t flags,
		     bool with_quirks, uint64_t window, struct hm_accel_info *info)
{
	info->kind = device->type & CL_DEVICE_TYPE_CPU ? HM_ACCEL_CPU :
		     device->type & CL_DEVICE_TYPE_GPU ? HM_ACCEL_GPU :
							 HM_ACCEL_OTHER;
	snprintf(info->name, sizeof(info->name), "opencl:%u", index);
	snprintf(info->description, sizeof(info->description), "%.60s, %s %s", device->name,
		 device->platform_name, device->driver_version);
	memcpy(info->driver, device->platform_name, sizeof(info->driver));
	memcpy(info->driver_version, device->driver_version, sizeof(info->driver_version));
	if (with_quirks && device->quirk)
		snprintf(info->quirks, sizeof(info->quirks), "%s", device->quirk->name);
	info->window = window;
	info->memory = device->memory;
	info->alignment = info->quirks[0] || (device->svm & CL_DEVICE_SVM_FINE_GRAIN_SYSTEM) ?
				  1 :
				  device->alignment;
	info->units = device->units;
	info->ways = possible_ways(device, flags);
	if (takes_any(device, flags, with_quirks))
		info->caps |= HM_ACCEL_ANY_POINTER;
}

static int opencl_list(uint32_t index, struct hm_accel_info *info)
{
	const struct opencl_device *device = opencl_device_at(index);

	if (!device)
		return -ENODEV;
	describe(device, index, 0, opencl_quirks_allowed(0), device->window, info);
	return 0;
}

static int opencl_query(void *accel, struct hm_accel_info *info)
{
	const struct opencl *cl = accel;

	describe(cl->device, cl->index, cl->flags, cl->quirks, cl->window, info);
	return 0;
}

/* "" is the best one; otherwise a decimal number with nothing behind it. */
static int parse_index(const char *rest, uint32_t *ret_index)
{
	unsigned long value = 0;
	char *end;

	if (rest[0]) {
		value = strtoul(rest, &end, 10);
		if (rest[0] < '0' || rest[0] > '9' || *end || value > UINT32_MAX)
			return -ENODEV;
	}
	*ret_index = (uint32_t)value;
	return 0;
}

static int choose_window(const struct opencl_device *device, uint64_t wish,
			 uint64_t *ret_window)
{
	uint64_t window = device->window;

	if (wish && wish < window)
		window = round_down(wish, wish >= MIB(2) ? MIB(2) : page_size());
	if (!window)
		return err_set(-EINVAL,
			       "hm_accel_open: a window of %llu bytes is less than a page",
			       (unsigned long long)wish);
	*ret_window = window;
	return 0;
}

static int opencl_open(const char *rest, const struct hm_accel_desc *desc, void **ret_accel)
{
	struct opencl_device *device;
	struct opencl_watch watch;
	struct opencl *cl;
	uint32_t index;
	cl_int error;
	int r;

	r = parse_index(rest, &index);
	if (!r)
		r = opencl_check_environment();
	if (r)
		return r;
	if (env_is_foreign())
		return err_set(
			-EACCES,
			"opencl:%u: OpenCL loads the libraries that the environment names, "
			"and this program has more rights than its caller (set-user-ID): "
			"use the accelerator cpu, or drop the extra rights and execute again",
			index);
	device = opencl_device_at(index);
	if (!device)
		return -ENODEV;
	cl = sys_calloc(1, sizeof(*cl));
	if (!cl)
		return err_set(-ENOMEM, "no memory for the accelerator opencl:%u", index);
	cl->device = device;
	cl->index = index;
	cl->flags = desc->flags;
	cl->quirks = opencl_quirks_allowed(desc->flags);
	r = choose_window(device, desc->window, &cl->window);
	if (r)
		goto err_free;
	opencl_watch_begin(&watch);
	cl->context = clCreateContext(NULL, 1, &device->id, NULL, NULL, &error);
	opencl_watch_device(&watch, device);
	if (error) {
		r = cl_error(error, "opencl:%u: clCreateContext", index);
		/* The device exists: its driver failed. */
		r = r == -ENODEV ? -EIO : r;
		goto err_free;
	}
	if (device->arm_import)
		cl->import = (import_function)clGetExtensionFunctionAddressForPlatform(
			device->platform, "clImportMemoryARM");
	*ret_accel = cl;
	return 0;

err_free:
	free(cl);
	return r;
}

static void opencl_close(void *accel)
{
	struct opencl *cl = accel;

	clReleaseContext(cl->context);
	free(cl);
}

/* The pointer as it is: range->memory stays NULL. */
static int opencl_any_acquire(void *accel, struct hm_accel_range *range)
{
	(void)accel;
	range->way = HM_WAY_SVM;
	return 0;
}

const struct hm_accel_ops opencl_accel = {
	.size = sizeof(opencl_accel),
	.name = "opencl",
	.form = "opencl",
	.list = opencl_list,
	.open = opencl_open,
	.close = opencl_close,
	.query = opencl_query,
	.kernel_build = opencl_kernel_build,
	.kernel_free = opencl_kernel_free,
	.queue_create = opencl_queue_create,
	.queue_destroy = opencl_queue_destroy,
	.submit = opencl_submit,
	.wait = opencl_wait,
	.notify = opencl_notify,
	.work_release = opencl_work_release,
	.view_create = opencl_view_create,
	.view_destroy = opencl_view_destroy,
	.view_acquire = opencl_view_acquire,
	.view_release = opencl_view_release,
	.any_acquire = opencl_any_acquire,
};
