// SPDX-License-Identifier: MIT
/* A second process, which works on the first one's orders. */
#include "lib/peer.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/support.h"

struct order {
	peer_function *run;
	uint64_t a, b, c;
};

int peer_receive(struct peer_world *world, uint64_t flags, uint64_t max_size, uint64_t c)
{
	(void)c;
	return hm_buffer_receive(world->device, world->socket,
				 DESC(hm_buffer_desc, .flags = (uint32_t)flags,
				      .max_size = max_size),
				 &world->buffer);
}

int peer_import(struct peer_world *world, uint64_t a, uint64_t b, uint64_t c)
{
	int fd = receive_fd(world->socket);
	int r = hm_buffer_import(world->device, fd, NULL, &world->buffer);

	(void)a, (void)b, (void)c;
	close(fd);
	return r ? r : hm_map_create(world->buffer, NULL, &world->map);
}

int peer_map(struct peer_world *world, uint64_t access, uint64_t b, uint64_t c)
{
	(void)b, (void)c;
	return hm_map_create(world->buffer, DESC(hm_map_desc, .access = (uint32_t)access),
			     &world->map);
}

int peer_write(struct peer_world *world, uint64_t from, uint64_t to, uint64_t salt)
{
	pattern_write(hm_map_address(world->map), from, to, (uint32_t)salt);
	return 0;
}

int peer_holds(struct peer_world *world, uint64_t from, uint64_t to, uint64_t salt)
{
	return pattern_holds(hm_map_address(world->map), from, to, (uint32_t)salt);
}

int peer_length(struct peer_world *world, uint64_t a, uint64_t b, uint64_t c)
{
	(void)a, (void)b, (void)c;
	return (int)hm_map_length(world->map);
}

static int query(struct peer_world *world, struct hm_buffer_info *info)
{
	*info = (struct hm_buffer_info){ .struct_size = sizeof(*info) };
	return hm_buffer_query(world->buffer, info);
}

int peer_size(struct peer_world *world, uint64_t a, uint64_t b, uint64_t c)
{
	struct hm_buffer_info info;
	int r = query(world, &info);

	(void)a, (void)b, (void)c;
	return r ? r : (int)info.size;
}

int peer_resizes(struct peer_world *world, uint64_t a, uint64_t b, uint64_t c)
{
	struct hm_buffer_info info;
	int r = query(world, &info);

	(void)a, (void)b, (void)c;
	return r ? r : (int)info.owner_resizes;
}

int peer_sharing(struct peer_world *world, uint64_t a, uint64_t b, uint64_t c)
{
	struct hm_buffer_info info;
	int r = query(world, &info);

	(void)a, (void)b, (void)c;
	return r ? r : (int)info.sharing;
}

int peer_resize(struct peer_world *world, uint64_t size, uint64_t b, uint64_t c)
{
	(void)b, (void)c;
	return hm_buffer_resize(world->buffer, size, 0);
}

int peer_send(struct peer_world *world, uint64_t size, uint64_t max_size, uint64_t flags)
{
	int r = hm_buffer_create(world->device,
				 DESC(hm_buffer_desc, .size = size, .max_size = max_size),
				 &world->buffer);

	if (!r)
		r = hm_map_create(world->buffer, NULL, &world->map);
	return r ? r : hm_buffer_send(world->buffer, world->socket, (uint32_t)flags);
}

int peer_drop(struct peer_world *world, uint64_t a, uint64_t b, uint64_t c)
{
	(void)a, (void)b, (void)c;
	hm_map_unref(world->map);
	hm_buffer_unref(world->buffer);
	world->map = NULL;
	world->buffer = NULL;
	return 0;
}

static void serve(int socket, int orders, const char *device)
{
	struct peer_world world = { .socket = socket };
	struct order order;
	int r;

	if (device && hm_device_open(device, &world.device))
		_exit(1);
	while (recv(orders, &order, sizeof(order), 0) == sizeof(order)) {
		r = order.run(&world, order.a, order.b, order.c);
		if (send(orders, &r, sizeof(r), 0) != sizeof(r))
			break;
	}
	peer_drop(&world, 0, 0, 0);
	hm_device_unref(world.device);
	_exit(0);
}

void peer_start(struct peer *peer, int type, const char *device)
{
	int pair[2], orders[2];
	pid_t parent = getpid();

	CHECK_FATAL(!socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair));
	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, orders));
	fflush(NULL);
	peer->pid = fork();
	CHECK_FATAL(peer->pid >= 0);
	if (!peer->pid) {
		/* A test that is abandoned leaves no process behind. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		close(pair[0]);
		close(orders[0]);
		serve(pair[1], orders[1], device);
	}
	close(pair[1]);
	close(orders[1]);
	peer->socket = pair[0];
	peer->orders = orders[0];
}

void peer_begin(struct peer *peer, peer_function *run, uint64_t a, uint64_t b, uint64_t c)
{
	struct order order = { .run = run, .a = a, .b = b, .c = c };

	CHECK_EQUAL(send(peer->orders, &order, sizeof(order), MSG_NOSIGNAL), sizeof(order));
}

int peer_end(struct peer *peer)
{
	int r = -1;

	CHECK_FATAL(recv(peer->orders, &r, sizeof(r), 0) == sizeof(r));
	return r;
}

int peer_call(struct peer *peer, peer_function *run, uint64_t a, uint64_t b, uint64_t c)
{
	peer_begin(peer, run, a, b, c);
	return peer_end(peer);
}

static int end(struct peer *peer)
{
	int status = 0;

	CHECK(waitpid(peer->pid, &status, 0) == peer->pid);
	close(peer->socket);
	close(peer->orders);
	return status;
}

void peer_stop(struct peer *peer)
{
	shutdown(peer->orders, SHUT_WR);
	CHECK_EQUAL(end(peer), 0);
}

void peer_kill(struct peer *peer)
{
	kill(peer->pid, SIGKILL);
	end(peer);
}
