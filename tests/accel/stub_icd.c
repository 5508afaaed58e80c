// SPDX-License-Identifier: MIT
/* The test driver: platform, device, contexts, queues, events. */
#include "accel/stub_icd.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct stub_modes stub_modes;
cl_icd_dispatch stub_dispatch;

/* How late an event is in the mode that has it so. */
#define LATE_NS 100000000ull

static struct stub_object platform, device, gpu;

/* ---- counting and failing ---- */

#define FUNCTION_MAX 96

static pthread_mutex_t calls_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
	const char *name;
	unsigned int n;
} calls[FUNCTION_MAX];
static char fail_name[64];
static unsigned int fail_in;
static bool fail_always;
static int fail_error;
static _Atomic int live;

cl_int stub_enter(const char *function)
{
	const char *name = strncmp(function, "do_", 3) ? function : function + 3;
	cl_int error = CL_SUCCESS;
	unsigned int i;

	pthread_mutex_lock(&calls_mutex);
	for (i = 0; i < FUNCTION_MAX && calls[i].name; i++)
		if (!strcmp(calls[i].name, name))
			break;
	if (i < FUNCTION_MAX) {
		calls[i].name = name;
		calls[i].n++;
	}
	if (!strcmp(fail_name, name) && (fail_always || (fail_in && !--fail_in)))
		error = fail_error;
	pthread_mutex_unlock(&calls_mutex);
	return error;
}

void stub_fail(const char *function, unsigned int nth, int error)
{
	pthread_mutex_lock(&calls_mutex);
	snprintf(fail_name, sizeof(fail_name), "%s", function);
	fail_in = nth;
	fail_always = !nth;
	fail_error = error;
	pthread_mutex_unlock(&calls_mutex);
}

unsigned int stub_calls(const char *function)
{
	unsigned int i, n = 0;

	pthread_mutex_lock(&calls_mutex);
	for (i = 0; i < FUNCTION_MAX && calls[i].name; i++)
		if (!strcmp(calls[i].name, function))
			n = calls[i].n;
	pthread_mutex_unlock(&calls_mutex);
	return n;
}

int stub_live(void)
{
	return live;
}

/* ---- the thread that blocks SIGBUS ---- */

static struct {
	pthread_mutex_t turn; /* held by the caller of stub_run() */
	pthread_mutex_t lock; /* protects the below */
	pthread_cond_t changed;
	void (*run)(void *user); /* NULL: nothing to do */
	void *user;
} worker = {
	.turn = PTHREAD_MUTEX_INITIALIZER,
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
};

static void *work(void *user)
{
	(void)user;
	pthread_mutex_lock(&worker.lock);
	for (;;) {
		while (!worker.run)
			pthread_cond_wait(&worker.changed, &worker.lock);
		worker.run(worker.user);
		worker.run = NULL;
		pthread_cond_broadcast(&worker.changed);
	}
	return NULL;
}

static void start_worker(void)
{
	sigset_t bus, old;
	pthread_t thread;

	sigemptyset(&bus);
	sigaddset(&bus, SIGBUS);
	pthread_sigmask(SIG_BLOCK, &bus, &old);
	if (pthread_create(&thread, NULL, work, NULL) || pthread_detach(thread))
		abort();
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void stub_run(void (*run)(void *user), void *user)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (!stub_modes.blocks && !stub_modes.blocks_late) {
		run(user);
		return;
	}
	pthread_once(&once, start_worker);
	pthread_mutex_lock(&worker.turn);
	pthread_mutex_lock(&worker.lock);
	worker.user = user;
	worker.run = run;
	pthread_cond_broadcast(&worker.changed);
	while (worker.run)
		pthread_cond_wait(&worker.changed, &worker.lock);
	pthread_mutex_unlock(&worker.lock);
	pthread_mutex_unlock(&worker.turn);
}

static void do_nothing(void *user)
{
	(void)user;
}

struct copying {
	void *to;
	const void *from;
	size_t length;
};

static void copy(void *user)
{
	const struct copying *copying = user;

	memcpy(copying->to, copying->from, copying->length);
}

void stub_copy(void *to, const void *from, size_t length)
{
	struct copying copying = { to, from, length };

	stub_run(copy, &copying);
}

/* ---- objects ---- */

void *stub_new(unsigned int kind, size_t size)
{
	struct stub_object *object = calloc(1, size);

	if (!object)
		abort();
	object->dispatch = &stub_dispatch;
	object->kind = kind;
	object->refs = 1;
	live++;
	return object;
}

bool stub_is(const void *object, unsigned int kind)
{
	return object && ((const struct stub_object *)object)->kind == kind;
}

cl_int stub_retain(void *object, unsigned int kind, cl_int error)
{
	if (!stub_is(object, kind))
		return error;
	((struct stub_object *)object)->refs++;
	return CL_SUCCESS;
}

bool stub_drop(void *object)
{
	return !--((struct stub_object *)object)->refs;
}

void stub_free(void *object)
{
	/* A use after the end is then detected. */
	((struct stub_object *)object)->kind = 0;
	live--;
	free(object);
}

cl_int stub_answer(const void *value, size_t value_size, size_t size, void *to,
		   size_t *ret_size)
{
	if (to && size < value_size)
		return CL_INVALID_VALUE;
	if (to)
		memcpy(to, value, value_size);
	if (ret_size)
		*ret_size = value_size;
	return CL_SUCCESS;
}

static cl_int answer_text(const char *text, size_t size, void *to, size_t *ret_size)
{
	return stub_answer(text, strlen(text) + 1, size, to, ret_size);
}

/* ---- platform and device ---- */

static cl_int CL_API_CALL do_clGetPlatformInfo(cl_platform_id id, cl_platform_info what,
					       size_t size, void *to, size_t *ret_size)
{
	(void)id;
	switch (what) {
	case CL_PLATFORM_NAME:
		return answer_text(stub_modes.mesa ? "rusticl" :
				   stub_modes.pocl ? "Portable Computing Language" :
						     "hetmap stub",
				   size, to, ret_size);
	case CL_PLATFORM_VERSION:
		return answer_text("OpenCL 3.0 stub", size, to, ret_size);
	case CL_PLATFORM_EXTENSIONS:
		return answer_text("cl_khr_icd", size, to, ret_size);
	case CL_PLATFORM_ICD_SUFFIX_KHR:
		return answer_text("STUB", size, to, ret_size);
	case CL_PLATFORM_PROFILE:
		return answer_text("FULL_PROFILE", size, to, ret_size);
	case CL_PLATFORM_VENDOR:
		return answer_text("hetmap", size, to, ret_size);
	default:
		return CL_INVALID_VALUE;
	}
}

static cl_int CL_API_CALL do_clGetDeviceIDs(cl_platform_id id, cl_device_type type, cl_uint n,
					    cl_device_id *to, cl_uint *ret_n)
{
	(void)id;
	STUB_ENTER();
	if (stub_modes.blocks)
		stub_run(do_nothing, NULL);
	if (stub_modes.no_device || !(type & (CL_DEVICE_TYPE_CPU | CL_DEVICE_TYPE_DEFAULT)))
		return CL_DEVICE_NOT_FOUND;
	if (to && n)
		to[0] = (cl_device_id)&device;
	if (to && n > 1 && stub_modes.two_devices)
		to[1] = (cl_device_id)&gpu;
	if (ret_n)
		*ret_n = stub_modes.two_devices ? 2 : 1;
	return CL_SUCCESS;
}

static cl_int CL_API_CALL do_clGetDeviceInfo(cl_device_id id, cl_device_info what, size_t size,
					     void *to, size_t *ret_size)
{
	const cl_device_svm_capabilities svm = stub_modes.svm_system ?
						       CL_DEVICE_SVM_COARSE_GRAIN_BUFFER |
							       CL_DEVICE_SVM_FINE_GRAIN_SYSTEM :
						       0;
	const cl_bool yes = CL_TRUE, unified = stub_modes.unified;
	const cl_device_type type = id == (cl_device_id)&gpu ? CL_DEVICE_TYPE_GPU :
							       CL_DEVICE_TYPE_CPU;
	const cl_ulong most = STUB_MAX_ALLOC, memory = 4 * most;
	const cl_uint align = STUB_ALIGNMENT * 8, units = 1;
	const cl_platform_id owner = (cl_platform_id)&platform;

#define ANSWER(value) stub_answer(&(value), sizeof(value), size, to, ret_size)
	switch (what) {
	case CL_DEVICE_TYPE:
		return ANSWER(type);
	case CL_DEVICE_AVAILABLE:
	case CL_DEVICE_COMPILER_AVAILABLE:
		return ANSWER(yes);
	case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
		return ANSWER(most);
	case CL_DEVICE_GLOBAL_MEM_SIZE:
		return ANSWER(memory);
	case CL_DEVICE_MEM_BASE_ADDR_ALIGN:
		return ANSWER(align);
	case CL_DEVICE_MAX_COMPUTE_UNITS:
		return ANSWER(units);
	case CL_DEVICE_HOST_UNIFIED_MEMORY:
		return ANSWER(unified);
	case CL_DEVICE_SVM_CAPABILITIES:
		return ANSWER(svm);
	case CL_DEVICE_PLATFORM:
		return ANSWER(owner);
	case CL_DEVICE_NAME:
		return answer_text("stub device", size, to, ret_size);
	case CL_DRIVER_VERSION:
		return answer_text("1.0", size, to, ret_size);
	case CL_DEVICE_VERSION:
		return answer_text("OpenCL 3.0 stub", size, to, ret_size);
	case CL_DEVICE_EXTENSIONS:
		return answer_text(stub_modes.arm_import ?
					   "cl_arm_import_memory cl_arm_import_memory_host" :
					   "",
				   size, to, ret_size);
	default:
		return CL_INVALID_VALUE;
	}
}

static void *CL_API_CALL do_clGetExtensionFunctionAddressForPlatform(cl_platform_id id,
								     const char *name)
{
	(void)id;
	if (stub_modes.arm_import && !strcmp(name, "clImportMemoryARM"))
		return (void *)stub_import;
	return NULL;
}

/* ---- contexts and queues ---- */

struct stub_queue {
	struct stub_object object;
	struct stub_object *context;
};

static cl_context CL_API_CALL
do_clCreateContext(const cl_context_properties *properties, cl_uint n, const cl_device_id *ids,
		   void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *),
		   void *user, cl_int *ret_error)
{
	(void)properties, (void)n, (void)ids, (void)notify, (void)user;
	STUB_ENTER_NEW(ret_error);
	return stub_new(STUB_CONTEXT, sizeof(struct stub_object));
}

static cl_int CL_API_CALL do_clReleaseContext(cl_context context)
{
	STUB_ENTER();
	if (!stub_is(context, STUB_CONTEXT))
		return CL_INVALID_CONTEXT;
	if (stub_drop(context))
		stub_free(context);
	return CL_SUCCESS;
}

static cl_command_queue CL_API_CALL
do_clCreateCommandQueueWithProperties(cl_context context, cl_device_id id,
				      const cl_queue_properties *properties, cl_int *ret_error)
{
	struct stub_queue *queue;

	(void)id, (void)properties;
	STUB_ENTER_NEW(ret_error);
	queue = stub_new(STUB_QUEUE, sizeof(*queue));
	queue->context = (struct stub_object *)context;
	queue->context->refs++;
	return (cl_command_queue)queue;
}

static cl_int CL_API_CALL do_clReleaseCommandQueue(cl_command_queue id)
{
	struct stub_queue *queue = (struct stub_queue *)id;

	STUB_ENTER();
	if (!stub_is(id, STUB_QUEUE))
		return CL_INVALID_COMMAND_QUEUE;
	if (!stub_drop(queue))
		return CL_SUCCESS;
	if (stub_drop(queue->context))
		stub_free(queue->context);
	stub_free(queue);
	return CL_SUCCESS;
}

static cl_int CL_API_CALL do_clFlush(cl_command_queue queue)
{
	STUB_ENTER();
	return stub_is(queue, STUB_QUEUE) ? CL_SUCCESS : CL_INVALID_COMMAND_QUEUE;
}

static cl_int CL_API_CALL do_clFinish(cl_command_queue queue)
{
	STUB_ENTER();
	return stub_is(queue, STUB_QUEUE) ? CL_SUCCESS : CL_INVALID_COMMAND_QUEUE;
}

/* ---- events ---- */

struct stub_event {
	struct stub_object object;
	cl_int status;     /* that it ends with */
	uint64_t ready_ns; /* when it ends */
};

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void wait_ready(const struct stub_event *event)
{
	while (now_ns() < event->ready_ns)
		usleep(200);
}

cl_int stub_done(cl_event *ret_event, cl_int status)
{
	struct stub_event *event;

	if (!ret_event)
		return CL_SUCCESS;
	event = stub_new(STUB_EVENT, sizeof(*event));
	event->status = status;
	event->ready_ns = stub_modes.late ? now_ns() + LATE_NS : 0;
	*ret_event = (cl_event)event;
	return CL_SUCCESS;
}

static cl_int CL_API_CALL do_clWaitForEvents(cl_uint n, const cl_event *events)
{
	cl_uint i;

	STUB_ENTER();
	for (i = 0; i < n; i++) {
		if (!stub_is(events[i], STUB_EVENT))
			return CL_INVALID_EVENT;
		wait_ready((struct stub_event *)events[i]);
		if (((struct stub_event *)events[i])->status < 0)
			return CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
	}
	return CL_SUCCESS;
}

static cl_int CL_API_CALL do_clGetEventInfo(cl_event id, cl_event_info what, size_t size,
					    void *to, size_t *ret_size)
{
	const struct stub_event *event = (struct stub_event *)id;
	cl_int status;

	STUB_ENTER();
	if (!stub_is(id, STUB_EVENT))
		return CL_INVALID_EVENT;
	if (what != CL_EVENT_COMMAND_EXECUTION_STATUS)
		return CL_INVALID_VALUE;
	status = now_ns() < event->ready_ns ? CL_RUNNING : event->status;
	return stub_answer(&status, sizeof(status), size, to, ret_size);
}

static cl_int CL_API_CALL do_clReleaseEvent(cl_event event)
{
	STUB_ENTER();
	if (!stub_is(event, STUB_EVENT))
		return CL_INVALID_EVENT;
	if (stub_drop(event))
		stub_free(event);
	return CL_SUCCESS;
}

struct callback {
	struct stub_event *event;
	void(CL_CALLBACK *call)(cl_event, cl_int, void *);
	void *user;
};

static void *call_back(void *data)
{
	struct callback callback = *(struct callback *)data;

	free(data);
	wait_ready(callback.event);
	callback.call((cl_event)callback.event, callback.event->status, callback.user);
	if (stub_drop(callback.event))
		stub_free(callback.event);
	return NULL;
}

static cl_int CL_API_CALL do_clSetEventCallback(cl_event event, cl_int type,
						void(CL_CALLBACK *call)(cl_event, cl_int,
									void *),
						void *user)
{
	struct callback *callback;
	pthread_t thread;

	(void)type;
	STUB_ENTER();
	if (stub_retain(event, STUB_EVENT, CL_INVALID_EVENT))
		return CL_INVALID_EVENT;
	callback = calloc(1, sizeof(*callback));
	if (!callback)
		abort();
	*callback = (struct callback){ (struct stub_event *)event, call, user };
	if (!stub_modes.late)
		call_back(callback);
	else if (pthread_create(&thread, NULL, call_back, callback) || pthread_detach(thread))
		abort();
	return CL_SUCCESS;
}

/* ---- the loader's interface ---- */

static bool has_word(const char *list, const char *word)
{
	const char *at = list ? strstr(list, word) : NULL;
	size_t n = strlen(word);

	return at && (at == list || at[-1] == ',') && (!at[n] || at[n] == ',');
}

static void set_up(void)
{
	const char *list = getenv("HETMAP_STUB");
	cl_icd_dispatch *table = &stub_dispatch;

	stub_modes.no_device = has_word(list, "nodevice");
	stub_modes.unified = has_word(list, "unified-noncoherent");
	stub_modes.svm_system = has_word(list, "svm-system");
	stub_modes.arm_import = has_word(list, "arm-import");
	stub_modes.late = has_word(list, "late");
	stub_modes.two_devices = has_word(list, "two-devices");
	stub_modes.wrong = has_word(list, "wrong");
	stub_modes.mesa = has_word(list, "mesa");
	stub_modes.pocl = has_word(list, "pocl");
	stub_modes.slow_build = has_word(list, "slow-build");
	stub_modes.blocks = has_word(list, "blocks");
	stub_modes.blocks_late = has_word(list, "blocks-late");
	stub_modes.wrong_later = has_word(list, "wrong-later");
	stub_modes.shadow = has_word(list, "shadow") || stub_modes.unified ||
			    stub_modes.arm_import;
	platform.dispatch = table;
	device.dispatch = table;
	gpu.dispatch = table;
	table->clGetPlatformInfo = do_clGetPlatformInfo;
	table->clGetDeviceIDs = do_clGetDeviceIDs;
	table->clGetDeviceInfo = do_clGetDeviceInfo;
	table->clGetExtensionFunctionAddressForPlatform =
		do_clGetExtensionFunctionAddressForPlatform;
	table->clCreateContext = do_clCreateContext;
	table->clReleaseContext = do_clReleaseContext;
	table->clCreateCommandQueueWithProperties = do_clCreateCommandQueueWithProperties;
	table->clReleaseCommandQueue = do_clReleaseCommandQueue;
	table->clFlush = do_clFlush;
	table->clFinish = do_clFinish;
	table->clWaitForEvents = do_clWaitForEvents;
	table->clGetEventInfo = do_clGetEventInfo;
	table->clReleaseEvent = do_clReleaseEvent;
	table->clSetEventCallback = do_clSetEventCallback;
	stub_memory_table(table);
	stub_kernel_table(table);
}

static cl_int CL_API_CALL get_platforms(cl_uint n, cl_platform_id *to, cl_uint *ret_n)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, set_up);
	if (to && n)
		to[0] = (cl_platform_id)&platform;
	if (ret_n)
		*ret_n = 1;
	return CL_SUCCESS;
}

__attribute__((visibility("default"))) void *CL_API_CALL
clGetExtensionFunctionAddress(const char *name)
{
	return !strcmp(name, "clIcdGetPlatformIDsKHR") ? (void *)get_platforms : NULL;
}

__attribute__((visibility("default"))) cl_int CL_API_CALL clGetPlatformInfo(
	cl_platform_id id, cl_platform_info what, size_t size, void *to, size_t *ret_size)
{
	return do_clGetPlatformInfo(id, what, size, to, ret_size);
}
