// SPDX-License-Identifier: MIT
/*
 * Makes each event of a probe a known number of times, by the public interface alone, for
 * bpftrace to count in tests/tell/test_probes.sh. On "soft:0", with test=1.
 */
#include <stdio.h>

#include <hetmap/hetmap.h>
#include <hetmap/sim.h>
#include <uapi/hetsim.h>

#define PAGE 4096

#define DO(call)                                                         \
	do {                                                             \
		if ((call) < 0) {                                        \
			fprintf(stderr, "%s: %s\n", #call, hm_errmsg()); \
			return 1;                                        \
		}                                                        \
	} while (0)

static int make(struct hm_device *device, const char *name, struct hm_buffer **ret_buffer,
		struct hm_map **ret_map)
{
	const struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.size = 8 * PAGE,
		.max_size = 16 * PAGE,
		.name = name,
	};

	DO(hm_buffer_create(device, &desc, ret_buffer));
	DO(hm_map_create(*ret_buffer, NULL, ret_map));
	return 0;
}

/* Two resizes, of which the second moves; one lock; two changes of rights; two brackets. */
static int change(struct hm_buffer *buffer, struct hm_map *map)
{
	DO(hm_buffer_resize(buffer, 12 * PAGE, 0));
	DO(hm_buffer_resize(buffer, 32 * PAGE, HM_MAY_MOVE));
	DO(hm_map_lock(map, 0, 2 * PAGE, 0, NULL));
	DO(hm_map_unlock(map, 0, 2 * PAGE));
	DO(hm_map_protect(map, PAGE, PAGE, HM_READ));
	DO(hm_map_protect(map, PAGE, PAGE, HM_READ | HM_WRITE));
	DO(hm_map_begin_cpu(map, 0, PAGE, HM_READ));
	DO(hm_map_begin_cpu(map, PAGE, PAGE, HM_READ | HM_WRITE));
	DO(hm_map_end_cpu(map, PAGE, PAGE, HM_READ | HM_WRITE));
	DO(hm_map_end_cpu(map, 0, PAGE, HM_READ));
	return 0;
}

/* One fill. */
static int work(struct hm_map *map)
{
	struct hm_accel *accel;
	struct hm_queue *queue;
	struct hm_fence *fence;

	DO(hm_accel_open("soft:0", NULL, &accel));
	DO(hm_queue_create(accel, 0, &queue));
	DO(hm_queue_fill(queue, hm_map_address(map), 7, PAGE, &fence));
	DO(hm_fence_wait(fence, UINT64_MAX));
	hm_fence_unref(fence);
	hm_queue_unref(queue);
	hm_accel_unref(accel);
	return 0;
}

/* Taken away, and back. */
static int lose(struct hm_device *device, struct hm_buffer *buffer)
{
	const struct hm_loss_desc policy = {
		.struct_size = sizeof(policy),
		.policy = HM_LOSS_RECREATE,
	};
	struct hetsim_inject unplug = {
		.size = sizeof(unplug),
		.kind = HETSIM_INJECT_UNPLUG,
	};

	DO(hm_buffer_set_loss(buffer, &policy));
	DO(hm_sim_call(device, HETSIM_INJECT, &unplug));
	DO(hm_sim_plug("soft:0"));
	DO(hm_device_recover(device, 0, NULL));
	return 0;
}

/* With an argument it first waits for a line: bpftrace is attached then. */
int main(int argc, char **argv)
{
	struct hm_device *device, *host;
	struct hm_buffer *buffer, *model;
	struct hm_map *map, *weights;

	if (argc > 1 && getchar() == EOF) {
		fprintf(stderr, "%s: nothing to read\n", argv[0]);
		return 1;
	}
	DO(hm_device_open("soft:0", &device));
	DO(hm_device_open("host", &host));
	if (make(device, "frames", &buffer, &map) || make(host, "weights", &model, &weights) ||
	    change(model, weights) || work(map) || lose(device, buffer))
		return 1;
	hm_map_unref(weights);
	hm_map_unref(map);
	hm_buffer_unref(model);
	hm_buffer_unref(buffer);
	hm_device_unref(host);
	hm_device_unref(device);
	return 0;
}
