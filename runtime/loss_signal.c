// SPDX-License-Identifier: MIT
/*
 * Bytes of a device that another process takes away, or the administrator: nobody here has
 * heard when their maps are touched next. By itself a module's maps are zeros then, of which
 * nothing tells before the device is asked. Where there is a shadow, and a handler to put it
 * there, the backend is asked for a signal instead: whoever touches them finds the shadow.
 */
#include "loss.h"

#include <stdio.h>

#include "buffer.h"
#include "device_link.h"
#include "lost.h"
#include "segments.h"

/* There is a handler that repairs. Written by who has handler_install.c's mutex. */
static _Atomic bool handled;

/*
 * Where CPUs reach bytes in part a SIGBUS says nothing of a loss, and the handler leaves it
 * alone; outside of brackets, whose end asks, nobody touches them.
 */
static bool is_wanted(const struct hm_buffer *buffer, const struct loss *loss)
{
	return atomic_load(&handled) && atomic_load(&loss->in_place) &&
	       !(buffer->caps & HM_CAP_BRACKET);
}

static int choose(struct hm_buffer *buffer, bool signal)
{
	const struct segment_list *list = atomic_load(&buffer->segments);
	int r = 0, one;
	uint32_t i;

	for (i = 0; i < list->n; i++) {
		one = buffer->device->ops->lost_signal(list->link->backend, &list->segment[i],
						       signal);
		r = r ? r : one;
	}
	return r;
}

int loss_choose_signal(struct hm_buffer *buffer)
{
	struct loss *loss = atomic_load(&buffer->loss);
	char text[ERR_TEXT_MAX];
	bool wanted;
	int r;

	if (!loss || !buffer->device->ops->lost_signal)
		return 0;
	wanted = is_wanted(buffer, loss);
	if (!wanted && !loss->signals)
		return 0;
	snprintf(text, sizeof(text), "%s", hm_errmsg());
	r = choose(buffer, wanted);
	/* All of it or nothing: what some segments have is told of the buffer. */
	if (r && wanted)
		choose(buffer, false);
	loss->signals = wanted && !r;
	err_set(0, "%s", text);
	return r;
}

void loss_pause_signal(struct hm_buffer *buffer)
{
	struct loss *loss = atomic_load(&buffer->loss);

	if (!loss || !loss->signals)
		return;
	loss->signals = false;
	choose(buffer, false);
}

enum hm_unheard loss_unheard_locked(struct hm_buffer *buffer)
{
	const struct loss *loss = atomic_load(&buffer->loss);

	if (buffer->ask != ASK_DEVICE)
		return HM_UNHEARD_NEVER;
	if (!buffer->device->ops->lost_signal)
		return HM_UNHEARD_DRIVER;
	/* Who else has the object, and ended, may have taken it off. */
	loss_choose_signal(buffer);
	return loss && atomic_load(&loss->in_place) && !loss->signals ? HM_UNHEARD_ZEROS :
									HM_UNHEARD_POLICY;
}

static void choose_each(struct hm_buffer *buffer)
{
	const void *backend = NULL;

	if (buffer_lock(buffer))
		return;
	if (loss_choose_signal(buffer) == -ENODEV)
		backend = segments_link(buffer)->backend;
	buffer_unlock(buffer);
	/* It stays as it was, a signal, which the handler must not leave behind. */
	if (backend)
		lost_maps(backend);
}

void loss_handler_comes(void)
{
	atomic_store(&handled, true);
	loss_each(choose_each);
}

void loss_handler_goes(void)
{
	atomic_store(&handled, false);
	loss_each(choose_each);
}
