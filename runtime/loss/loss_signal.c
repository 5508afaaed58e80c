// SPDX-License-Identifier: MIT
/*
 * Signals for bytes of a device that another process, or the administrator, takes away: this
 * process has not heard of it when the maps are touched next. By default a module's maps are
 * zeros then, which only a question to the device reveals. If there is a shadow, and a handler
 * to put it there, the backend is asked for a signal instead, so that a touch finds the shadow.
 *
 * An object keeps a request until the handler goes, regardless of its other users and of later
 * policies: the handler puts in place the replacement that each map's buffer has.
 */
#include "loss/loss.h"

#include <errno.h>
#include <stdio.h>

#include "core/buffer.h"
#include "core/device_link.h"
#include "loss/device_loss.h"
#include "map/map.h"
#include "core/segments.h"

/* Taken with buffer->lock held; with it a backend's own are. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* protects the next two */
static bool handled;                                      /* by a handler that repairs */
static uint32_t n_handler; /* number of the last handler; not 0 if handled */

/*
 * With brackets, CPUs reach only a part of the bytes, so that a SIGBUS does not mean a loss,
 * and the handler leaves it alone. Bytes are not touched outside of brackets, whose end asks
 * the device.
 */
static bool is_wanted_locked(const struct hm_buffer *buffer, const struct loss *loss)
{
	return handled && atomic_load(&loss->in_place) && !(buffer->caps & HM_CAP_BRACKET);
}

static int ask_each(const struct hm_buffer *buffer)
{
	const struct segment_list *list = atomic_load(&((struct hm_buffer *)buffer)->segments);
	uint32_t i;
	int r = 0;

	for (i = 0; i < list->n && !r; i++)
		r = buffer->device->ops->lost_signal(list->link->backend, &list->segment[i]);
	return r;
}

void loss_choose_signal(struct hm_buffer *buffer)
{
	struct loss *loss = atomic_load(&buffer->loss);

	if (!loss || !backend_has(buffer->device->ops, HM_BACKEND_LOSS_SIGNAL))
		return;
	err_hold();
	pthread_mutex_lock(&mutex);
	loss->signals = is_wanted_locked(buffer, loss) && !ask_each(buffer) ? n_handler : 0;
	pthread_mutex_unlock(&mutex);
	err_release();
}

int loss_signal_fresh(const struct hm_buffer *buffer, const struct hm_segment *fresh)
{
	const struct loss *loss = atomic_load(&((struct hm_buffer *)buffer)->loss);
	const struct device_link *link = segments_link(buffer);
	int r = 0;

	if (!loss || !backend_has(buffer->device->ops, HM_BACKEND_LOSS_SIGNAL))
		return 0;
	pthread_mutex_lock(&mutex);
	if (is_wanted_locked(buffer, loss))
		r = buffer->device->ops->lost_signal(link->backend, fresh);
	pthread_mutex_unlock(&mutex);
	return r == -ENODEV ? device_loss_ask(buffer->device, link) : 0;
}

/* The exporter of a dma-buf decides about its maps, and about their end. */
static bool is_foreign(const struct hm_buffer *buffer)
{
	return buffer->segment->flags & HM_SEGMENT_DMABUF && !buffer->created &&
	       (!backend_has(buffer->device->ops, HM_BACKEND_LOSS_SIGNAL) ||
		!(buffer->caps & HM_CAP_DMABUF) || !(buffer->access & HM_WRITE));
}

enum hm_unheard loss_unheard_locked(const struct hm_buffer *buffer)
{
	const struct loss *loss = atomic_load(&((struct hm_buffer *)buffer)->loss);
	bool signals;

	if (is_foreign(buffer))
		return HM_UNHEARD_DRIVER;
	if (buffer->ask != ASK_DEVICE)
		return HM_UNHEARD_NEVER;
	if (!backend_has(buffer->device->ops, HM_BACKEND_LOSS_SIGNAL))
		return HM_UNHEARD_DRIVER;
	if (!loss || !atomic_load(&loss->in_place))
		return HM_UNHEARD_POLICY;
	pthread_mutex_lock(&mutex);
	signals = handled && loss->signals == n_handler;
	pthread_mutex_unlock(&mutex);
	return signals ? HM_UNHEARD_POLICY : HM_UNHEARD_ZEROS;
}

static void choose_each(struct hm_buffer *buffer)
{
	if (buffer_lock(buffer))
		return;
	loss_choose_signal(buffer);
	buffer_unlock(buffer);
}

void loss_handler_comes(void)
{
	pthread_mutex_lock(&mutex);
	handled = true;
	n_handler++;
	pthread_mutex_unlock(&mutex);
}

void loss_signal_each(void)
{
	loss_each(choose_each);
}

/*
 * Replaces maps whose device is gone after a request for signals, which can't be taken back any
 * more.
 */
static void replace_gone(struct hm_map *map, const void *user)
{
	const struct hm_backend_ops *ops = user;
	const void *backend = NULL;

	if (map->buffer->device->ops != ops || map->lost || buffer_lock(map->buffer))
		return;
	if (device_loss_check_buffer(map->buffer))
		backend = segments_link(map->buffer)->backend;
	buffer_unlock(map->buffer);
	if (backend)
		device_loss_maps(backend);
}

void loss_handler_goes(void)
{
	const struct hm_backend_ops *ops;
	uint32_t i;

	pthread_mutex_lock(&mutex);
	handled = false;
	pthread_mutex_unlock(&mutex);
	/* No thread asks for signals from here on. */
	for (i = 0; (ops = backend_at(i)); i++)
		if (ops->lost_signal(NULL, NULL) == -ENODEV)
			map_each(NULL, replace_gone, ops);
}

void loss_signal_fork_child(void)
{
	mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
