// SPDX-License-Identifier: MIT
/* A message that hm_buffer_receive() takes, to be spoilt before it is sent. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "share/share_scene.h"

struct scene scene_begin(int type)
{
	struct scene scene = { 0 };
	int pair[2];

	scene.type = type;
	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	CHECK_OK_FATAL(hm_device_open("host", &scene.device));
	scene.owned = rig_buffer(scene.device,
				 DESC(hm_buffer_desc, .size = SIZE, .max_size = MAX_SIZE));
	CHECK_OK_FATAL(hm_buffer_send(scene.owned, pair[0], 0));
	CHECK_OK_FATAL(share_message_receive(pair[1], &scene.message, scene.own));
	close(pair[0]);
	close(pair[1]);
	scene.length = sizeof(scene.message);
	memcpy(scene.fds, scene.own, sizeof(scene.own));
	scene.n_fd = SHARE_FDS;
	return scene;
}

void scene_end(struct scene *scene)
{
	share_message_close(scene->own, SHARE_FDS);
	hm_buffer_unref(scene->owned);
	hm_device_unref(scene->device);
}

void scene_send(const struct scene *scene, int socket)
{
	char control[CMSG_SPACE(FDS_MAX * sizeof(int))] = { 0 }, bytes[256] = { 0 };
	struct iovec part = { .iov_base = bytes, .iov_len = scene->length };
	struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };
	struct cmsghdr *rights;

	memcpy(bytes, &scene->message, sizeof(scene->message));
	if (scene->n_fd) {
		header.msg_control = control;
		header.msg_controllen = CMSG_SPACE(scene->n_fd * sizeof(int));
		rights = CMSG_FIRSTHDR(&header);
		rights->cmsg_level = SOL_SOCKET;
		rights->cmsg_type = SCM_RIGHTS;
		rights->cmsg_len = CMSG_LEN(scene->n_fd * sizeof(int));
		memcpy(CMSG_DATA(rights), scene->fds, scene->n_fd * sizeof(int));
	}
	CHECK_EQUAL(sendmsg(socket, &header, MSG_NOSIGNAL), scene->length);
}

char scene_text[1024];

int scene_deliver(const struct scene *scene, struct hm_buffer **ret_buffer)
{
	struct test_holding before = test_holding_now(), after;
	struct hm_buffer *buffer = UNTOUCHED;
	int pair[2], r;

	CHECK_FATAL(!socketpair(AF_UNIX, scene->type | SOCK_CLOEXEC, 0, pair));
	scene_send(scene, pair[0]);
	test_forget_text();
	r = hm_buffer_receive(scene->device, pair[1], NULL, &buffer);
	close(pair[0]);
	close(pair[1]);
	if (!r) {
		if (ret_buffer)
			*ret_buffer = buffer;
		else
			hm_buffer_unref(buffer);
	} else {
		CHECK(buffer == UNTOUCHED);
		CHECK(hm_errmsg()[0]);
		snprintf(scene_text, sizeof(scene_text), "%s", hm_errmsg());
	}
	after = test_holding_now();
	if (r || !ret_buffer) {
		CHECK_EQUAL(after.fds, before.fds);
		CHECK_EQUAL(after.mapped, before.mapped);
		CHECK_EQUAL(after.objects, before.objects);
	}
	return r;
}
