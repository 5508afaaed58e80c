// SPDX-License-Identifier: MIT
/* Peers of the simulated devices: bare threads, bare memory, and pwrite(). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <uapi/hetsim.h>

#include "bench.h"
#include "peer.h"

PEER_SOURCE(peer_sim_source);

/* ---- sim_submit soft_submit ---- */

struct peer_echo {
	pthread_t thread;
	int there, back;
	_Atomic bool stop;
};

static int echo_send(int fd)
{
	const uint64_t one = 1;

	return write(fd, &one, sizeof(one)) == sizeof(one) ? 0 : -errno;
}

static int echo_receive(int fd)
{
	uint64_t value;

	return read(fd, &value, sizeof(value)) == sizeof(value) ? 0 : -errno;
}

static void *echo_main(void *user)
{
	struct peer_echo *echo = user;

	while (!echo_receive(echo->there) && !echo->stop && !echo_send(echo->back))
		;
	return NULL;
}

int peer_echo_open(struct peer_echo **ret_echo)
{
	struct peer_echo *echo = calloc(1, sizeof(*echo));
	int r;

	if (!echo)
		return -ENOMEM;
	echo->there = eventfd(0, EFD_CLOEXEC);
	if (echo->there < 0) {
		r = -errno;
		goto free_echo;
	}
	echo->back = eventfd(0, EFD_CLOEXEC);
	if (echo->back < 0) {
		r = -errno;
		goto close_there;
	}
	r = -pthread_create(&echo->thread, NULL, echo_main, echo);
	if (r)
		goto close_back;
	*ret_echo = echo;
	return 0;

close_back:
	close(echo->back);
close_there:
	close(echo->there);
free_echo:
	free(echo);
	return r;
}

int peer_echo(struct peer_echo *echo)
{
	int r = echo_send(echo->there);

	return r ? r : echo_receive(echo->back);
}

void peer_echo_close(struct peer_echo *echo)
{
	echo->stop = true;
	echo_send(echo->there);
	pthread_join(echo->thread, NULL);
	close(echo->back);
	close(echo->there);
	free(echo);
}

/* ---- sim_fault ---- */

int peer_fault_map(size_t length, char **ret_address)
{
	char *address =
		mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (address == MAP_FAILED)
		return -errno;
	madvise(address, length, MADV_NOHUGEPAGE);
	*ret_address = address; /* every page of it is touched */
	return 0;
}

void peer_fault_unmap(char *address, size_t length)
{
	munmap(address, length);
}

/* ---- sim_copy ---- */

/* The module copies page by page, and says how many ns that took: sim_memcpy.c. */
int peer_copy_open(struct peer_copy *copy, uint32_t to, uint32_t from)
{
	snprintf(copy->what, sizeof(copy->what), "%u %u", to, from);
	copy->fd = open("/sys/kernel/debug/hetsim/hetsim0/memcpy", O_RDWR | O_CLOEXEC);
	return copy->fd < 0 ? -errno : 0;
}

void peer_copy_close(struct peer_copy *copy)
{
	if (copy->fd >= 0)
		close(copy->fd);
}

int peer_copy(struct peer_copy *copy, double *ret_ns)
{
	char text[32];
	ssize_t n;

	if (write(copy->fd, copy->what, strlen(copy->what)) < 0)
		return -errno;
	n = pread(copy->fd, text, sizeof(text) - 1, 0);
	if (n < 0)
		return -errno;
	text[n] = '\0';
	*ret_ns = strtod(text, NULL);
	return 0;
}

/* ---- transfer_1g ---- */

#define STAGE MIB(1) /* stays in the cache on its way */

/* pread() and pwrite() take the device, and the buffer's place on it. */
static int transfer_find(struct peer_transfer *transfer, int fd)
{
	struct hetsim_handshake shake = {
		.size = sizeof(shake),
		.version_major = HETSIM_VERSION_MAJOR,
		.version_minor = HETSIM_VERSION_MINOR,
	};
	struct hetsim_import import = { .size = sizeof(import), .fd = fd };

	transfer->fd = open("/dev/hetsim0", O_RDWR | O_CLOEXEC);
	if (transfer->fd < 0 || ioctl(transfer->fd, HETSIM_HANDSHAKE, &shake) ||
	    ioctl(transfer->fd, HETSIM_IMPORT, &import))
		return -errno;
	transfer->offset = (off_t)import.offset;
	return 0;
}

/* @fd: the buffer, exported. That of soft is a file by itself. */
int peer_transfer_open(struct peer_transfer *transfer, const char *device, int fd)
{
	int r = 0;

	transfer->offset = 0;
	if (strncmp(device, "sim", 3) == 0) {
		r = transfer_find(transfer, fd);
		close(fd);
	} else {
		transfer->fd = fd;
	}
	transfer->stage = aligned_alloc(KIB(4), STAGE);
	return r || transfer->stage ? r : -ENOMEM;
}

void peer_transfer_close(struct peer_transfer *transfer)
{
	free(transfer->stage);
	if (transfer->fd >= 0)
		close(transfer->fd);
}

int peer_transfer(struct peer_transfer *transfer, size_t length, uint32_t seed,
		  void (*produce)(uint32_t *words, size_t n, uint32_t seed))
{
	size_t at, done;
	ssize_t n;

	for (at = 0; at < length; at += STAGE) {
		produce(transfer->stage, STAGE / sizeof(uint32_t),
			seed + (uint32_t)(at / sizeof(uint32_t)));
		for (done = 0; done < STAGE; done += (size_t)n) {
			n = pwrite(transfer->fd, (char *)transfer->stage + done, STAGE - done,
				   transfer->offset + (off_t)(at + done));
			if (n <= 0)
				return n ? -errno : -EIO;
		}
	}
	return 0;
}
