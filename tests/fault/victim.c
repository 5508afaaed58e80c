// SPDX-License-Identifier: MIT
/* A map that loses a part of its bytes. */
#include "fault/victim.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/core.h"

static void on_lost(struct hm_buffer *buffer, enum hm_loss_event event, void *user)
{
	static const char names[] = " trlp";
	struct victim *victim = user;

	CHECK_FATAL(buffer == victim->buffer);
	/* Without locks: calls are allowed. */
	if (victim->shared)
		return (void)buffer_info(buffer);
	victim->calls[strlen(victim->calls)] = names[event];
	CHECK_EQUAL(!!(buffer_info(buffer).lost & HM_LOST_PART), event != HM_LOSS_RECOVERED);
}

static int on_refill(struct hm_buffer *buffer, void *bytes, uint64_t offset, uint64_t length,
		     void *user)
{
	struct victim *victim = user;

	CHECK_FATAL(buffer == victim->buffer);
	victim->calls[strlen(victim->calls)] = 'f';
	if (!victim->answer)
		pattern_write((char *)bytes - offset, offset, offset + length, victim->salt);
	return victim->answer;
}

void victim_choose(struct victim *victim, uint32_t policy, uint32_t flags)
{
	CHECK_OK_FATAL(hm_buffer_set_loss(
		victim->buffer,
		DESC(hm_loss_desc, .policy = policy, .flags = flags, .lost = on_lost,
		     .refill = victim->salt ? on_refill : NULL, .user = victim)));
}

struct victim victim_open_file(void)
{
	struct victim victim = { .fd = scratch_file(VICTIM_SIZE) };

	CHECK_OK_FATAL(hm_handler_install(0));
	CHECK_OK_FATAL(hm_device_open("file", &victim.device));
	CHECK_OK_FATAL(
		hm_buffer_from_file(victim.device, NULL, victim.fd, NULL, &victim.buffer));
	CHECK_OK_FATAL(hm_map_create(victim.buffer, NULL, &victim.map));
	victim.base = hm_map_address(victim.map);
	pattern_write((void *)victim.base, 0, VICTIM_SIZE, 1);
	return victim;
}

/* Memory of the library's, of which a part is cut off behind its back: as broken pages are. */
struct victim victim_open_host(void)
{
	struct victim victim = { 0 };
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = VICTIM_SIZE };

	CHECK_OK_FATAL(hm_handler_install(0));
	CHECK_OK_FATAL(hm_device_open("host", &victim.device));
	CHECK_OK_FATAL(hm_buffer_create(victim.device, &desc, &victim.buffer));
	/* Its own is sealed against that. */
	victim.fd = memfd_create("victim", 0);
	CHECK_FATAL(victim.fd >= 0);
	CHECK_FATAL(!ftruncate(victim.fd, VICTIM_SIZE));
	CHECK_FATAL(dup2(victim.fd, victim.buffer->segment[0].fd) >= 0);
	CHECK_OK_FATAL(hm_map_create(victim.buffer, NULL, &victim.map));
	victim.base = hm_map_address(victim.map);
	pattern_write((void *)victim.base, 0, VICTIM_SIZE, 1);
	return victim;
}

void victim_close(struct victim *victim)
{
	hm_map_unref(victim->map);
	hm_buffer_unref(victim->buffer);
	hm_device_unref(victim->device);
	close(victim->fd);
	CHECK_OK(hm_handler_remove());
}

void victim_cut(const struct victim *victim, uint64_t size)
{
	CHECK_FATAL(!ftruncate(victim->fd, (off_t)size));
}

int victim_bracket(const struct victim *victim, uint64_t offset, uint32_t access)
{
	int r = hm_map_begin_cpu(victim->map, offset, 4096, access);

	return r ? r : hm_map_end_cpu(victim->map, offset, 4096, access);
}

bool victim_holds(const struct victim *victim, uint64_t from, uint64_t to, uint32_t salt)
{
	return pattern_holds((const void *)victim->base, from, to, salt);
}

bool victim_was_told(struct victim *victim, const char *calls)
{
	bool equal = !strcmp(victim->calls, calls);

	if (!equal)
		test_fail(__FILE__, __LINE__, "told '%s', and not '%s'", victim->calls, calls);
	memset(victim->calls, 0, sizeof(victim->calls));
	return equal;
}

struct hm_recover_info victim_recover(struct victim *victim, uint32_t flags)
{
	struct hm_recover_info info = { .struct_size = sizeof(info) };

	CHECK_OK(hm_device_recover(victim->device, flags, &info));
	return info;
}
