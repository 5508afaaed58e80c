/* SPDX-License-Identifier: MIT */
/* A message that hm_buffer_receive() takes, to be spoilt before it is sent. */
#ifndef HETMAP_TESTS_SHARE_SCENE_H
#define HETMAP_TESTS_SHARE_SCENE_H

#include "share/share.h"
#include "lib/support.h"

#define SIZE (5 * PAGE)
#define MAX_SIZE (64 * PAGE)
#define FDS_MAX 64
#define UNTOUCHED ((void *)0x10)

/* A message as the library sends it, to be changed before it goes on. */
struct scene {
	struct hm_device *device;
	struct hm_buffer *owned;
	int type; /* socket type */
	struct share_message message;
	size_t length;
	int own[SHARE_FDS]; /* the right ones */
	int fds[FDS_MAX];   /* those that go */
	uint32_t n_fd;
};

/* On "host"; @type is of the sockets that it goes over. */
struct scene scene_begin(int type);
void scene_end(struct scene *scene);
AUTO_END(scene, scene_end)
void scene_send(const struct scene *scene, int socket);
/* The result of hm_buffer_receive() for the scene's message; nothing may be left of it. */
int scene_deliver(const struct scene *scene, struct hm_buffer **ret_buffer);

/* hm_errmsg() of the last delivery that failed. */
extern char scene_text[1024];

#endif
