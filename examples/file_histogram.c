// SPDX-License-Identifier: MIT
/*
 * Counts the byte values of a file on an accelerator: the kernel reads the
 * mapped file itself, and the CPU reads the counts where the kernel wrote them.
 *
 * file_histogram [FILE]     (default: this program)
 */
#include <err.h>
#include <hetmap/hetmap.h>
#include <inttypes.h>
#include <stdio.h>

static int count_cpu(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	const unsigned char *bytes = args[0].pointer;
	uint32_t *counts = (uint32_t *)args[1].pointer, mine[256] = { 0 };

	for (uint64_t i = range->begin[0]; i < range->end[0]; i++)
		mine[bytes[i]]++;
	for (int value = 0; value < 256; value++)
		__atomic_fetch_add(&counts[value], mine[value], __ATOMIC_RELAXED);
	return 0;
}

static const struct hm_kernel_desc count_desc = {
	.struct_size = sizeof(count_desc),
	.name = "count",
	.signature = "in inout",
	.opencl = "kernel void count(global const uchar *bytes, global uint *counts)"
		  "{ atomic_inc(&counts[bytes[get_global_id(0)]]); }",
	.cpu = count_cpu,
};

int main(int argc, char **argv)
{
	const char *path = argc > 1 ? argv[1] : "/proc/self/exe";
	const struct hm_buffer_desc read_only = {
		.struct_size = sizeof(read_only),
		.flags = HM_BUFFER_READ_ONLY,
	};
	struct hm_fence_info info = { .struct_size = sizeof(info) };
	struct hm_device *files, *host;
	struct hm_buffer *buffer;
	struct hm_map *map;
	struct hm_accel *accel;
	struct hm_queue *queue;
	struct hm_kernel *count;
	struct hm_fence *done;
	uint32_t *counts;
	int most = 0;

	if (hm_device_open("file", &files) || hm_device_open("host", &host) ||
	    hm_buffer_from_file(files, path, -1, &read_only, &buffer) ||
	    hm_map_create(buffer, NULL, &map) ||
	    hm_alloc(host, 256 * sizeof(*counts), HM_READ | HM_WRITE, &counts) ||
	    hm_accel_open(NULL, NULL, &accel) || hm_queue_create(accel, 0, &queue) ||
	    hm_kernel_create(&count_desc, &count))
		errx(1, "%s", hm_errmsg());
	/* The map keeps its buffer, and a buffer its device. */
	hm_buffer_unref(buffer);
	hm_device_unref(files);
	hm_device_unref(host);

	if (hm_launch(queue, count, hm_map_length(map), &done, HM_IN(hm_map_address(map)),
		      HM_INOUT(counts)) ||
	    hm_fence_wait(done, UINT64_MAX) || hm_fence_query(done, &info))
		errx(1, "%s", hm_errmsg());

	for (int value = 0; value < 256; value++)
		if (counts[value] > counts[most])
			most = value;
	printf("%" PRIu64 " bytes, most often 0x%02x (%" PRIu32 " times), %" PRIu64
	       " bytes copied\n",
	       hm_map_length(map), most, counts[most], info.bytes_copied);

	hm_fence_unref(done);
	hm_kernel_unref(count);
	hm_queue_unref(queue);
	hm_accel_unref(accel);
	hm_map_unref(map);
	hm_free(counts);
	return 0;
}
