// SPDX-License-Identifier: MIT
/* Buffers that were sent, and control pages made by hand. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/compat.h"
#include "share/owner.h"
#include "share/share_pages.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE)

struct hm_buffer *share_make(struct hm_device *device)
{
	return rig_buffer(device, DESC(hm_buffer_desc, .size = SIZE, .max_size = MAX_SIZE));
}

void share_message_of(struct hm_buffer *buffer, struct share_message *message,
		      int fds[SHARE_FDS])
{
	int pair[2];

	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	CHECK_OK_FATAL(hm_buffer_send(buffer, pair[0], 0));
	CHECK_OK_FATAL(share_message_receive(pair[1], message, fds));
	close(pair[0]);
	close(pair[1]);
}

int share_page_of(pid_t pid, struct share_message *message)
{
	int fd = memfd_create("foreign", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct control_head head = {
		.magic = CONTROL_MAGIC,
		.version = CONTROL_VERSION,
		.owner_pid = (uint64_t)pid,
		.owner_start = pid == getpid() ? owner_own_start() : 1,
	};
	struct control_slot slot = { .serial = message->serial, .size = SIZE };

	CHECK_FATAL(fd >= 0 && !ftruncate(fd, CONTROL_BYTES));
	CHECK_EQUAL(pwrite(fd, &head, sizeof(head), 0), sizeof(head));
	CHECK_EQUAL(pwrite(fd, &slot, sizeof(slot), sizeof(head)), sizeof(slot));
	CHECK_FATAL(!fcntl(fd, F_ADD_SEALS, SEALS));
	message->slot = 0;
	return fd;
}

struct sent sent_begin(void)
{
	struct sent scene = { 0 };

	CHECK_OK_FATAL(hm_device_open("host", &scene.device));
	scene.owned = share_make(scene.device);
	share_message_of(scene.owned, &scene.message, scene.fds);
	return scene;
}

void sent_end(struct sent *scene)
{
	share_message_close(scene->fds, SHARE_FDS);
	hm_buffer_unref(scene->owned);
	hm_device_unref(scene->device);
}
