// SPDX-License-Identifier: MIT
/*
 * Self-test: does memory behind a cl_mem stay in place? Runs once for a device and a kind of
 * backing, on scratch memory: the kernel must see bytes that the CPU writes after the cl_mem was
 * made, and a second mapping must see bytes that the kernel writes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/core.h"
#include "core/device_link.h"
#include "loss/device_loss.h"
#include "accel/opencl/opencl.h"
#include "base/env.h"
#include "base/rlimits.h"
#include "base/sys.h"

#define SCRATCH_BYTES KIB(64)
#define HUGE_BYTES MIB(2)
#define ROUNDS 2

static const char source[] = "__kernel void hetmap_selftest(__global uint *p)\n"
			     "{\n"
			     "	size_t i = get_global_id(0);\n"
			     "	p[i] = p[i] * 3u + 7u;\n"
			     "}\n";

struct scratch {
	struct hm_device *device; /* the memory's device, or NULL; borrowed */
	struct device_link *link; /* the memory's link, held */
	struct hm_segment segment;
	uint32_t *bytes;
	uint32_t *second; /* a second mapping of the same bytes, or NULL */
	size_t length;
};

/* ---- scratch memory of each backing ---- */

static int scratch_file(void)
{
	const char *folder = env_get("TMPDIR");
	char path[4096];
	int fd, n;

	if (!folder || folder[0] != '/')
		folder = "/var/tmp";
	fd = sys_open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0)
		return fd;
	/* A file system without O_TMPFILE: a name for a moment. */
	n = snprintf(path, sizeof(path), "%s/hetmap-selftest-%d", folder, (int)getpid());
	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;
	fd = sys_open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0)
		(void)sys_remove(path);
	return fd;
}

static int scratch_fd(uint32_t backing)
{
	switch (backing) {
	case HM_BACKING_MEMFD:
		return sys_memfd_create("hetmap-selftest", MFD_CLOEXEC);
	case HM_BACKING_HUGETLB:
		return sys_memfd_create("hetmap-selftest", MFD_CLOEXEC | MFD_HUGETLB);
	case HM_BACKING_FILE:
	case HM_BACKING_FILE_PRIVATE:
		return scratch_file();
	default:
		return -EOPNOTSUPP;
	}
}

/* Allocates all blocks: a lack of them is an error here, and no SIGBUS at a touch. */
static int take_blocks(int fd, size_t length)
{
	static const char zeros[KIB(4)];
	size_t at;
	int64_t n;
	int r;

	r = sys_fallocate(fd, 0, 0, length);
	/* A file system without fallocate(): writing allocates them, too. */
	for (at = 0; r == -EOPNOTSUPP && at < length; at += (size_t)n) {
		n = sys_pwrite(fd, zeros, min_u64(sizeof(zeros), length - at), at);
		if (n <= 0)
			return n ? (int)n : -EIO;
	}
	return r == -EOPNOTSUPP ? 0 : r;
}

static int scratch_size(int fd, uint32_t backing, size_t length)
{
	int r;

	/* Beyond the limit ftruncate() raises SIGXFSZ, which kills. */
	if (length > rlimits_file_size())
		return -EFBIG;
	r = sys_ftruncate(fd, length);
	/* Mapping reserves the huge pages. */
	if (r || backing == HM_BACKING_HUGETLB)
		return r;
	return take_blocks(fd, length);
}

static void scratch_end(struct scratch *scratch)
{
	if (scratch->second)
		sys_munmap(scratch->second, scratch->length);
	sys_munmap(scratch->bytes, scratch->length);
	if (scratch->device) {
		scratch->device->ops->object_destroy(scratch->link->backend, &scratch->segment);
		link_put(scratch->device, scratch->link);
	}
}

/*
 * Makes an object of the map's own device, mapped twice. It is no buffer: making one may find
 * the device lost, and call the very view that is being made.
 */
static int scratch_of_device(struct hm_device *device, struct scratch *ret_scratch)
{
	const struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.size = SCRATCH_BYTES,
		.max_size = SCRATCH_BYTES,
		.name = "selftest",
	};
	struct scratch scratch = { .device = device, .length = SCRATCH_BYTES };
	const struct hm_segment *segment = &scratch.segment;
	struct hm_recipe recipe;
	uint32_t said = err_count();
	void *address;
	int r;

	scratch.link = link_get(device);
	r = device->ops->create(scratch.link->backend, &desc, &recipe);
	if (r) {
		link_put(device, scratch.link);
		return backend_explain(device->ops, said, r, "create");
	}
	scratch.segment = recipe.segment;
	r = sys_mmap(NULL, scratch.length, PROT_READ | PROT_WRITE, MAP_SHARED, segment->fd,
		     segment->fd_offset, &address);
	if (r)
		goto err_object;
	scratch.bytes = address;
	r = sys_mmap(NULL, scratch.length, PROT_READ, MAP_SHARED, segment->fd,
		     segment->fd_offset, &address);
	if (r)
		goto err_bytes;
	scratch.second = address;
	*ret_scratch = scratch;
	return 0;

err_bytes:
	sys_munmap(scratch.bytes, scratch.length);
err_object:
	device->ops->object_destroy(scratch.link->backend, &scratch.segment);
	link_put(device, scratch.link);
	return rlimits_explain_map(r, scratch.length, TAKES_SPACE, "mapping it");
}

static int scratch_make(uint32_t backing, struct scratch *ret_scratch)
{
	bool shared = backing != HM_BACKING_ANON && backing != HM_BACKING_FILE_PRIVATE;
	int flags = shared ? MAP_SHARED : MAP_PRIVATE, fd = -1, r = 0;
	struct scratch scratch = { .length = SCRATCH_BYTES };
	void *address;

	if (backing == HM_BACKING_HUGETLB)
		scratch.length = HUGE_BYTES;
	if (backing == HM_BACKING_ANON) {
		flags |= MAP_ANONYMOUS;
	} else {
		fd = scratch_fd(backing);
		if (fd < 0)
			return fd;
		r = scratch_size(fd, backing, scratch.length);
		if (r)
			goto out;
	}
	r = sys_mmap(NULL, scratch.length, PROT_READ | PROT_WRITE, flags, fd, 0, &address);
	if (r)
		goto out;
	scratch.bytes = address;
	if (shared) {
		r = sys_mmap(NULL, scratch.length, PROT_READ, flags, fd, 0, &address);
		if (r) {
			sys_munmap(scratch.bytes, scratch.length);
			goto out;
		}
		scratch.second = address;
	}
	*ret_scratch = scratch;
out:
	if (fd >= 0)
		sys_close(fd);
	return r;
}

/* ---- the test ---- */

int opencl_wrap(struct opencl *cl, enum cl_memory_kind kind, cl_mem_flags rights, void *address,
		size_t length, cl_mem *ret_memory)
{
	const cl_import_properties_arm properties[] = { CL_IMPORT_TYPE_ARM,
							CL_IMPORT_TYPE_HOST_ARM, 0 };
	cl_int error;
	cl_mem memory;

	if (kind == CL_MEMORY_IMPORT) {
		memory = cl->import(cl->context, rights, properties, address, length, &error);
		if (error)
			return cl_error(error, "clImportMemoryARM of %zu bytes", length);
	} else {
		memory = clCreateBuffer(cl->context, rights | CL_MEM_USE_HOST_PTR, length,
					address, &error);
		if (error)
			return cl_error(error, "clCreateBuffer of %zu bytes at a host pointer",
					length);
	}
	*ret_memory = memory;
	return 0;
}

/* Queue and kernel of the test; from here on threads are watched. */
struct runner {
	struct opencl_watch watch;
	cl_command_queue queue;
	cl_kernel kernel;
	bool launched; /* the kernel has run */
};

static int runner_begin(struct opencl *cl, struct runner *runner)
{
	cl_program program;
	cl_int error;
	int r;

	runner->launched = false;
	r = opencl_program(cl, "hetmap_selftest", source, NULL, &program);
	if (r)
		return r;
	runner->kernel = clCreateKernel(program, "hetmap_selftest", &error);
	clReleaseProgram(program);
	if (error)
		return cl_error(error, "clCreateKernel");
	opencl_watch_begin(&runner->watch);
	runner->queue =
		clCreateCommandQueueWithProperties(cl->context, cl->device->id, NULL, &error);
	if (error) {
		r = cl_error(error, "clCreateCommandQueueWithProperties");
		goto err_kernel;
	}
	return 0;

err_kernel:
	opencl_watch_device(&runner->watch, cl->device);
	clReleaseKernel(runner->kernel);
	return r;
}

static void runner_end(struct opencl *cl, struct runner *runner)
{
	clFinish(runner->queue);
	opencl_watch_device(&runner->watch, cl->device);
	/* Only after the watch has stored its result. */
	if (runner->launched)
		atomic_store(&cl->device->launched, true);
	clReleaseCommandQueue(runner->queue);
	clReleaseKernel(runner->kernel);
}

static uint32_t pattern(size_t i, uint32_t round)
{
	return (uint32_t)i * 2654435761u + round * 40503u + 1;
}

static int run_round(cl_command_queue queue, cl_kernel kernel, cl_mem memory,
		     const struct scratch *scratch, bool flush)
{
	size_t n = scratch->length / sizeof(uint32_t);
	cl_int error;
	int r;

	if (flush) {
		r = opencl_flush_in(queue, memory, 0, scratch->length);
		if (r)
			return r;
	}
	error = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &n, NULL, 0, NULL, NULL);
	if (error)
		return cl_error(error, "clEnqueueNDRangeKernel");
	if (flush) {
		r = opencl_flush_out(queue, memory, 0, scratch->length, NULL);
		if (r)
			return r;
	}
	error = clFinish(queue);
	return error ? cl_error(error, "clFinish") : 0;
}

/* Sets *ret_same when the bytes of every round arrived both ways. */
static int run_rounds(cl_command_queue queue, cl_kernel kernel, cl_mem memory,
		      const struct scratch *scratch, bool flush, bool *ret_same)
{
	size_t n = scratch->length / sizeof(uint32_t), i;
	const uint32_t *seen = scratch->second ? scratch->second : scratch->bytes;
	bool same = true;
	uint32_t round;
	int r;

	for (round = 0; same && round < ROUNDS; round++) {
		for (i = 0; i < n; i++)
			scratch->bytes[i] = pattern(i, round);
		r = run_round(queue, kernel, memory, scratch, flush);
		if (r)
			return r;
		for (i = 0; same && i < n; i++)
			same = seen[i] == pattern(i, round) * 3u + 7u &&
			       scratch->bytes[i] == seen[i];
	}
	*ret_same = same;
	return 0;
}

static int test_memory(struct opencl *cl, struct runner *runner, enum cl_memory_kind kind,
		       const struct scratch *scratch, enum cl_coherence *ret_coherence)
{
	cl_command_queue queue = runner->queue;
	cl_kernel kernel = runner->kernel;
	enum cl_coherence coherence = CL_COPIES;
	bool same = false;
	cl_int error;
	cl_mem memory;
	int r;

	r = opencl_wrap(cl, kind, CL_MEM_READ_WRITE, scratch->bytes, scratch->length, &memory);
	if (r == -ENOMEM)
		return r;
	if (r) {
		/* A driver that refuses this memory has no such way in. */
		*ret_coherence = CL_COPIES;
		return 0;
	}
	error = clSetKernelArg(kernel, 0, sizeof(memory), &memory);
	if (error) {
		r = cl_error(error, "clSetKernelArg");
		goto out;
	}
	r = run_rounds(queue, kernel, memory, scratch, false, &same);
	if (r)
		goto out;
	runner->launched = true;
	if (same) {
		coherence = CL_COHERENT;
	} else if (cl->device->unified) {
		r = run_rounds(queue, kernel, memory, scratch, true, &same);
		if (!r && same)
			coherence = CL_NEEDS_MAP;
	}
	if (!r)
		*ret_coherence = coherence;
out:
	clReleaseMemObject(memory);
	return r;
}

int opencl_first_launch(struct opencl *cl)
{
	const size_t n = SCRATCH_BYTES / sizeof(uint32_t);
	struct runner runner;
	cl_int error;
	cl_mem memory;
	int r;

	r = runner_begin(cl, &runner);
	if (r)
		return r;
	memory = clCreateBuffer(cl->context, CL_MEM_READ_WRITE, SCRATCH_BYTES, NULL, &error);
	if (error) {
		r = cl_error(error, "clCreateBuffer of %u bytes", (unsigned int)SCRATCH_BYTES);
		goto out_runner;
	}
	error = clSetKernelArg(runner.kernel, 0, sizeof(memory), &memory);
	if (!error)
		error = clEnqueueNDRangeKernel(runner.queue, runner.kernel, 1, NULL, &n, NULL,
					       0, NULL, NULL);
	if (!error)
		error = clFinish(runner.queue);
	if (error)
		r = cl_error(error, "a first launch");
	runner.launched = !r;
	clReleaseMemObject(memory);
out_runner:
	runner_end(cl, &runner);
	return r;
}

static const char *scratch_remedy(int r, uint32_t backing)
{
	if (r == -EFBIG)
		return ": raise RLIMIT_FSIZE (ulimit -f)";
	if ((r == -ENOSPC || r == -EDQUOT) &&
	    (backing == HM_BACKING_FILE || backing == HM_BACKING_FILE_PRIVATE))
		return ": set TMPDIR to a folder that has room";
	return "";
}

static int run_test(struct opencl *cl, enum cl_memory_kind kind, const struct hm_accel_map *map,
		    enum cl_coherence *ret_coherence)
{
	struct device_link *link;
	struct scratch scratch;
	struct runner runner;
	int r;

	if (map->backing == HM_BACKING_DEVICE) {
		r = scratch_of_device(map->device, &scratch);
		if (r)
			return err_prefix(r, "no scratch memory like that of the map");
	} else {
		r = scratch_make(map->backing, &scratch);
		if (r)
			return err_set(r, "no scratch memory like that of the map: %s%s",
				       err_name(r), scratch_remedy(r, map->backing));
	}
	r = runner_begin(cl, &runner);
	if (r)
		goto out_scratch;
	link = scratch.link ? link_hold(scratch.link) : link_get(map->device);
	r = device_loss_touch_begin(map->device, link);
	if (r)
		goto out_link;
	r = test_memory(cl, &runner, kind, &scratch, ret_coherence);
	clFinish(runner.queue);
	device_loss_touch_end();
out_link:
	link_put(map->device, link);
	runner_end(cl, &runner);
out_scratch:
	scratch_end(&scratch);
	return r;
}

/* Finds the record of results for the map's kind of memory. */
static struct opencl_tested *find_tested(struct opencl_device *device,
					 const struct hm_accel_map *map)
{
	struct opencl_tested *tested = device->device_tested;

	if (map->backing != HM_BACKING_DEVICE)
		return map->backing < BACKING_MAX ? &device->tested[map->backing] : NULL;
	for (; tested < device->device_tested + DEVICES_MAX; tested++) {
		if (!tested->backend[0])
			snprintf(tested->backend, sizeof(tested->backend), "%s", map->backend);
		if (!strncmp(tested->backend, map->backend, sizeof(tested->backend) - 1))
			return tested;
	}
	return NULL;
}

int opencl_coherence(struct opencl *cl, enum cl_memory_kind kind,
		     const struct hm_accel_map *map, enum cl_coherence *ret_coherence)
{
	struct opencl_device *device = cl->device;
	struct opencl_tested *tested;
	enum cl_coherence *known;
	int r = 0;

	pthread_mutex_lock(&device->lock);
	tested = find_tested(device, map);
	if (!tested) {
		r = err_set(-EOPNOTSUPP, "memory of %s, backing %u, is not known here",
			    map->backend, map->backing);
		goto out;
	}
	known = kind == CL_MEMORY_IMPORT ? &tested->import : &tested->host_ptr;
	if (!*known)
		r = run_test(cl, kind, map, known);
	if (!r)
		*ret_coherence = *known;
out:
	pthread_mutex_unlock(&device->lock);
	return r ? err_prefix(r, "self-test of %s", device->name) : 0;
}
