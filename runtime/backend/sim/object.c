// SPDX-License-Identifier: MIT
/* A port's buffers by their handles: made, imported, closed by the last holder. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/sys.h"

#include "backend/sim/port.h"

/*
 * Protects the ports' lists and refs. Held over the calls that open and close a handle, so that
 * no import gets a handle that is being closed.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void close_handle(struct sim_port *port, uint32_t handle)
{
	struct hetsim_buffer_close close = { .size = sizeof(close), .handle = handle };

	/* A device that is gone closes its handles with the port's file. */
	sim_port_call(port, HETSIM_BUFFER_CLOSE, &close);
}

static struct sim_object *find_locked(struct sim_port *port, uint32_t handle)
{
	struct sim_object *object;

	cds_list_for_each_entry(object, &port->objects, link)
		if (object->handle == handle)
			return object;
	return NULL;
}

static void add_locked(struct sim_port *port, struct sim_object *object, uint32_t handle,
		       uint64_t offset)
{
	sim_port_ref(port);
	object->port = port;
	object->handle = handle;
	object->offset = offset;
	object->refs = 1;
	cds_list_add(&object->link, &port->objects);
}

const void *sim_object_of(struct sim_port *port, uint32_t handle)
{
	const void *object;

	pthread_mutex_lock(&lock);
	object = find_locked(port, handle);
	pthread_mutex_unlock(&lock);
	return object;
}

int sim_object_create(struct sim_port *port, struct hetsim_buffer_create *create,
		      struct sim_object **ret_object)
{
	struct sim_object *object;
	int r;

	object = sys_calloc(1, sizeof(*object));
	if (!object)
		return -ENOMEM;
	r = sim_port_call(port, HETSIM_BUFFER_CREATE, create);
	if (r)
		goto err_free;
	pthread_mutex_lock(&lock);
	add_locked(port, object, create->handle, create->offset);
	pthread_mutex_unlock(&lock);
	*ret_object = object;
	return 0;

err_free:
	free(object);
	return r;
}

int sim_object_import(struct sim_port *port, struct hetsim_import *import,
		      struct sim_object **ret_object)
{
	struct sim_object *object, *fresh;
	int r;

	fresh = sys_calloc(1, sizeof(*fresh));
	if (!fresh)
		return -ENOMEM;
	pthread_mutex_lock(&lock);
	r = sim_port_call(port, HETSIM_IMPORT, import);
	if (r)
		goto out;
	object = find_locked(port, import->handle);
	if (object) {
		object->refs++;
	} else {
		object = fresh;
		fresh = NULL;
		add_locked(port, object, import->handle, import->offset);
	}
	*ret_object = object;
out:
	pthread_mutex_unlock(&lock);
	free(fresh);
	return r;
}

int sim_object_foreign(struct sim_port *port, struct sim_object **ret_object)
{
	struct sim_object *object = sys_calloc(1, sizeof(*object));

	if (!object)
		return -ENOMEM;
	pthread_mutex_lock(&lock);
	add_locked(port, object, 0, 0);
	pthread_mutex_unlock(&lock);
	*ret_object = object;
	return 0;
}

static int when_lost(struct sim_object *object, uint32_t when)
{
	struct hetsim_buffer_when_lost lost = {
		.size = sizeof(lost),
		.handle = object->handle,
		.when = when,
	};

	return sim_port_call(object->port, HETSIM_BUFFER_WHEN_LOST, &lost);
}

int sim_object_signal(struct sim_object *object)
{
	int r = 0;

	if (!object->handle)
		return -EOPNOTSUPP;
	pthread_mutex_lock(&lock);
	if (!object->signals)
		r = when_lost(object, HETSIM_WHEN_LOST_SIGNAL);
	object->signals = !r;
	pthread_mutex_unlock(&lock);
	return r;
}

int sim_objects_silence(struct sim_port *port)
{
	struct sim_object *object;
	int r = 0;

	cds_list_for_each_entry(object, &port->objects, link) {
		if (object->signals && when_lost(object, HETSIM_WHEN_LOST_DEFAULT) == -ENODEV)
			r = -ENODEV;
		object->signals = false;
	}
	return r;
}

void sim_object_put(struct sim_object *object)
{
	bool last;

	pthread_mutex_lock(&lock);
	last = !--object->refs;
	if (last) {
		cds_list_del(&object->link);
		if (object->handle)
			close_handle(object->port, object->handle);
	}
	pthread_mutex_unlock(&lock);
	if (!last)
		return;
	sim_port_put(object->port);
	free(object);
}

void sim_objects_lock(void)
{
	pthread_mutex_lock(&lock);
}

void sim_objects_unlock(void)
{
	pthread_mutex_unlock(&lock);
}
