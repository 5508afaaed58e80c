// SPDX-License-Identifier: MIT
/* One buffer, two processes: what one writes the other reads, and its growth, too. */
#include <err.h>
#include <hetmap/hetmap.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE (1 << 20)
#define GROWN (4 << 20)

static void wait_for(int socket)
{
	char byte;

	if (read(socket, &byte, 1) != 1)
		errx(1, "the other process has gone");
}

static void go_on(int socket)
{
	if (write(socket, "", 1) != 1)
		err(1, "write");
}

/* Opens its own device: of what the parent had before fork() it uses nothing. */
static int receiver(int socket)
{
	struct hm_buffer_info info = { .struct_size = sizeof(info) };
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	char *bytes;

	if (hm_device_open("host", &device) ||
	    hm_buffer_receive(device, socket, NULL, &buffer) ||
	    hm_map_create(buffer, NULL, &map))
		errx(1, "receiver: %s", hm_errmsg());
	bytes = hm_map_address(map);
	printf("received %d KiB: %s\n", (int)(hm_map_length(map) >> 10), bytes);
	snprintf(bytes, 64, "written by the receiver");
	go_on(socket);

	wait_for(socket);
	/* Any call on the buffer brings its maps up to the owner's size. */
	if (hm_buffer_query(buffer, &info))
		errx(1, "receiver: %s", hm_errmsg());
	printf("received %d KiB: %s\n", (int)(info.size >> 10), bytes + SIZE);
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	hm_device_unref(device);
	return 0;
}

int main(void)
{
	struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.size = SIZE,
		.max_size = GROWN,
		.name = "shared",
	};
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	int pair[2], status;
	char *bytes;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		err(1, "socketpair");
	pid = fork();
	if (pid < 0)
		err(1, "fork");
	if (!pid) {
		close(pair[0]);
		return receiver(pair[1]);
	}
	close(pair[1]);

	if (hm_device_open("host", &device) || hm_buffer_create(device, &desc, &buffer) ||
	    hm_map_create(buffer, NULL, &map))
		errx(1, "%s", hm_errmsg());
	bytes = hm_map_address(map);
	snprintf(bytes, 64, "written by the owner");
	if (hm_buffer_send(buffer, pair[0], 0))
		errx(1, "%s", hm_errmsg());
	wait_for(pair[0]);
	if (strcmp(bytes, "written by the receiver"))
		errx(1, "the receiver's bytes did not come");
	if (hm_buffer_resize(buffer, GROWN, 0))
		errx(1, "%s", hm_errmsg());
	snprintf(bytes + SIZE, 64, "written behind the old end");
	go_on(pair[0]);

	hm_map_unref(map);
	hm_buffer_unref(buffer);
	hm_device_unref(device);
	return waitpid(pid, &status, 0) != pid || status;
}
