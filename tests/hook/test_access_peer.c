// SPDX-License-Identifier: MIT
/* The access hook where buffers go to another process, and come from one. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "accel/accel_support.h"
#include "hook/access_world.h"
#include "lib/inject.h"
#include "lib/peer.h"

static struct access_log peer_log;

static int hook_here(struct peer_world *world, uint64_t refuse, uint64_t b, uint64_t c)
{
	(void)world, (void)b, (void)c;
	peer_log = (struct access_log){ .refuse = (uint32_t)refuse, .r = -EPERM };
	return hm_access_hook_set(access_log_hook, &peer_log);
}

/* 1 if the request of the hook there is the expected one. */
static int asked_here(struct peer_world *world, uint64_t size, uint64_t access, uint64_t pid)
{
	const struct hm_access_request *last = &peer_log.last;

	(void)world;
	return last->operation == HM_ACCESS_RECEIVE && !strcmp(peer_log.device, "host") &&
	       !strcmp(peer_log.buffer, "received") && last->pid == (uint32_t)getpid() &&
	       !strcmp(peer_log.path, "/memfd:hetmap:subject (deleted)") &&
	       last->size == size && last->max_size == size && last->access == access &&
	       last->peer_pid == pid && last->peer_uid == geteuid() &&
	       last->peer_gid == getegid();
}

static int holding_here(struct peer_world *world, uint64_t a, uint64_t b, uint64_t c)
{
	struct test_holding now = test_holding_now();

	(void)world, (void)a, (void)b, (void)c;
	return (int)(now.fds + 100 * now.objects);
}

static int counted_here(struct peer_world *world, uint64_t a, uint64_t b, uint64_t c)
{
	struct hm_access_counters counters = access_counters_now();

	(void)world, (void)a, (void)b, (void)c;
	return (int)(counters.asked[HM_ACCESS_RECEIVE] * 10 +
		     counters.refused[HM_ACCESS_RECEIVE]);
}

static void both_sides(void)
{
	struct access_log log = { .refuse = 1u << HM_ACCESS_SEND, .r = -EPERM };
	struct peer peer;
	int held;

	peer_start(&peer, SOCK_SEQPACKET, "host");
	AUTO(access_world) w = access_world_begin();
	held = peer_call(&peer, holding_here, 0, 0, 0);
	CHECK_EQUAL(peer_call(&peer, hook_here, 1u << HM_ACCESS_RECEIVE, 0, 0), 0);

	/* Nothing leaves: the next message is the first one. */
	CHECK_OK(hm_access_hook_set(access_log_hook, &log));
	CHECK_ERROR(-EPERM, hm_buffer_send(w.buffer, peer.socket, 0));
	CHECK(text_has("the access hook refused send \"subject\" on \"host\", 12388 bytes"));
	CHECK_EQUAL(buffer_info(w.buffer).sharing, 0);
	log.refuse = 0;
	CHECK_OK(hm_buffer_send(w.buffer, peer.socket, HM_EXPORT_READ_ONLY));
	CHECK_EQUAL(log.last.access, HM_READ);
	CHECK_EQUAL(log.last.flags, HM_EXPORT_READ_ONLY);
	CHECK_EQUAL(log.last.peer_uid, geteuid());

	/* A refused buffer is gone, with its descriptors. */
	CHECK_EQUAL(peer_call(&peer, peer_receive, 0, 0, 0), -EPERM);
	CHECK_EQUAL(peer_call(&peer, asked_here, WORLD_MAX_SIZE, HM_READ, (uint64_t)getpid()),
		    1);
	CHECK_EQUAL(peer_call(&peer, holding_here, 0, 0, 0), held);
	CHECK_EQUAL(peer_call(&peer, counted_here, 0, 0, 0), 11);

	/* The next one can be had, with the rights that both sides allow. */
	CHECK_EQUAL(peer_call(&peer, hook_here, 0, 0, 0), 0);
	CHECK_OK(hm_buffer_send(w.buffer, peer.socket, HM_EXPORT_READ_ONLY));
	CHECK_EQUAL(peer_call(&peer, peer_receive, 0, 0, 0), 0);
	CHECK_EQUAL(peer_call(&peer, asked_here, WORLD_MAX_SIZE, HM_READ, (uint64_t)getpid()),
		    1);
	CHECK_EQUAL(peer_call(&peer, counted_here, 0, 0, 0), 21);
	CHECK_EQUAL(peer_call(&peer, peer_map, HM_READ, 0, 0), 0);
	CHECK_EQUAL(peer_call(&peer, peer_holds, 0, WORLD_SIZE, 1), 1);
	peer_stop(&peer);
}

/* If the process at the other end is unknown, the hook hears that. */
static void unknown_peer(void)
{
	struct access_log log = { .refuse = 1u << HM_ACCESS_SEND, .r = -EACCES };
	AUTO(access_world) w = access_world_begin();

	CHECK_OK(hm_access_hook_set(access_log_hook, &log));
	inject_arm(5, INJECT_ONE); /* the first four ask for the socket's kind */
	CHECK_ERROR(-EACCES, hm_buffer_send(w.buffer, w.socket[0], 0));
	CHECK(inject_disarm());
	CHECK_TEXT(inject_failed(), "getsockopt");
	CHECK_EQUAL(log.last.peer_pid, 0);
	CHECK_ERROR(-EACCES, hm_buffer_send(w.buffer, w.socket[0], 0));
	CHECK_EQUAL(log.last.peer_pid, getpid());
}

static const struct test tests[] = {
	{ "both_sides", both_sides, 0, 0 },
	{ "unknown_peer", unknown_peer, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "access_peer", tests)
