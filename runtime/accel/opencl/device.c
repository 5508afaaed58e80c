// SPDX-License-Identifier: MIT
/*
 * Platforms and devices, listed once a process. A platform without devices is normal, and so is
 * a loader without platforms.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accel/opencl/opencl.h"
#include "base/env.h"

#define DEVICE_MAX 64
#define PLATFORM_MAX 32
#define WINDOW_UNIT MIB(2)

static struct opencl_device devices[DEVICE_MAX];
static uint32_t n_device;
static pthread_once_t once = PTHREAD_ONCE_INIT;
/* fork_generation + 1 of the process that loaded the platforms; 0: not loaded. */
static _Atomic uint32_t loaded_by;

static const struct opencl_quirk quirks[] = {
	{
		.name = "pocl-svm-any-pointer",
		.platform = "Portable Computing Language",
		.first = { 3, 0 },
		.last = { 3, 1 },
		.reason = "its CPU devices hand the pointer of clSetKernelArgSVMPointer to "
			  "the kernel as it is, though they announce no system SVM",
	},
};

/*
 * Options that a driver needs besides the caller's.
 *
 * PoCL's compiler, clang, counts its diagnostics on stderr ("1 error generated."), unless it is
 * told to draw no carets. PoCL refuses that option, but looks only at the first two letters of a
 * word that begins with -I, and splits the words at tabs later. PoCL gives clang "-I." itself
 * [process_options(), pocl_llvm_build_program()].
 */
static const struct {
	const char *platform;
	uint32_t first[2], last[2]; /* as in struct opencl_quirk */
	const char *options;
} build_options[] = {
	{ "Portable Computing Language", { 3, 0 }, { 3, 1 }, "-I.\t-fno-caret-diagnostics" },
};

bool opencl_quirks_allowed(uint32_t accel_flags)
{
	const char *wish = env_get("HETMAP_OPENCL_QUIRKS");

	return !(accel_flags & HM_ACCEL_NO_QUIRKS) && !(wish && !strcmp(wish, "0"));
}

int opencl_check_environment(void)
{
	const char *wish = env_get("HETMAP_OPENCL_QUIRKS");

	if (!wish || !*wish || !strcmp(wish, "0") || !strcmp(wish, "1"))
		return 0;
	return err_set(-EINVAL,
		       "HETMAP_OPENCL_QUIRKS is \"%s\": set it to 0, to rely on documented "
		       "behaviour only, or to 1, or not at all",
		       wish);
}

static bool version_between(const char *text, const uint32_t first[2], const uint32_t last[2])
{
	unsigned int major, minor;

	if (sscanf(text, "%u.%u", &major, &minor) != 2)
		return false;
	if (major < first[0] || (major == first[0] && minor < first[1]))
		return false;
	return major < last[0] || (major == last[0] && minor <= last[1]);
}

static const struct opencl_quirk *find_quirk(const struct opencl_device *device)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(quirks); i++)
		if (!strcmp(quirks[i].platform, device->platform_name) &&
		    (device->type & CL_DEVICE_TYPE_CPU) && device->svm &&
		    version_between(device->driver_version, quirks[i].first, quirks[i].last))
			return &quirks[i];
	return NULL;
}

static const char *find_build_options(const struct opencl_device *device)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(build_options); i++)
		if (!strcmp(build_options[i].platform, device->platform_name) &&
		    version_between(device->driver_version, build_options[i].first,
				    build_options[i].last))
			return build_options[i].options;
	return "";
}

/* A string of a device or platform, cut if it is longer than @to. */
static void device_text(cl_device_id id, cl_device_info what, char *to, size_t size)
{
	char text[1024] = "";

	if (clGetDeviceInfo(id, what, sizeof(text) - 1, text, NULL))
		text[0] = '\0';
	snprintf(to, size, "%s", text + strspn(text, " "));
}

static void platform_text(cl_platform_id id, cl_platform_info what, char *to, size_t size)
{
	char text[1024] = "";

	if (clGetPlatformInfo(id, what, sizeof(text) - 1, text, NULL))
		text[0] = '\0';
	snprintf(to, size, "%s", text);
}

static bool device_has(cl_device_id id, const char *extension)
{
	size_t length = 0, n = strlen(extension);
	bool found = false;
	char *text, *at;

	if (clGetDeviceInfo(id, CL_DEVICE_EXTENSIONS, 0, NULL, &length) || !length)
		return false;
	text = calloc(1, length + 1);
	if (!text)
		return false;
	if (!clGetDeviceInfo(id, CL_DEVICE_EXTENSIONS, length, text, NULL))
		for (at = strstr(text, extension); at && !found; at = strstr(at + 1, extension))
			found = (at == text || at[-1] == ' ') && (!at[n] || at[n] == ' ');
	free(text);
	return found;
}

#define GET(id, what, field) clGetDeviceInfo(id, what, sizeof(field), &(field), NULL)

static void add_device(cl_platform_id platform, cl_device_id id)
{
	struct opencl_device *device = &devices[n_device];
	cl_bool available = CL_FALSE, compiler = CL_FALSE;
	cl_ulong most = 0, memory = 0;
	cl_uint align_bits = 0, units = 0;

	if (n_device == DEVICE_MAX)
		return;
	memset(device, 0, sizeof(*device));
	GET(id, CL_DEVICE_AVAILABLE, available);
	GET(id, CL_DEVICE_COMPILER_AVAILABLE, compiler);
	GET(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, most);
	GET(id, CL_DEVICE_GLOBAL_MEM_SIZE, memory);
	GET(id, CL_DEVICE_MEM_BASE_ADDR_ALIGN, align_bits);
	GET(id, CL_DEVICE_MAX_COMPUTE_UNITS, units);
	if (!available || !compiler || most < WINDOW_UNIT)
		return;
	device->platform = platform;
	device->id = id;
	GET(id, CL_DEVICE_TYPE, device->type);
	GET(id, CL_DEVICE_HOST_UNIFIED_MEMORY, device->unified);
	/* Unknown before OpenCL 2.0: an error that leaves 0. */
	if (GET(id, CL_DEVICE_SVM_CAPABILITIES, device->svm))
		device->svm = 0;
	device->arm_import = device_has(id, "cl_arm_import_memory_host") ||
			     device_has(id, "cl_arm_import_memory");
	device->alignment = align_bits >= 8 ? align_bits / 8 : 1;
	device->window = round_down(most, WINDOW_UNIT);
	device->memory = memory;
	device->units = units;
	device_text(id, CL_DEVICE_NAME, device->name, sizeof(device->name));
	device_text(id, CL_DRIVER_VERSION, device->driver_version,
		    sizeof(device->driver_version));
	platform_text(platform, CL_PLATFORM_NAME, device->platform_name,
		      sizeof(device->platform_name));
	platform_text(platform, CL_PLATFORM_VERSION, device->platform_version,
		      sizeof(device->platform_version));
	device->quirk = find_quirk(device);
	device->build_options = find_build_options(device);
	device->blocks_sigbus = opencl_known_to_block(device);
	n_device++;
}

static unsigned int rank(const struct opencl_device *device)
{
	if (device->type & CL_DEVICE_TYPE_GPU)
		return 0;
	if (device->type & CL_DEVICE_TYPE_ACCELERATOR)
		return 1;
	return device->type & CL_DEVICE_TYPE_CPU ? 2 : 3;
}

/* Stable, so that devices of one rank stay in the loader's order. */
static void sort_devices(void)
{
	struct opencl_device device;
	uint32_t i, k;

	for (i = 1; i < n_device; i++) {
		device = devices[i];
		for (k = i; k && rank(&devices[k - 1]) > rank(&device); k--)
			devices[k] = devices[k - 1];
		devices[k] = device;
	}
	for (i = 0; i < n_device; i++)
		pthread_mutex_init(&devices[i].lock, NULL);
}

/* Threads that block SIGBUS came with the drivers; which driver started them is not known. */
static void blame(void)
{
	bool known = false;
	uint32_t i;

	for (i = 0; i < n_device; i++)
		known |= opencl_known_to_block(&devices[i]);
	for (i = 0; i < n_device && !known; i++)
		devices[i].blocks_sigbus = true;
}

static void load(void)
{
	cl_platform_id platforms[PLATFORM_MAX];
	cl_device_id ids[DEVICE_MAX];
	cl_uint n_platform = 0, n, i, k;
	struct opencl_watch watch;
	bool blocks, some_block;
	uint32_t first;
	cl_int error;

	atomic_store(&loaded_by, fork_generation + 1);
	/* The loader and its drivers take libraries to load from the environment. */
	if (env_is_foreign())
		return;
	opencl_watch_begin(&watch);
	error = clGetPlatformIDs(PLATFORM_MAX, platforms, &n_platform);
	some_block = opencl_watch_end(&watch);
	if (error)
		return;
	for (i = 0; i < n_platform && i < PLATFORM_MAX; i++) {
		n = 0;
		first = n_device;
		opencl_watch_begin(&watch);
		if (!clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, DEVICE_MAX, ids, &n))
			for (k = 0; k < n && k < DEVICE_MAX; k++)
				add_device(platforms[i], ids[k]);
		blocks = opencl_watch_end(&watch);
		for (; first < n_device && blocks; first++)
			devices[first].blocks_sigbus = true;
	}
	if (some_block)
		blame();
	sort_devices();
}

struct opencl_device *opencl_device_at(uint32_t index)
{
	uint32_t by = atomic_load(&loaded_by);

	/* Drivers' threads and locks do not survive fork(): a child has no devices. */
	if (by && by != fork_generation + 1)
		return NULL;
	pthread_once(&once, load);
	return index < n_device ? &devices[index] : NULL;
}
