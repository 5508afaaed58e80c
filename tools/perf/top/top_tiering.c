// SPDX-License-Identifier: MIT
/* hetmap top: bytes that moved between tiers of memory, and the reasons. */
#include <inttypes.h>
#include <sys/uio.h>
#include <unistd.h>

#include <hetmap/tiering.h>

#include "common/text.h"
#include "top.h"

/* Indexed by enum hm_tiering_why. */
static const char *const reasons[] = {
	[0] = "for an unknown reason",
	[HM_TIERING_HOT] = "promoted: touched often",
	[HM_TIERING_COLD] = "demoted: a hotter block needed its place",
	[HM_TIERING_OVER] = "demoted: above the budget of the fast tier",
};
static const char *const words[] = {
	[0] = "unknown",
	[HM_TIERING_HOT] = "hot",
	[HM_TIERING_COLD] = "cold",
	[HM_TIERING_OVER] = "over",
};

/* Any value may be there: it is another process' memory. */
static unsigned int why_of(uint16_t why)
{
	return why < sizeof(words) / sizeof(words[0]) ? why : 0;
}

void tiering_look(struct top_process *process)
{
	struct iovec local = { &process->tiering, sizeof(process->tiering) }, remote;
	uint64_t address = 0;

	process->has_tiering = false;
	if (!live_has_table(&process->live) ||
	    pread(process->live.table.fd, &address, sizeof(address), HM_PUBLISHED_TIERING) !=
		    sizeof(address))
		return;
	remote = (struct iovec){ (void *)(uintptr_t)address, sizeof(process->tiering) };
	process->has_tiering =
		address &&
		process_vm_readv(process->pid, &local, 1, &remote, 1, 0) ==
			(ssize_t)sizeof(process->tiering) &&
		process->tiering.promoted + process->tiering.demoted + process->tiering.refused;
}

static uint64_t last_of(const struct hm_published_tiering *tiering)
{
	return (tiering->n_move - 1) % HM_PUBLISHED_MOVES;
}

char *tiering_note(const struct top_process *process)
{
	const struct hm_published_tiering *tiering = &process->tiering;
	char promoted[TEXT_MAX], demoted[TEXT_MAX], refused[TEXT_MAX];
	uint64_t i = last_of(tiering);

	text_bytes(tiering->promoted, promoted);
	text_bytes(tiering->demoted, demoted);
	text_bytes(tiering->refused, refused);
	if (!tiering->n_move)
		return text_format("tiers of process %d: %s could not move", (int)process->pid,
				   refused);
	return text_format("tiers of process %d: %s promoted, %s demoted, %s could not move; "
			   "last 0x%" PRIx64 " to node %d, heat %u of 1000, %s",
			   (int)process->pid, promoted, demoted, refused,
			   tiering->moves[i].address, (int)tiering->moves[i].node,
			   (unsigned int)tiering->moves[i].heat,
			   reasons[why_of(tiering->moves[i].why)]);
}

json_t *tiering_json(const struct top_process *process)
{
	const struct hm_published_tiering *tiering = &process->tiering;
	json_t *object, *moves;
	uint64_t i, n = tiering->n_move;
	char address[32];

	if (!process->has_tiering)
		return json_null();
	object = json_object();
	moves = json_array();
	json_object_set_new(object, "promoted", json_integer((json_int_t)tiering->promoted));
	json_object_set_new(object, "demoted", json_integer((json_int_t)tiering->demoted));
	json_object_set_new(object, "refused", json_integer((json_int_t)tiering->refused));
	for (i = 0; i < n && i < HM_PUBLISHED_MOVES; i++) {
		const uint64_t at = (n - 1 - i) % HM_PUBLISHED_MOVES;
		json_t *move = json_object();

		snprintf(address, sizeof(address), "0x%" PRIx64, tiering->moves[at].address);
		json_object_set_new(move, "address", json_string(address));
		json_object_set_new(move, "bytes",
				    json_integer((json_int_t)tiering->moves[at].length));
		json_object_set_new(move, "node", json_integer(tiering->moves[at].node));
		json_object_set_new(move, "heat", json_integer(tiering->moves[at].heat));
		json_object_set_new(move, "why",
				    json_string(words[why_of(tiering->moves[at].why)]));
		json_array_append_new(moves, move);
	}
	json_object_set_new(object, "moves", moves);
	return object;
}
