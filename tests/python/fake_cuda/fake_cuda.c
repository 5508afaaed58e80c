// SPDX-License-Identifier: MIT
/*
 * A driver of CUDA without a device: libcuda.so.1 for the tests of hetmap.cuda. It has two devices
 * of 64 MiB, whose memory is memfds of the process. Copies run when their stream is waited for, so
 * that memory which goes too early is missed. Where cuda.h is installed the functions and structs
 * are checked by it.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__has_include)
#if __has_include(<cuda.h>) && !defined(NO_CUDA_H)
#include <cuda.h>
#define HAVE_CUDA_H 1
#endif
#endif

#ifndef HAVE_CUDA_H
#define HAVE_CUDA_H 0

typedef int CUresult, CUdevice, CUdevice_attribute, CUpointer_attribute;
typedef int CUmemAllocationGranularity_flags;
typedef unsigned long long CUdeviceptr, CUmemGenericAllocationHandle;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;

typedef struct {
	int type, id;
} CUmemLocation;

typedef struct {
	int type, requestedHandleTypes;
	CUmemLocation location;
	void *win32HandleMetaData;
	struct {
		unsigned char compressionType, gpuDirectRDMACapable;
		unsigned short usage;
		unsigned char reserved[4];
	} allocFlags;
} CUmemAllocationProp;

typedef struct {
	CUmemLocation location;
	int flags;
} CUmemAccessDesc;
#endif

#define MEMORY (64ull << 20)
#define GRANULE (2ull << 20)
#define MOST 256
#define DEVICES 2
/* Device addresses of pages of the host differ from the host's. */
#define SHIFT 0x100000000000ull

enum { FAKE_INVALID = 1, FAKE_NO_MEMORY = 2, FAKE_NO_INIT = 3, FAKE_NO_DEVICE = 101 };
enum { FAKE_NO_CONTEXT = 201, FAKE_BUSY = 712, FAKE_NOT_REGISTERED = 713 };

struct range {
	uint64_t begin, size;
	uint64_t handle; /* memory that is mapped there */
	unsigned int flags;
	int used, device, accessible;
};

struct copy {
	void *to;
	const void *from;
	size_t n;
	void *stream;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct range registered[MOST], reserved[MOST], mapped[MOST], memory[MOST];
static struct copy copies[MOST];
static int n_copies, streams, started, contexts[DEVICES];
static _Thread_local struct {
	CUcontext stack[16];
	int depth;
} current;

/* ---- questions of the tests ---- */

#define FOR_TESTS __attribute__((visibility("default")))

FOR_TESTS int fake_live(void);
FOR_TESTS uint64_t fake_taken(int device);
FOR_TESTS size_t fake_size(int what);
FOR_TESTS unsigned int fake_flags(uint64_t address);
FOR_TESTS void fake_reset(void);

static int count_of(const struct range *ranges)
{
	int n = 0;

	for (int i = 0; i < MOST; i++)
		n += ranges[i].used;
	return n;
}

/* Objects that are not ended. */
int fake_live(void)
{
	return count_of(registered) + count_of(reserved) + count_of(mapped) + count_of(memory) +
	       streams + contexts[0] + contexts[1] + n_copies + current.depth;
}

uint64_t fake_taken(int device)
{
	uint64_t taken = 0;

	for (int i = 0; i < MOST; i++)
		taken += memory[i].used && memory[i].device == device ? memory[i].size : 0;
	return taken;
}

/* 0: whether cuda.h was there; 1 and 2: its structs. */
size_t fake_size(int what)
{
	return what == 0 ? HAVE_CUDA_H :
	       what == 1 ? sizeof(CUmemAllocationProp) :
			   sizeof(CUmemAccessDesc);
}

unsigned int fake_flags(uint64_t address)
{
	for (int i = 0; i < MOST; i++)
		if (registered[i].used && registered[i].begin == address)
			return registered[i].flags;
	return 0;
}

/* All memory goes, as with a context that has ended. */
void fake_reset(void)
{
	for (int i = 0; i < MOST; i++) {
		if (memory[i].used)
			close((int)memory[i].begin);
		if (reserved[i].used)
			munmap((void *)(uintptr_t)reserved[i].begin, reserved[i].size);
		memory[i].used = reserved[i].used = mapped[i].used = 0;
	}
	n_copies = 0;
}

/* ---- the driver ---- */

#define PUBLIC FOR_TESTS
#define BEGIN(needs_context)                                     \
	do {                                                     \
		pthread_mutex_lock(&lock);                       \
		if (!started)                                    \
			return leave((CUresult)FAKE_NO_INIT);    \
		if ((needs_context) && !current.depth)           \
			return leave((CUresult)FAKE_NO_CONTEXT); \
	} while (0)

static CUresult leave(CUresult result)
{
	pthread_mutex_unlock(&lock);
	return result;
}

static struct range *free_of(struct range *ranges)
{
	for (int i = 0; i < MOST; i++)
		if (!ranges[i].used)
			return &ranges[i];
	abort();
}

static struct range *find(struct range *ranges, uint64_t address, uint64_t n)
{
	for (int i = 0; i < MOST; i++)
		if (ranges[i].used && address >= ranges[i].begin &&
		    address + n <= ranges[i].begin + ranges[i].size)
			return &ranges[i];
	return NULL;
}

static int device_now(void)
{
	return (int)(uintptr_t)current.stack[current.depth - 1] - 1;
}

PUBLIC CUresult cuInit(unsigned int flags);
CUresult cuInit(unsigned int flags)
{
	pthread_mutex_lock(&lock);
	started = 1;
	return leave((CUresult)(flags ? FAKE_INVALID : 0));
}

PUBLIC CUresult cuGetErrorName(CUresult error, const char **name);
CUresult cuGetErrorName(CUresult error, const char **name)
{
	static const struct {
		int error;
		const char *name;
	} names[] = {
		{ 1, "CUDA_ERROR_INVALID_VALUE" },
		{ 2, "CUDA_ERROR_OUT_OF_MEMORY" },
		{ 34, "CUDA_ERROR_STUB_LIBRARY" },
		{ 101, "CUDA_ERROR_INVALID_DEVICE" },
		{ 201, "CUDA_ERROR_INVALID_CONTEXT" },
		{ 712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED" },
		{ 713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED" },
		{ 719, "CUDA_ERROR_LAUNCH_FAILED" },
		{ 801, "CUDA_ERROR_NOT_SUPPORTED" },
	};

	*name = NULL;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].error == (int)error)
			*name = names[i].name;
	return (CUresult)(*name ? 0 : FAKE_INVALID);
}

PUBLIC CUresult cuDriverGetVersion(int *version);
CUresult cuDriverGetVersion(int *version)
{
	*version = 12040;
	return (CUresult)0;
}

PUBLIC CUresult cuDeviceGetCount(int *count);
CUresult cuDeviceGetCount(int *count)
{
	BEGIN(0);
	*count = DEVICES;
	return leave((CUresult)0);
}

PUBLIC CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	BEGIN(0);
	if (ordinal < 0 || ordinal >= DEVICES)
		return leave((CUresult)FAKE_NO_DEVICE);
	*device = ordinal;
	return leave((CUresult)0);
}

PUBLIC CUresult cuDeviceGetName(char *name, int length, CUdevice device);
CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
	BEGIN(0);
	strncpy(name, device ? "a second fake" : "a fake", (size_t)length);
	return leave((CUresult)0);
}

#undef cuDeviceTotalMem
PUBLIC CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	(void)device;
	BEGIN(0);
	*bytes = MEMORY;
	return leave((CUresult)0);
}

/* The second device registers no read-only pages. */
PUBLIC CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device);
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	BEGIN(0);
	*value = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 113 ? device == 0 : 1;
	return leave((CUresult)0);
}

PUBLIC CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	BEGIN(0);
	contexts[device]++;
	*context = (CUcontext)(uintptr_t)(device + 1);
	return leave((CUresult)0);
}

PUBLIC CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	BEGIN(0);
	contexts[device]--;
	return leave((CUresult)0);
}

PUBLIC CUresult cuCtxPushCurrent_v2(CUcontext context);
CUresult cuCtxPushCurrent_v2(CUcontext context)
{
	BEGIN(0);
	if (!context || current.depth == 16)
		return leave((CUresult)FAKE_NO_CONTEXT);
	current.stack[current.depth++] = context;
	return leave((CUresult)0);
}

PUBLIC CUresult cuCtxPopCurrent_v2(CUcontext *context);
CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
	if (!current.depth)
		return (CUresult)FAKE_NO_CONTEXT;
	*context = current.stack[--current.depth];
	return (CUresult)0;
}

PUBLIC CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total);
CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	BEGIN(1);
	*total = MEMORY;
	*free_bytes = MEMORY - fake_taken(device_now());
	return leave((CUresult)0);
}

PUBLIC CUresult cuMemHostRegister_v2(void *p, size_t n, unsigned int flags);
CUresult cuMemHostRegister_v2(void *p, size_t n, unsigned int flags)
{
	uint64_t at = (uint64_t)(uintptr_t)p;

	BEGIN(1);
	for (int i = 0; i < MOST; i++)
		if (registered[i].used && at < registered[i].begin + registered[i].size &&
		    registered[i].begin < at + n)
			return leave((CUresult)FAKE_BUSY);
	*free_of(registered) = (struct range){ at, n, 0, flags, 1, device_now(), 1 };
	return leave((CUresult)0);
}

PUBLIC CUresult cuMemHostUnregister(void *p);
CUresult cuMemHostUnregister(void *p)
{
	struct range *range;

	BEGIN(1);
	range = find(registered, (uint64_t)(uintptr_t)p, 1);
	if (!range || range->begin != (uint64_t)(uintptr_t)p)
		return leave((CUresult)FAKE_NOT_REGISTERED);
	range->used = 0;
	return leave((CUresult)0);
}

PUBLIC CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pointer, void *p, unsigned int flags);
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pointer, void *p, unsigned int flags)
{
	BEGIN(1);
	if (flags || !find(registered, (uint64_t)(uintptr_t)p, 1))
		return leave((CUresult)FAKE_INVALID);
	*pointer = (uint64_t)(uintptr_t)p + SHIFT;
	return leave((CUresult)0);
}

PUBLIC CUresult cuPointerGetAttributes(unsigned int n, CUpointer_attribute *attributes,
				       void **data, CUdeviceptr pointer);
CUresult cuPointerGetAttributes(unsigned int n, CUpointer_attribute *attributes, void **data,
				CUdeviceptr pointer)
{
	struct range *device, *host;

	BEGIN(1);
	device = find(mapped, pointer, 1);
	host = find(registered, pointer, 1);
	if (!host)
		host = find(registered, pointer - SHIFT, 1);
	for (unsigned int i = 0; i < n; i++) {
		struct range *range = device ? device : host;
		uint64_t at = host && pointer >= host->begin + SHIFT ? pointer - SHIFT :
								       pointer;

		switch ((int)attributes[i]) {
		case 2:
			*(unsigned int *)data[i] = device ? 2 : host ? 1 : 0;
			break;
		case 3:
			*(uint64_t *)data[i] = device ? pointer : host ? at + SHIFT : 0;
			break;
		case 4:
			*(uint64_t *)data[i] = device || !host ? 0 : at;
			break;
		case 8:
			*(int *)data[i] = 0;
			break;
		case 9:
			*(int *)data[i] = range ? range->device : -2;
			break;
		case 11:
			*(uint64_t *)data[i] = range ? range->begin + (device ? 0 : SHIFT) : 0;
			break;
		case 12:
			*(size_t *)data[i] = range ? range->size : 0;
			break;
		default:
			return leave((CUresult)FAKE_INVALID);
		}
	}
	return leave((CUresult)0);
}

PUBLIC CUresult cuMemGetAllocationGranularity(size_t *granule, const CUmemAllocationProp *prop,
					      CUmemAllocationGranularity_flags option);
CUresult cuMemGetAllocationGranularity(size_t *granule, const CUmemAllocationProp *prop,
				       CUmemAllocationGranularity_flags option)
{
	(void)option;
	BEGIN(1);
	if (prop->type != 1 || prop->location.type != 1)
		return leave((CUresult)FAKE_INVALID);
	*granule = GRANULE;
	return leave((CUresult)0);
}

PUBLIC CUresult cuMemAddressReserve(CUdeviceptr *pointer, size_t size, size_t alignment,
				    CUdeviceptr wanted, unsigned long long flags);
CUresult cuMemAddressReserve(CUdeviceptr *pointer, size_t size, size_t alignment,
			     CUdeviceptr wanted, unsigned long long flags)
{
	void *at;

	BEGIN(1);
	if (!size || size % GRANULE || alignment || wanted || flags)
		return leave((CUresult)FAKE_INVALID);
	at = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return leave((CUresult)FAKE_NO_MEMORY);
	*pointer = (uint64_t)(uintptr_t)at;
	*free_of(reserved) = (struct range){ *pointer, size, 0, 0, 1, device_now(), 0 };
	return leave((CUresult)0);
}

/* Not while memory is mapped there. */
PUBLIC CUresult cuMemAddressFree(CUdeviceptr pointer, size_t size);
CUresult cuMemAddressFree(CUdeviceptr pointer, size_t size)
{
	struct range *range;

	BEGIN(1);
	range = find(reserved, pointer, size);
	if (!range || range->begin != pointer || range->size != size)
		return leave((CUresult)FAKE_INVALID);
	for (int i = 0; i < MOST; i++)
		if (mapped[i].used && find(range, mapped[i].begin, 1) == range)
			return leave((CUresult)FAKE_INVALID);
	munmap((void *)(uintptr_t)pointer, size);
	range->used = 0;
	return leave((CUresult)0);
}

PUBLIC CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
			    const CUmemAllocationProp *prop, unsigned long long flags);
CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
		     const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct range *range;
	int fd;

	BEGIN(1);
	if (!size || size % GRANULE || flags || prop->type != 1)
		return leave((CUresult)FAKE_INVALID);
	if (fake_taken(prop->location.id) + size > MEMORY)
		return leave((CUresult)FAKE_NO_MEMORY);
	fd = memfd_create("fake device", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)size))
		abort();
	range = free_of(memory);
	*range = (struct range){ (uint64_t)fd, size, 0, 0, 1, prop->location.id, 0 };
	*handle = (uint64_t)(range - memory) + 1;
	return leave((CUresult)0);
}

PUBLIC CUresult cuMemRelease(CUmemGenericAllocationHandle handle);
CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	BEGIN(1);
	if (!handle || handle > MOST || !memory[handle - 1].used)
		return leave((CUresult)FAKE_INVALID);
	close((int)memory[handle - 1].begin);
	memory[handle - 1].used = 0;
	return leave((CUresult)0);
}

PUBLIC CUresult cuMemMap(CUdeviceptr pointer, size_t size, size_t offset,
			 CUmemGenericAllocationHandle handle, unsigned long long flags);
CUresult cuMemMap(CUdeviceptr pointer, size_t size, size_t offset,
		  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	BEGIN(1);
	if (offset || flags || !find(reserved, pointer, size) || find(mapped, pointer, 1) ||
	    !handle || handle > MOST || memory[handle - 1].size != size)
		return leave((CUresult)FAKE_INVALID);
	if (mmap((void *)(uintptr_t)pointer, size, PROT_NONE, MAP_SHARED | MAP_FIXED,
		 (int)memory[handle - 1].begin, 0) == MAP_FAILED)
		abort();
	*free_of(mapped) = (struct range){ pointer, size, handle, 0, 1, device_now(), 0 };
	return leave((CUresult)0);
}

PUBLIC CUresult cuMemUnmap(CUdeviceptr pointer, size_t size);
CUresult cuMemUnmap(CUdeviceptr pointer, size_t size)
{
	struct range *range;

	BEGIN(1);
	range = find(mapped, pointer, size);
	if (!range || range->begin != pointer || range->size != size)
		return leave((CUresult)FAKE_INVALID);
	if (mmap((void *)(uintptr_t)pointer, size, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED)
		abort();
	range->used = 0;
	return leave((CUresult)0);
}

PUBLIC CUresult cuMemSetAccess(CUdeviceptr pointer, size_t size, const CUmemAccessDesc *desc,
			       size_t n);
CUresult cuMemSetAccess(CUdeviceptr pointer, size_t size, const CUmemAccessDesc *desc, size_t n)
{
	struct range *range;

	BEGIN(1);
	range = find(mapped, pointer, size);
	if (!range || n != 1 || desc->location.type != 1 || desc->flags != 3 ||
	    desc->location.id != range->device)
		return leave((CUresult)FAKE_INVALID);
	mprotect((void *)(uintptr_t)pointer, size, PROT_READ | PROT_WRITE);
	range->accessible = 1;
	return leave((CUresult)0);
}

/* One or more parts, all of which the device may touch. */
static int is_accessible(uint64_t at, uint64_t n)
{
	while (n) {
		struct range *range = find(mapped, at, 1);
		uint64_t part;

		if (!range || !range->accessible)
			return 0;
		part = range->begin + range->size - at;
		part = part < n ? part : n;
		at += part, n -= part;
	}
	return 1;
}

static CUresult copy_later(void *to, const void *from, size_t n, CUstream stream)
{
	if (n_copies == MOST || !stream)
		return (CUresult)FAKE_INVALID;
	copies[n_copies++] = (struct copy){ to, from, n, stream };
	return (CUresult)0;
}

PUBLIC CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n,
				     CUstream stream);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, CUstream stream)
{
	BEGIN(1);
	if (!is_accessible(to, n))
		return leave((CUresult)FAKE_INVALID);
	return leave(copy_later((void *)(uintptr_t)to, from, n, stream));
}

PUBLIC CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, CUstream stream);
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, CUstream stream)
{
	BEGIN(1);
	if (!is_accessible(from, n))
		return leave((CUresult)FAKE_INVALID);
	return leave(copy_later(to, (const void *)(uintptr_t)from, n, stream));
}

PUBLIC CUresult cuStreamCreate(CUstream *stream, unsigned int flags);
CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
	(void)flags;
	BEGIN(1);
	streams++;
	*stream = malloc(1);
	return leave((CUresult)0);
}

/* Makes the copies of a stream, or drops them. */
static void finish(CUstream stream, int makes)
{
	int n = 0;

	for (int i = 0; i < n_copies; i++) {
		if (copies[i].stream != stream)
			copies[n++] = copies[i];
		else if (makes)
			memcpy(copies[i].to, copies[i].from, copies[i].n);
	}
	n_copies = n;
}

PUBLIC CUresult cuStreamSynchronize(CUstream stream);
CUresult cuStreamSynchronize(CUstream stream)
{
	BEGIN(1);
	finish(stream, 1);
	return leave((CUresult)0);
}

PUBLIC CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuStreamDestroy_v2(CUstream stream)
{
	BEGIN(1);
	finish(stream, 0);
	streams--;
	free(stream);
	return leave((CUresult)0);
}
