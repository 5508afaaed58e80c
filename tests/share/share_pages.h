/* SPDX-License-Identifier: MIT */
/* A buffer that was sent, as its message, and control pages that are made by hand. */
#ifndef HETMAP_TESTS_SHARE_PAGES_H
#define HETMAP_TESTS_SHARE_PAGES_H

#include <sys/types.h>

#include "share/control.h"
#include "lib/support.h"

#define SIZE (3 * PAGE)
#define MAX_SIZE (16 * PAGE)

struct hm_buffer *share_make(struct hm_device *device);

/* A buffer's message, with descriptors that are the caller's. */
void share_message_of(struct hm_buffer *buffer, struct share_message *message,
		      int fds[SHARE_FDS]);

/* A control page of process @pid's, made by hand; its slot 0 is the message's. */
int share_page_of(pid_t pid, struct share_message *message);

struct sent {
	struct hm_device *device;
	struct hm_buffer *owned;
	struct share_message message;
	int fds[SHARE_FDS];
};

struct sent sent_begin(void);
void sent_end(struct sent *sent);
AUTO_END(sent, sent_end)

#endif
