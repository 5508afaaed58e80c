/* SPDX-License-Identifier: MIT */
/* A second process, which works on the first one's orders, one thing at a time. */
#ifndef HETMAP_TESTS_PEER_H
#define HETMAP_TESTS_PEER_H

#include <hetmap/hetmap.h>
#include <sys/types.h>

/* The state of the second process. */
struct peer_world {
	int socket; /* to the first one */
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
};

typedef int peer_function(struct peer_world *world, uint64_t a, uint64_t b, uint64_t c);

/* The first process's handle of it. */
struct peer {
	pid_t pid;
	int socket; /* for buffers */
	int orders;
};

/* With @type of socket between; the peer has opened @device, or NULL. */
void peer_start(struct peer *peer, int type, const char *device);
/* The result of @run in the peer, which shares only the first one's code. */
int peer_call(struct peer *peer, peer_function *run, uint64_t a, uint64_t b, uint64_t c);
/* In two steps, where both sides have to act. */
void peer_begin(struct peer *peer, peer_function *run, uint64_t a, uint64_t b, uint64_t c);
int peer_end(struct peer *peer);
/* Lets go of everything, ends it, and waits for that. */
void peer_stop(struct peer *peer);
/* By SIGKILL. */
void peer_kill(struct peer *peer);

/* ---- to be called there ---- */

peer_function peer_receive; /* flags of the description, its max_size */
peer_function peer_import;  /* a dma-buf that comes by itself, and maps it */
peer_function peer_map;     /* access */
peer_function peer_write;   /* from, to, salt: the pattern into the map */
peer_function peer_holds;   /* from, to, salt: 1, or 0 */
peer_function peer_length;  /* of the map, as hm_map_length() has it */
peer_function peer_size;    /* of the buffer, by hm_buffer_query */
peer_function peer_resizes; /* by the owner */
peer_function peer_sharing;
peer_function peer_resize; /* to a */
peer_function peer_send;   /* its own buffer of a bytes, max_size b, flags c */
peer_function peer_drop;   /* map and buffer */

#endif
