// SPDX-License-Identifier: MIT
/*
 * Frames to other processes: the first object as hm_buffer_send() sends it, a header with the
 * planes and the facts, and the other objects. What can't be sent is then found before anything is
 * under way. The sender is not trusted.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "api/api.h"
#include "base/sys.h"
#include "frame/frame.h"
#include "share/share.h"

#define FRAME_MAGIC 0x72466d68u /* "hmFr" */
#define FRAME_VERSION 1u

/* Time that the rest of a frame may take, over a socket that does not wait. */
#define REST_NS 10000000000ull

/* In the byte order of the machine, which both processes share. */
struct frame_message {
	uint32_t magic;
	uint32_t version;
	uint32_t length; /* of the message */
	uint32_t n_objects;
	uint32_t fourcc;
	uint32_t n_planes;
	uint32_t width;
	uint32_t height;
	uint64_t modifier;
	struct hm_frame_plane plane[HM_FRAME_PLANES];
	struct hm_frame_props props;
};

/*
 * A part of a frame is under way, and a call for a further one had the result @r: because the
 * socket does not wait, or signals came in a burst? Then waits until @end for another try.
 */
static bool try_again(int r, int socket, short events, uint64_t end)
{
	struct pollfd file = { .fd = socket, .events = events };
	uint64_t now = time_now_ns();

	return (r == -EAGAIN || r == -EINTR) && now < end &&
	       sys_poll_ns(&file, 1, end - now) > 0;
}

static void write_message(struct hm_frame *frame, struct frame_message *message)
{
	struct hm_frame_objects objects;

	frame_describe(frame, &objects);
	*message = (struct frame_message){
		.magic = FRAME_MAGIC,
		.version = FRAME_VERSION,
		.length = sizeof(*message),
		.n_objects = objects.n_objects,
		.fourcc = objects.fourcc,
		.n_planes = objects.n_planes,
		.width = objects.width,
		.height = objects.height,
		.modifier = objects.modifier,
		.props = objects.props,
	};
	memcpy(message->plane, objects.plane, sizeof(message->plane));
}

static int send_message(int socket, struct frame_message *message)
{
	struct iovec part = { .iov_base = message, .iov_len = sizeof(*message) };
	const struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };
	ssize_t n = sys_sendmsg(socket, &header);

	if (n < 0)
		return err_set((int)n, "sending a frame (sendmsg): %s", err_name((int)n));
	/* A message this short is never split, not even in a stream [af_unix.c]. */
	if ((size_t)n != sizeof(*message))
		return err_set(-EIO, "%zd of a frame's %zu bytes were sent: close the socket",
			       n, sizeof(*message));
	return 0;
}

int hm_frame_send(struct hm_frame *frame, int socket, uint32_t flags)
{
	struct frame_message message;
	uint64_t cookie, end;
	uint32_t i;
	int r;

	err_begin();
	r = object_check((struct hm_object *)frame, OBJECT_FRAME);
	if (!r)
		r = share_check_socket(socket, "hm_frame_send", &cookie);
	if (r)
		return r;
	write_message(frame, &message);
	r = buffer_send(frame->memory[0].buffer, socket, flags);
	if (r)
		return r;
	end = time_now_ns() + REST_NS;
	do
		r = send_message(socket, &message);
	while (try_again(r, socket, POLLOUT, end));
	for (i = 1; i < frame->n_memory && !r; i++)
		do
			r = buffer_send(frame->memory[i].buffer, socket, flags);
		while (try_again(r, socket, POLLOUT, end));
	return r ? err_prefix(-EIO, "a part of a frame was sent: close the socket") : 0;
}

/* ---- receiving ---- */

static int receive_message(int socket, struct frame_message *message)
{
	struct iovec part = { .iov_base = message, .iov_len = sizeof(*message) };
	/* Without room for descriptors the kernel closes those that come unasked. */
	struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };
	ssize_t n = sys_recvmsg(socket, &header);

	if (n < 0)
		return err_set((int)n, "receiving a frame (recvmsg): %s", err_name((int)n));
	if (!n)
		return err_set(-ECONNRESET, "the peer has closed the socket, and sent no "
					    "header of a frame");
	if (n != sizeof(*message) || header.msg_flags & MSG_TRUNC ||
	    message->magic != FRAME_MAGIC || message->version != FRAME_VERSION ||
	    message->length != sizeof(*message))
		return err_set(-EPROTO,
			       "a message of %zd bytes came that is no frame: a frame's header "
			       "of version %u has %zu bytes",
			       n, FRAME_VERSION, sizeof(*message));
	return 0;
}

/* The lies of a sender are all -EPROTO. */
static int refuse(int r)
{
	if (r == -EINVAL || r == -ERANGE || r == -EOVERFLOW)
		return err_prefix(-EPROTO, "the frame that came contradicts itself");
	return r;
}

static void read_message(const struct frame_message *message, struct hm_frame_objects *objects)
{
	*objects = (struct hm_frame_objects){
		.fourcc = message->fourcc,
		.modifier = message->modifier,
		.width = message->width,
		.height = message->height,
		.n_planes = message->n_planes,
		.n_objects = message->n_objects,
		.props = message->props,
		.fields = HM_FRAME_VISIBLE | HM_FRAME_COLOUR | HM_FRAME_TIME,
	};
	memcpy(objects->plane, message->plane, sizeof(objects->plane));
}

static int receive_object(struct hm_device *device, int socket, uint32_t flags,
			  struct frame_import *to)
{
	const struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.flags = flags,
		.name = "frame",
	};
	struct hm_buffer *buffer;
	int r;

	r = buffer_receive(device, socket, &desc, &buffer);
	if (r)
		return r;
	r = memory_map(buffer, flags, &to->memory[to->n], &to->size[to->n]);
	/* The object has come: -EAGAIN, of mmap(), would ask for it once more. */
	if (r == -EAGAIN)
		return err_prefix(-ENOMEM,
				  "an object of a frame was received and can't be mapped");
	if (r)
		return r;
	to->of[to->n] = to->n;
	to->n++;
	return 0;
}

/* After the first object. */
static int receive_rest(struct hm_device *device, int socket, uint32_t flags,
			struct hm_frame_objects *objects, struct frame_import *to)
{
	uint64_t end = time_now_ns() + REST_NS;
	struct frame_message message;
	int r;

	do
		r = receive_message(socket, &message);
	while (try_again(r, socket, POLLIN, end));
	if (r)
		return r;
	read_message(&message, objects);
	r = frame_check_objects(objects);
	if (r)
		return refuse(r);
	while (to->n < objects->n_objects && !r)
		do
			r = receive_object(device, socket, flags, to);
		while (try_again(r, socket, POLLIN, end));
	return r;
}

int hm_frame_receive(struct hm_device *device, int socket, uint32_t flags,
		     struct hm_frame **ret_frame)
{
	struct hm_frame_objects objects;
	struct frame_import all = { 0 };
	struct hm_frame *frame;
	uint64_t cookie;
	int r;

	err_begin();
	r = object_check((struct hm_object *)device, OBJECT_DEVICE);
	if (!r && !ret_frame)
		r = err_set(-EINVAL, "hm_frame_receive: ret_frame is NULL");
	if (!r)
		r = frame_check_flags("hm_frame_receive", flags);
	if (!r)
		r = share_check_socket(socket, "hm_frame_receive", &cookie);
	if (!r)
		r = receive_object(device, socket, flags, &all);
	if (r)
		return r;
	r = receive_rest(device, socket, flags, &objects, &all);
	if (r == -EAGAIN || r == -EINTR)
		r = err_prefix(-EIO, "a part of a frame came: close the socket");
	if (!r)
		r = refuse(frame_wrap(&objects, &all, &frame));
	if (r) {
		memory_end(all.memory, all.n);
		return r;
	}
	*ret_frame = frame;
	return 0;
}
