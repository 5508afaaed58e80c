// SPDX-License-Identifier: MIT
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hook/access_world.h"

static void keep(char *to, size_t size, const char *text)
{
	snprintf(to, size, "%s", text ? text : "");
}

int access_log_hook(void *user, const struct hm_access_request *request, char *reason)
{
	struct access_log *log = user;
	size_t length = strlen(log->order);

	log->n++;
	log->last = *request;
	snprintf(log->order + length, sizeof(log->order) - length, "%s ",
		 hm_access_name(request->operation));
	keep(log->device, sizeof(log->device), request->device);
	keep(log->accel, sizeof(log->accel), request->accel);
	keep(log->kernel, sizeof(log->kernel), request->kernel);
	keep(log->buffer, sizeof(log->buffer), request->buffer);
	keep(log->path, sizeof(log->path), request->path);
	if (!(log->refuse & 1u << request->operation))
		return 0;
	if (log->reason)
		snprintf(reason, HM_ACCESS_REASON_MAX, "%s", log->reason);
	return log->r;
}

struct hm_access_counters access_counters_now(void)
{
	struct hm_access_counters counters = { .struct_size = sizeof(counters) };

	CHECK_OK(hm_access_query(&counters));
	return counters;
}

static int nothing(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	(void)range, (void)args;
	return 0;
}

static void make_file(struct access_world *w)
{
	char folder[] = "/tmp/hetmap-access-XXXXXX";
	FILE *file;

	CHECK_FATAL(mkdtemp(folder) != NULL);
	CHECK_FATAL(asprintf(&w->path, "%s/bytes", folder) > 0);
	CHECK_FATAL(asprintf(&w->link, "%s/link", folder) > 0);
	file = fopen(w->path, "we");
	CHECK_FATAL(file && !ftruncate(fileno(file), WORLD_SIZE) && !fclose(file));
	CHECK_FATAL(!symlink("bytes", w->link));
}

static void drop_file(struct access_world *w)
{
	unlink(w->link);
	unlink(w->path);
	*strrchr(w->path, '/') = '\0';
	CHECK(!rmdir(w->path));
	free(w->link);
	free(w->path);
}

/* On an engine, too. */
static struct hm_kernel *idle(void)
{
	static const struct hm_engine_step step = { HM_ENGINE_NOTHING,
						    HM_ENGINE_NONE,
						    HM_ENGINE_NONE,
						    HM_ENGINE_NONE,
						    HM_ENGINE_NONE,
						    HM_ENGINE_NONE,
						    0 };
	struct hm_kernel *kernel;

	CHECK_OK_FATAL(
		hm_kernel_create(DESC(hm_kernel_desc, .name = "idle", .cpu = nothing,
				      .signature = "in inout", .engine = &step, .n_engine = 1),
				 &kernel));
	return kernel;
}

struct access_world access_world_begin(void)
{
	return access_world_begin_on("host", "cpu");
}

struct access_world access_world_begin_on(const char *device, const char *accel)
{
	struct access_world w = { 0 };

	w.device_name = device;
	w.accel_name = accel;
	make_file(&w);
	CHECK_OK_FATAL(hm_device_open(device, &w.device));
	CHECK_OK_FATAL(hm_device_open("file", &w.files));
	CHECK_OK_FATAL(hm_accel_open(accel, NULL, &w.accel));
	CHECK_OK_FATAL(hm_queue_create(w.accel, 0, &w.queue));
	w.kernel = idle();
	w.buffer = rig_buffer(w.device, DESC(hm_buffer_desc, .size = WORLD_SIZE,
					     .max_size = WORLD_MAX_SIZE, .name = "subject"));
	CHECK_OK_FATAL(hm_map_create(w.buffer, NULL, &w.map));
	CHECK_OK_FATAL(hm_buffer_export(w.buffer, 0, &w.fd));
	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, w.socket));
	pattern_write(hm_map_address(w.map), 0, WORLD_SIZE, 1);
	return w;
}

void access_world_end(struct access_world *w)
{
	CHECK_OK(hm_access_hook_set(NULL, NULL));
	close(w->socket[0]);
	close(w->socket[1]);
	close(w->fd);
	hm_map_unref(w->map);
	hm_buffer_unref(w->buffer);
	hm_kernel_unref(w->kernel);
	hm_queue_unref(w->queue);
	hm_accel_unref(w->accel);
	hm_device_unref(w->files);
	hm_device_unref(w->device);
	drop_file(w);
}
