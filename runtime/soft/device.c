// SPDX-License-Identifier: MIT
/*
 * The twin's devices: their settings and their table.
 *
 * A child of fork() has none of them: it begins anew, and leaves its parent's objects as they
 * are. Maps of buffers are not inherited.
 */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/object.h"
#include "soft/twin.h"

/* The module's parameters. */
struct settings {
	uint32_t devices;
	uint32_t vram_mb;
	uint32_t system_mb;
	uint32_t bar_mb;    /* 0: CPUs reach all VRAM */
	uint32_t opener_mb; /* 0: 3/4 of both */
	uint32_t test;
	uint32_t fault_us;
	enum hetsim_kind kind;
};

static const struct settings settings_default = {
	.devices = 1,
	.vram_mb = 1024,
	.system_mb = 1024,
};

static const struct {
	const char *name;
	uint32_t min, max;
	size_t offset;
} settings_numbers[] = {
	{ "devices", 1, SIM_MAX_DEVICES, offsetof(struct settings, devices) },
	{ "vram_mb", 1, SIM_MAX_MB, offsetof(struct settings, vram_mb) },
	{ "system_mb", 1, SIM_MAX_MB, offsetof(struct settings, system_mb) },
	{ "bar_mb", 0, SIM_MAX_MB, offsetof(struct settings, bar_mb) },
	{ "opener_mb", 0, 2 * SIM_MAX_MB, offsetof(struct settings, opener_mb) },
	{ "test", 0, 1, offsetof(struct settings, test) },
	{ "fault_us", 0, 1000000, offsetof(struct settings, fault_us) },
};

bool soft_test;
uint64_t soft_fault_ns;

/* Devices are made at their first open. */
static struct {
	pthread_mutex_t lock; /* protects the fields below; a leaf */
	bool loaded;
	struct settings settings;
	struct soft_device *devices[SIM_MAX_DEVICES];
	bool unplugged[SIM_MAX_DEVICES];
	struct soft_device *parents[SIM_MAX_DEVICES]; /* the parent process's */
} table = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- fork ---- */

void soft_fork_prepare(void)
{
	pthread_mutex_lock(&table.lock);
	soft_timelines_lock();
}

void soft_fork_parent(void)
{
	soft_timelines_unlock();
	pthread_mutex_unlock(&table.lock);
}

/* Keeps the parent's pointers only so that a leak checker finds its objects reachable. */
void soft_fork_child(void)
{
	soft_timelines_unlock(); /* those that are mapped stay so */
	memcpy(table.parents, table.devices, sizeof(table.parents));
	memset(table.devices, 0, sizeof(table.devices));
	memset(table.unplugged, 0, sizeof(table.unplugged));
	table.loaded = false;
	pthread_mutex_unlock(&table.lock);
}

static void table_lock(void)
{
	fork_init();
	pthread_mutex_lock(&table.lock);
}

static void table_unlock(void)
{
	pthread_mutex_unlock(&table.lock);
}

/* ---- settings ---- */

static int setting_kind(const char *value, size_t length, enum hetsim_kind *ret_kind)
{
	uint32_t i;

	for (i = HETSIM_KIND_GPU; i <= HETSIM_KIND_NIC; i++) {
		if (strlen(sim_kinds[i].name) == length &&
		    !strncmp(value, sim_kinds[i].name, length)) {
			*ret_kind = (enum hetsim_kind)i;
			return 0;
		}
	}
	return err_set(-EINVAL, "HETMAP_SOFT: kind=%.*s is not gpu, fpga or nic", (int)length,
		       value);
}

/* Reads "name=value" of @length bytes. */
static int setting_read(struct settings *settings, const char *text, size_t length)
{
	size_t name = strcspn(text, "="), i;
	const char *value = text + name + 1;
	unsigned long long number;
	char *end;

	if (name >= length)
		return err_set(-EINVAL,
			       "HETMAP_SOFT: \"%.*s\" is not NAME=VALUE, as vram_mb=64 is",
			       (int)length, text);
	length -= name + 1;
	if (name == strlen("kind") && !strncmp(text, "kind", name))
		return setting_kind(value, length, &settings->kind);
	for (i = 0; i < ARRAY_SIZE(settings_numbers); i++)
		if (strlen(settings_numbers[i].name) == name &&
		    !strncmp(text, settings_numbers[i].name, name))
			break;
	if (i == ARRAY_SIZE(settings_numbers))
		return err_set(-EINVAL,
			       "HETMAP_SOFT: there is no setting \"%.*s\": they are devices, "
			       "vram_mb, system_mb, bar_mb, opener_mb, kind, fault_us and test",
			       (int)name, text);
	number = *value >= '0' && *value <= '9' ? strtoull(value, &end, 10) : UINT64_MAX;
	if (number < settings_numbers[i].min || number > settings_numbers[i].max ||
	    end != value + length)
		return err_set(-EINVAL,
			       "HETMAP_SOFT: %.*s=%.*s is not a number from %" PRIu32
			       " to %" PRIu32,
			       (int)name, text, (int)length, value, settings_numbers[i].min,
			       settings_numbers[i].max);
	*(uint32_t *)((char *)settings + settings_numbers[i].offset) = (uint32_t)number;
	return 0;
}

/* Reads the settings once, like the module's parameters. The caller holds the table's lock. */
static int settings_load(void)
{
	const char *text = env_get("HETMAP_SOFT");
	struct settings settings = settings_default;
	size_t length;
	int r;

	if (table.loaded)
		return 0;
	for (text = text ? text : ""; *text; text += length) {
		length = strcspn(text, " ,");
		r = length ? setting_read(&settings, text, length) : 0;
		if (r)
			return r;
		length += strspn(text + length, " ,");
	}
	if (settings.bar_mb > settings.vram_mb)
		return err_set(-EINVAL,
			       "HETMAP_SOFT: bar_mb=%" PRIu32 " is more than vram_mb=%" PRIu32
			       ", of which it is a part: lower the one, or raise the other",
			       settings.bar_mb, settings.vram_mb);
	table.settings = settings;
	soft_test = settings.test;
	soft_fault_ns = settings.fault_us * 1000ull;
	table.loaded = true;
	return 0;
}

/* ---- devices ---- */

void soft_device_put(struct soft_device *dev)
{
	if (atomic_fetch_sub(&dev->refs, 1) != 1)
		return;
	pthread_mutex_destroy(&dev->memory_lock);
	pthread_mutex_destroy(&dev->uses_lock);
	pthread_cond_destroy(&dev->hooked);
	pthread_mutex_destroy(&dev->lock);
	free(dev->buffers);
	free(dev);
}

static uint64_t power_of_two_up(uint64_t n)
{
	return n > 1 ? 1ull << (64 - __builtin_clzll(n - 1)) : 1;
}

/* The caller holds the table's lock. */
static int device_add(uint32_t index)
{
	const struct settings *settings = &table.settings;
	struct soft_device *dev = sys_calloc(1, sizeof(*dev));

	if (!dev)
		return -ENOMEM;
	atomic_init(&dev->refs, 1);
	dev->index = index;
	dev->kind = settings->kind;
	pthread_mutex_init(&dev->lock, NULL);
	pthread_cond_init(&dev->hooked, NULL);
	pthread_mutex_init(&dev->uses_lock, NULL);
	pthread_mutex_init(&dev->memory_lock, NULL);
	CDS_INIT_LIST_HEAD(&dev->openers);
	CDS_INIT_LIST_HEAD(&dev->waits);
	sim_memory_set(&dev->memory, settings->vram_mb, settings->system_mb, settings->bar_mb,
		       settings->opener_mb);
	dev->hides = settings->bar_mb;
	dev->window_pages = power_of_two_up(sim_memory_most(&dev->memory));
	table.devices[index] = dev;
	return 0;
}

int soft_device_get(uint32_t index, struct soft_device **ret_dev)
{
	int r;

	table_lock();
	r = settings_load();
	if (r)
		goto out;
	if (index >= table.settings.devices) {
		r = err_set(-ENODEV,
			    "soft:%" PRIu32 ": the last one is soft:%" PRIu32
			    " (HETMAP_SOFT=devices=N makes more)",
			    index, table.settings.devices - 1);
		goto out;
	}
	if (table.unplugged[index]) {
		r = err_set(-ENODEV, "soft:%" PRIu32 " was taken away", index);
		goto out;
	}
	if (!table.devices[index]) {
		r = device_add(index);
		if (r) {
			err_set(r, "soft:%" PRIu32 ": no memory for the device", index);
			goto out;
		}
	}
	*ret_dev = table.devices[index];
	atomic_fetch_add(&(*ret_dev)->refs, 1);
out:
	table_unlock();
	return r;
}

int soft_device_take(struct soft_device *dev)
{
	int r = -ENODEV;

	table_lock();
	if (table.devices[dev->index] == dev) {
		table.devices[dev->index] = NULL;
		table.unplugged[dev->index] = true;
		r = 0;
	}
	table_unlock();
	return r;
}

uint32_t soft_count(void)
{
	uint32_t n = 1; /* its open tells why it fails */

	table_lock();
	if (!settings_load())
		n = table.settings.devices;
	table_unlock();
	return n;
}

int soft_plug(uint32_t index)
{
	int r;

	table_lock();
	r = settings_load();
	if (!r && index >= table.settings.devices)
		r = err_set(-EINVAL, "soft:%" PRIu32 ": there are %" PRIu32 " devices", index,
			    table.settings.devices);
	if (!r && !table.unplugged[index])
		r = -EEXIST;
	if (!r)
		table.unplugged[index] = false;
	table_unlock();
	return r;
}

uint32_t soft_objects(uint32_t index)
{
	struct soft_device *dev = NULL;
	uint32_t n;

	table_lock();
	if (index < SIM_MAX_DEVICES)
		dev = table.devices[index];
	if (dev)
		atomic_fetch_add(&dev->refs, 1);
	table_unlock();
	if (!dev)
		return 0;
	n = soft_queues_alive(dev);
	pthread_mutex_lock(&dev->lock);
	n += dev->n_buffers;
	pthread_mutex_unlock(&dev->lock);
	soft_device_put(dev);
	return n;
}
