// SPDX-License-Identifier: MIT
/* Callbacks of devices that go and come back, beside other threads that do both. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <hetmap/hetmap.h>

#include "lib/sim_devices.h"
#include "base/util.h"

#define SIZE (40 * PAGE + 100)

/* While another thread recovers it, which waits for the callback. */
struct meeting {
	struct hm_device *device;
	_Atomic bool told, recovering;
	char calls[8];
};

static int meet_refill(struct hm_buffer *buffer, void *bytes, uint64_t offset, uint64_t length,
		       void *user)
{
	struct meeting *meeting = user;

	(void)buffer, (void)bytes, (void)offset, (void)length;
	meeting->recovering = true;
	return 0;
}

static void meet_lost(struct hm_buffer *buffer, enum hm_loss_event event, void *user)
{
	struct meeting *meeting = user;

	(void)buffer;
	strcat(meeting->calls, event == HM_LOSS_TAKEN     ? "t" :
			       event == HM_LOSS_RECOVERED ? "r" :
							    "l");
	if (event != HM_LOSS_TAKEN)
		return;
	meeting->told = true;
	while (!meeting->recovering)
		usleep(1000);
	CHECK_ERROR(-EBUSY, hm_device_recover(meeting->device, 0, NULL));
}

static void *meet_thread(void *user)
{
	struct meeting *meeting = user;

	if (!sim_unplug(meeting->device))
		meeting->told = meeting->recovering = true;
	return NULL;
}

static void test_beside_callback(void)
{
	struct meeting meeting = { .device = sim_open() };
	struct hm_loss_desc desc = {
		.struct_size = sizeof(desc),
		.policy = HM_LOSS_RECREATE,
		.user = &meeting,
	};
	AUTO(hm_buffer) *first = sim_make(meeting.device, SIZE, 0, NULL);
	AUTO(hm_buffer) *second = sim_make(meeting.device, SIZE, 0, NULL);
	pthread_t thread;

	/* Told, and recovered, in this order. */
	desc.refill = meet_refill;
	CHECK_OK_FATAL(hm_buffer_set_loss(first, &desc));
	desc.refill = NULL;
	desc.lost = meet_lost;
	CHECK_OK_FATAL(hm_buffer_set_loss(second, &desc));
	CHECK_FATAL(!pthread_create(&thread, NULL, meet_thread, &meeting));
	while (!meeting.told)
		usleep(1000);
	if (meeting.calls[0]) {
		sim_plug();
		CHECK_EQUAL(sim_recover(meeting.device, 0).buffers_back, 2);
		CHECK(!strcmp(meeting.calls, "tr"));
	}
	CHECK_FATAL(!pthread_join(thread, NULL));
	hm_device_unref(meeting.device);
}

/* ---- one event after the other ---- */

struct again {
	struct hm_device *device;
	_Atomic bool back, noticed;
	char calls[8];
};

/* Another thread takes the device away once more, and its call has returned before this one. */
static void lost_again(struct hm_buffer *buffer, enum hm_loss_event event, void *user)
{
	struct again *again = user;

	if (event == HM_LOSS_RECOVERED && !again->back) {
		again->back = true;
		while (!again->noticed)
			usleep(1000);
		CHECK(buffer_info(buffer).lost & HM_LOST_BYTES);
	}
	strcat(again->calls, event == HM_LOSS_TAKEN     ? "t" :
			     event == HM_LOSS_RECOVERED ? "r" :
							  "l");
}

static void *take_again(void *user)
{
	struct again *again = user;

	while (!again->back)
		usleep(1000);
	CHECK(sim_unplug(again->device));
	again->noticed = true;
	return NULL;
}

static void test_in_order(void)
{
	struct again again = { .device = sim_open() };
	AUTO(hm_buffer) *buffer = sim_make(again.device, SIZE, 0, NULL);
	pthread_t thread;

	CHECK_OK_FATAL(hm_buffer_set_loss(buffer, DESC(hm_loss_desc, .policy = HM_LOSS_RECREATE,
						       .lost = lost_again, .user = &again)));
	if (sim_unplug(again.device)) {
		sim_plug();
		CHECK_FATAL(!pthread_create(&thread, NULL, take_again, &again));
		CHECK_ERROR(-ENODEV, hm_device_recover(again.device, 0, NULL));
		CHECK_FATAL(!pthread_join(thread, NULL));
		CHECK(!strcmp(again.calls, "trt"));
		sim_plug();
		CHECK_EQUAL(sim_recover(again.device, 0).buffers_back, 1);
		CHECK(!strcmp(again.calls, "trtr"));
	}
	hm_device_unref(again.device);
}

struct during {
	struct hm_device *device;
	pthread_t teller;
	_Atomic uint32_t taken, running;
	_Atomic bool back, noticed;
};

/* The first one recovers, and is there still when another thread has found the next loss. */
static void lost_during(struct hm_buffer *buffer, enum hm_loss_event event, void *user)
{
	struct during *during = user;

	(void)buffer;
	if (event != HM_LOSS_TAKEN)
		return;
	CHECK_EQUAL(during->running++, 0);
	if (!during->taken++) {
		during->teller = pthread_self();
		sim_plug();
		CHECK_OK(hm_device_recover(during->device, 0, NULL));
		during->back = true;
		while (!during->noticed)
			usleep(1000);
		CHECK_EQUAL(during->taken, 1);
	} else {
		CHECK(pthread_equal(during->teller, pthread_self()));
	}
	during->running--;
}

static void *take_during(void *user)
{
	struct during *during = user;

	while (!during->back)
		usleep(1000);
	sim_unplug(during->device);
	during->noticed = true;
	return NULL;
}

/* One at a time, and none is forgotten, when it is a callback that brings the device back. */
static void test_during(void)
{
	struct during during = { .device = sim_open() };
	AUTO(hm_buffer) *buffer = sim_make(during.device, SIZE, 0, NULL);
	pthread_t thread;

	CHECK_OK_FATAL(hm_buffer_set_loss(buffer, DESC(hm_loss_desc, .policy = HM_LOSS_RECREATE,
						       .lost = lost_during, .user = &during)));
	CHECK_FATAL(!pthread_create(&thread, NULL, take_during, &during));
	if (sim_unplug(during.device))
		CHECK_EQUAL(during.taken, 2);
	else
		during.back = true;
	CHECK_FATAL(!pthread_join(thread, NULL));
	sim_plug();
	hm_device_unref(during.device);
}

struct slow {
	struct hm_device *device;
	_Atomic bool running, ended;
};

static void slow_lost(struct hm_buffer *buffer, enum hm_loss_event event, void *user)
{
	struct slow *slow = user;

	if (event != HM_LOSS_RECOVERED)
		return;
	/* Here it does not wait for itself. */
	CHECK_OK(hm_buffer_set_loss(buffer,
				    DESC(hm_loss_desc, .lost = slow_lost, .user = user)));
	slow->running = true;
	usleep(100000);
	slow->ended = true;
}

static void *bring_back(void *user)
{
	struct slow *slow = user;

	sim_plug();
	CHECK_OK(hm_device_recover(slow->device, 0, NULL));
	return NULL;
}

/* A program that has set another callback may free the last one's data. */
static void test_drained(void)
{
	struct slow slow = { .device = sim_open() };
	struct hm_loss_desc desc = {
		.struct_size = sizeof(desc),
		.policy = HM_LOSS_RECREATE,
		.lost = slow_lost,
		.user = &slow,
	};
	AUTO(hm_buffer) *buffer = sim_make(slow.device, SIZE, 0, NULL);
	pthread_t thread;

	CHECK_OK_FATAL(hm_buffer_set_loss(buffer, &desc));
	if (sim_unplug(slow.device)) {
		CHECK_FATAL(!pthread_create(&thread, NULL, bring_back, &slow));
		while (!slow.running)
			usleep(1000);
		desc.lost = NULL;
		desc.user = NULL;
		CHECK_OK(hm_buffer_set_loss(buffer, &desc));
		CHECK(slow.ended);
		CHECK_FATAL(!pthread_join(thread, NULL));
	}
	hm_device_unref(slow.device);
}

/* ---- each other's devices ---- */

#define OTHER "soft:1"

/* One of two devices that two threads recover at once. */
struct side {
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct side *other;
	pthread_barrier_t *barrier;
	uint32_t at; /* enum hm_loss_event; 0: the refill callback */
	uint32_t met;
};

/* Each has its own device's recovery, and asks for the other one's. */
static void meet_other(struct side *side)
{
	side->met++;
	pthread_barrier_wait(side->barrier);
	CHECK_ERROR(-EDEADLK, hm_device_recover(side->other->device, 0, NULL));
}

static void side_lost(struct hm_buffer *buffer, enum hm_loss_event event, void *user)
{
	struct side *side = user;

	(void)buffer;
	if (event == side->at)
		meet_other(side);
}

static int side_refill(struct hm_buffer *buffer, void *bytes, uint64_t offset, uint64_t length,
		       void *user)
{
	struct side *side = user;

	(void)buffer, (void)bytes, (void)offset, (void)length;
	if (!side->at)
		meet_other(side);
	return side->at == HM_LOSS_LEFT ? -EIO : 0;
}

static void *recover_side(void *user)
{
	struct side *side = user;

	CHECK_EQUAL(sim_recover(side->device, 0).buffers_left, side->at == HM_LOSS_LEFT);
	return NULL;
}

static void side_begin(struct side *side, struct hm_device *device)
{
	side->device = device;
	side->buffer = sim_make(device, SIZE, 0, NULL);
	CHECK_OK_FATAL(hm_buffer_set_loss(
		side->buffer, DESC(hm_loss_desc, .policy = HM_LOSS_RECREATE, .lost = side_lost,
				   .refill = side_refill, .user = side)));
}

static void side_end(struct side *side)
{
	hm_buffer_unref(side->buffer);
	hm_device_unref(side->device);
}

/* False: nothing can be taken away here. */
static bool lose_both(struct hm_device *device, struct hm_device *other)
{
	if (!sim_unplug(device))
		return false;
	sim_plug();
	CHECK_FATAL(sim_unplug(other));
	CHECK_OK_FATAL(hm_sim_plug(OTHER));
	return true;
}

static void test_each_other(void)
{
	static const uint32_t callbacks[] = { 0, HM_LOSS_RECOVERED, HM_LOSS_LEFT };
	struct side a = { 0 }, b = { .other = &a };
	pthread_barrier_t barrier;
	pthread_t thread;
	uint32_t i;

	a.other = &b;
	a.barrier = b.barrier = &barrier;
	pthread_barrier_init(&barrier, NULL, 2);
	side_begin(&a, sim_open());
	side_begin(&b, rig_device(OTHER));
	for (i = 0; i < 3 && lose_both(a.device, b.device); i++) {
		a.at = b.at = callbacks[i];
		CHECK_FATAL(!pthread_create(&thread, NULL, recover_side, &b));
		recover_side(&a);
		CHECK_FATAL(!pthread_join(thread, NULL));
		CHECK_EQUAL(a.met, i + 1);
		CHECK_EQUAL(b.met, i + 1);
	}
	if (i) {
		/* Outside of callbacks each can be recovered: left buffers come back. */
		a.at = b.at = HM_LOSS_TAKEN;
		CHECK_EQUAL(sim_recover(a.device, 0).buffers_back, 1);
		CHECK_EQUAL(sim_recover(b.device, 0).buffers_back, 1);
	}
	side_end(&a);
	side_end(&b);
	pthread_barrier_destroy(&barrier);
}

/* A refill callback sets the policy of the other device's buffer, which is being told. */
struct setting {
	struct hm_device *device, *other;
	struct hm_buffer *told;
	_Atomic bool running, set, ended;
};

static void setting_lost(struct hm_buffer *buffer, enum hm_loss_event event, void *user)
{
	struct setting *setting = user;
	int tries;

	(void)buffer;
	if (event != HM_LOSS_RECOVERED)
		return;
	setting->running = true;
	for (tries = 0; tries < 5000 && !setting->set; tries++)
		usleep(1000);
	CHECK(setting->set);
	setting->ended = true;
}

static int setting_refill(struct hm_buffer *buffer, void *bytes, uint64_t offset,
			  uint64_t length, void *user)
{
	struct setting *setting = user;

	(void)buffer, (void)bytes, (void)offset, (void)length;
	CHECK_OK(hm_buffer_set_loss(setting->told, DESC(hm_loss_desc)));
	CHECK(!setting->ended);
	setting->set = true;
	return 0;
}

static void *recover_other(void *user)
{
	struct setting *setting = user;

	CHECK_EQUAL(sim_recover(setting->other, 0).buffers_back, 1);
	return NULL;
}

/* A refill callback sets a policy without waiting for a lost callback, which may wait for it. */
static void test_set_in_refill(void)
{
	struct setting setting = { .device = sim_open(), .other = rig_device(OTHER) };
	struct hm_loss_desc desc = {
		.struct_size = sizeof(desc),
		.policy = HM_LOSS_RECREATE,
		.user = &setting,
	};
	AUTO(hm_buffer) *buffer = sim_make(setting.device, SIZE, 0, NULL);
	pthread_t thread;

	setting.told = sim_make(setting.other, SIZE, 0, NULL);
	desc.refill = setting_refill;
	CHECK_OK_FATAL(hm_buffer_set_loss(buffer, &desc));
	desc.refill = NULL;
	desc.lost = setting_lost;
	CHECK_OK_FATAL(hm_buffer_set_loss(setting.told, &desc));
	if (lose_both(setting.device, setting.other)) {
		CHECK_FATAL(!pthread_create(&thread, NULL, recover_other, &setting));
		while (!setting.running)
			usleep(1000);
		CHECK_EQUAL(sim_recover(setting.device, 0).buffers_back, 1);
		CHECK_FATAL(!pthread_join(thread, NULL));
	}
	hm_buffer_unref(setting.told);
	hm_device_unref(setting.device);
	hm_device_unref(setting.other);
}

/* ---- a reset ---- */

static void count_lost(struct hm_buffer *buffer, enum hm_loss_event event, void *user)
{
	(void)buffer, (void)event;
	++*(unsigned int *)user;
}

static int count_refill(struct hm_buffer *buffer, void *bytes, uint64_t offset, uint64_t length,
			void *user)
{
	(void)buffer, (void)bytes, (void)offset, (void)length;
	++*(unsigned int *)user;
	return 0;
}

/* The work on the engine hangs, and a reset ends it. */
static void reset_under_work(struct hm_device *device, struct hm_map *map)
{
	uint32_t number;
	int r;
	AUTO(hm_accel) *accel = rig_accel(sim_device(), NULL);
	AUTO(hm_queue) *queue = rig_queue(accel, 0);
	AUTO(hm_fence) *fence = NULL;

	CHECK_OK_FATAL(hm_sim_queue(queue, &number));
	CHECK_OK(sim_inject(device, HETSIM_INJECT_STUCK, number, 1));
	CHECK_OK_FATAL(hm_queue_fill(queue, hm_map_address(map), 7, PAGE, &fence));
	do {
		/* The work may not have begun yet. */
		CHECK_OK(sim_inject(device, HETSIM_INJECT_RESET, 0, 0));
		r = hm_fence_wait(fence, 1000000);
	} while (r == -ETIME);
	CHECK_EQUAL(r, -ECANCELED);
}

/* Memory is none of its business: under no policy is anything lost, told or refilled. */
static void test_reset(void)
{
	static const uint32_t policies[] = { HM_LOSS_ZERO, HM_LOSS_SHADOW, HM_LOSS_RECREATE };
	enum { N = ARRAY_SIZE(policies) };
	AUTO(hm_device) *device = sim_open();
	struct hm_buffer *buffer[N];
	struct hm_map *map[N];
	unsigned int i, n_told[N] = { 0 };
	bool may;

	for (i = 0; i < N; i++) {
		buffer[i] = sim_make(device, SIZE, 0, &map[i]);
		sim_write(map[i], 0, SIZE, i);
		CHECK_OK_FATAL(hm_buffer_set_loss(
			buffer[i],
			DESC(hm_loss_desc, .policy = policies[i], .lost = count_lost,
			     .refill = policies[i] == HM_LOSS_RECREATE ? count_refill : NULL,
			     .user = &n_told[i])));
	}
	may = sim_inject(device, HETSIM_INJECT_RESET, 0, 0) != -EPERM;
	if (!may)
		test_skip("kernel", "the module's parameter test is not set, or no root");
	for (i = 0; may && i < N; i++) {
		reset_under_work(device, map[i]);
		/* The page that it was at is its work's own. */
		CHECK(pattern_holds(hm_map_address(map[i]), PAGE, SIZE, i));
		CHECK_EQUAL(buffer_info(buffer[i]).lost, 0);
		CHECK_EQUAL(map_info(map[i], 0).generation, 0);
		CHECK_EQUAL(sim_recover(device, HM_RECOVER_SHADOWED).buffers, 0);
		CHECK_EQUAL(n_told[i], 0);
	}
	for (i = 0; i < N; i++) {
		hm_map_unref(map[i]);
		hm_buffer_unref(buffer[i]);
	}
}

static const struct sim_case cases[] = {
	{ "beside_callback", test_beside_callback },
	{ "in_order", test_in_order },
	{ "during", test_during },
	{ "drained", test_drained },
	{ "each_other", test_each_other },
	{ "set_in_refill", test_set_in_refill },
	{ "reset", test_reset },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	return sim_main_with(argc, argv, "recover_told",
			     "devices=2 test=1 vram_mb=32 system_mb=16 opener_mb=40", cases);
}
