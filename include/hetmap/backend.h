/* SPDX-License-Identifier: MIT */
/*
 * Interface for plug-ins that add a kind of device. A backend describes buffers, and the core
 * maps them.
 *
 * A backend is one static const struct hm_backend_ops. The backend describes each buffer by a
 * recipe of segments, and only the library's map step calls mmap(). The smallest useful backend
 * has the mandatory operations and one operation that makes a buffer.
 */
#ifndef HETMAP_BACKEND_H
#define HETMAP_BACKEND_H

#include <hetmap/buffer.h>

#ifdef __cplusplus
extern "C" {
#endif

/* hm_segment.flags */
#define HM_SEGMENT_SHARED (1u << 0)
#define HM_SEGMENT_PRIVATE (1u << 1)
#define HM_SEGMENT_ANON (1u << 2)      /* anonymous memory; fd is -1 */
#define HM_SEGMENT_SYNC (1u << 3)      /* MAP_SYNC: DAX */
#define HM_SEGMENT_NORESERVE (1u << 4) /* MAP_NORESERVE */
/* mmap() accepts only offset 0 of the object, with any length up to the object's. */
#define HM_SEGMENT_FROM_START (1u << 5)
/*
 * Faults count from the start of a mapping, also after a cut of the mapping. The library
 * therefore brings every page in before anything can cut the mapping.
 */
#define HM_SEGMENT_PRESENT (1u << 6)
#define HM_SEGMENT_DMABUF (1u << 7) /* fd is a dma-buf */
/*
 * mmap() maps all of the segment or nothing. The library makes maps of a part from such a
 * mapping. The flag is for buffers with neither HM_CAP_APPEND, which would cut the mapping, nor
 * HM_CAP_RESIZE_REPLACES.
 */
#define HM_SEGMENT_WHOLE (1u << 8)
/*
 * mmap() belongs to a driver, and may fail although it worked before, for example when the
 * device is gone. A dma-buf needs no such flag: the same holds for every dma-buf.
 */
#define HM_SEGMENT_MAY_REFUSE (1u << 9)

/*
 * hm_recipe.memory: properties of the buffer's memory that its segments, flags and capabilities
 * do not tell. The library treats memory with none of these bits as an object of the device: it
 * asks nothing of the descriptor except mmap().
 */
/*
 * The object is a memfd with F_SEAL_SHRINK, so that no process can cut its bytes off. The library
 * reads the memfd's seals, and may add more.
 */
#define HM_MEMORY_SEALED (1u << 0)
/*
 * The bytes are a file's: they outlive the buffer, and programs that open the file may change
 * them and cut them off.
 */
#define HM_MEMORY_STORAGE (1u << 1)
/*
 * The pages are this machine's ordinary memory and come at the first touch. A hole punched into
 * the object (FALLOC_FL_PUNCH_HOLE) gives pages back and reads as zeros.
 */
#define HM_MEMORY_SPARSE (1u << 2)

/* One device object, or a part of it, inside a buffer. */
struct hm_segment {
	uint64_t offset; /* bytes from the start of the buffer; page-aligned */
	uint64_t length; /* capacity: bytes that can be mapped, committed or not */
	uint64_t fd_offset;
	int fd;         /* descriptor of the backend, open as long as the segment lives */
	uint32_t flags; /* HM_SEGMENT_* */
	void *object;   /* data of the backend, for object_destroy */
};

/* Description of how to map a buffer. The backend fills the recipe, the core keeps it. */
struct hm_recipe {
	struct hm_segment segment; /* first segment, as a rule the only one */
	uint64_t size;             /* bytes to commit at first */
	uint64_t page_size;        /* unit of offsets and rights */
	uint64_t alignment;        /* of the map's address, if there is room; 0: page_size */
	uint64_t caps;             /* HM_CAP_* of this buffer */
	uint32_t access;           /* HM_READ | HM_WRITE a map may have */
	uint32_t cache;            /* enum hm_cache; HM_CACHE_UNKNOWN: not told */
	uint32_t memory;           /* HM_MEMORY_* */
	uint32_t flags;            /* HM_BUFFER_* in force */
	/*
	 * Bytes to which the buffer may grow at the addresses of its maps, by further objects.
	 * Such growth needs HM_CAP_RESIZE_REPLACES. 0: the segment's length.
	 */
	uint64_t max_size;
	uint32_t place; /* enum hm_place of the buffer; HM_PLACE_DEFAULT: not known */
	/* Policy of all maps; HM_NUMA_DEFAULT: that of the description (HM_CAP_NUMA). */
	uint32_t numa_mode;
	uint64_t numa_nodes; /* bit n: node n */
	/*
	 * enum hm_persist of the bytes. HM_PERSIST_PAGE needs HM_CAP_SYNC. From HM_PERSIST_LINE
	 * on, mmap() must not need a sync of the file for what CPUs write back (MAP_SYNC).
	 */
	uint32_t persist;
	/* Further fields are appended here; the core has zeroed the fields that stay empty. */
};

/*
 * hm_backend_ops.caps, beside HM_CAP_*: operations that only the library calls. Queries of
 * devices and buffers leave these bits out.
 */
#define HM_BACKEND_LIST (1ull << 48) /* each_device: the number of devices may differ from 1 */
#define HM_BACKEND_LOSS (1ull << 49) /* device_check: a device may be taken away */
/*
 * device_ask: maps may show a loss before device_check knows of it, so that the library must
 * ask. Needs HM_BACKEND_LOSS.
 */
#define HM_BACKEND_LOSS_ASK (1ull << 50)
/* lost_signal: a loss can be made a SIGBUS. Needs HM_BACKEND_LOSS_ASK. */
#define HM_BACKEND_LOSS_SIGNAL (1ull << 51)
#define HM_BACKEND_REACH (1ull << 52) /* hidden: CPUs may reach only a part of the bytes */
#define HM_BACKEND_BRACKET_END (1ull << 53) /* end_cpu. Needs HM_CAP_BRACKET */
/*
 * An imported dma-buf is a segment itself, and begin_cpu and end_cpu only call
 * DMA_BUF_IOCTL_SYNC for segments with HM_SEGMENT_DMABUF. The library may make these calls
 * itself. Needs HM_BACKEND_BRACKET_END.
 */
#define HM_BACKEND_BRACKET_DMABUF (1ull << 54)
#define HM_BACKEND_MAP_CACHE (1ull << 55) /* map_keep and map_take */
#define HM_BACKEND_EVICTIONS (1ull << 56) /* evictions */
#define HM_BACKEND_CAPS (0xffffull << 48) /* all bits that only the library sees */

struct hm_backend_ops {
	size_t size;      /* sizeof(struct hm_backend_ops) of the plug-in */
	const char *name; /* "host": the part of a device name before ':' */
	const char *description;
	uint64_t caps; /* HM_CAP_* and HM_BACKEND_*: capabilities of the table below */

	/* Mandatory operations. */

	/* Opens a device. @rest is the part of its name after the ':', or "". */
	int (*device_open)(const char *rest, void **ret_device);
	void (*device_close)(void *device);
	/*
	 * Fills the fields that the core cannot know. The core has set name, backend and caps
	 * already.
	 */
	int (*device_query)(void *device, struct hm_device_info *info);
	/*
	 * Ends one object. The core calls it once for each segment, when the segment is
	 * unmapped.
	 */
	void (*object_destroy)(void *device, struct hm_segment *segment);

	/* Optional operations. Each has a bit in caps, and is there exactly if its bit is set. */

	/*
	 * HM_CAP_CREATE: makes a buffer. The core has checked @desc and filled in its max_size.
	 */
	int (*create)(void *device, const struct hm_buffer_desc *desc,
		      struct hm_recipe *ret_recipe);
	/*
	 * HM_CAP_FROM_FILE: makes a buffer of a file. @fd is a duplicate of the core, which
	 * belongs to the backend if the operation succeeds.
	 */
	int (*from_file)(void *device, int fd, const struct hm_buffer_desc *desc,
			 struct hm_recipe *ret_recipe);
	/*
	 * HM_CAP_IMPORT: makes a buffer of a foreign object. @fd is as for from_file.
	 */
	int (*import_fd)(void *device, int fd, const struct hm_buffer_desc *desc,
			 struct hm_recipe *ret_recipe);
	/* HM_CAP_EXPORT: returns a new descriptor in *ret_fd. */
	int (*export_fd)(void *device, const struct hm_segment *segment, uint32_t flags,
			 int *ret_fd);
	/*
	 * HM_CAP_RESIZE: makes @new_size bytes of the segment usable before the core maps them.
	 * In a shrink, the operation gives the rest back after the core has unmapped it. Sizes
	 * are relative to the segment. The bytes that the segment grows by must be zero, and so
	 * must the rest of the page of @old_size: CPUs may have stored there, behind the end.
	 */
	int (*resize)(void *device, struct hm_segment *segment, uint64_t old_size,
		      uint64_t new_size);

	/*
	 * HM_BACKEND_LIST: calls @each with the name of every device that exists now, in the
	 * order that lists have. If @each returns a value other than 0, the operation must stop
	 * and return that value. The operation may also return -ENOMEM. @each opens devices of
	 * this backend. Without the bit the backend has one device, called by the backend's name.
	 */
	int (*each_device)(int (*each)(void *user, const char *name), void *user);
	/*
	 * HM_BACKEND_LOSS: returns 0, or -ENODEV once the device is known to have been taken
	 * away. The operation must not make a system call. Without the bit the device cannot be
	 * taken away.
	 */
	int (*device_check)(void *device);
	/*
	 * HM_BACKEND_REACH: returns 1 if a touch by a CPU of byte @offset of the segment must
	 * raise SIGBUS although the segment's descriptor has bytes there, and 0 otherwise. The
	 * operation stores in *ret_length the number of bytes, @length at most, to which this
	 * answer applies. The library hides these bytes. Without the bit the device takes pages
	 * away from its maps by itself.
	 */
	int (*hidden)(void *device, const struct hm_segment *segment, uint64_t offset,
		      uint64_t length, uint64_t *ret_length);
	/*
	 * HM_CAP_BRACKET, which the recipe of each buffer that needs brackets must have, too:
	 * brings bytes [@offset, @offset + @length) of the buffer to where CPUs reach them, for
	 * @access. The segments make up the buffer. The bytes may leave that place again at any
	 * time.
	 */
	int (*begin_cpu)(void *device, const struct hm_segment *segments, uint32_t n_segment,
			 uint64_t offset, uint64_t length, uint32_t access);
	/*
	 * HM_BACKEND_BRACKET_END: ends the access that begin_cpu began. The buffer may have
	 * changed since. Without the bit an end needs no work.
	 */
	int (*end_cpu)(void *device, const struct hm_segment *segments, uint32_t n_segment,
		       uint64_t offset, uint64_t length, uint32_t access);
	/*
	 * HM_BACKEND_MAP_CACHE, map_keep and map_take both: keeps a mapping that is expensive to
	 * make. @address is a mapping of the whole segment, as the core made it, after its map
	 * has ended. If the operation returns 0, the mapping belongs to the device from then on.
	 * Otherwise the core unmaps the mapping.
	 */
	int (*map_keep)(void *device, const struct hm_segment *segment, void *address);
	/*
	 * HM_BACKEND_MAP_CACHE: returns a mapping of the whole segment, with any rights, or NULL.
	 * The mapping belongs to the core from then on.
	 */
	void *(*map_take)(void *device, const struct hm_segment *segment);
	/*
	 * HM_BACKEND_EVICTIONS: returns the address of a counter in this process's memory, or
	 * NULL if this process does not count. The counter holds the number of times that memory
	 * of the segment's object made room for other memory. The counter must stay at its
	 * address as long as the object exists. The operation must not make a system call.
	 */
	const uint64_t *(*evictions)(void *device, const struct hm_segment *segment);
	/*
	 * HM_BACKEND_LOSS_ASK: asks the device itself, by one call, whether it still exists.
	 * device_check must know the answer afterwards. The library calls the operation whenever
	 * a bracket, a copy or work of an accelerator has ended that used bytes of the device.
	 * Without the bit, maps must not show a loss before device_check knows of it.
	 */
	int (*device_ask)(void *device);
	/*
	 * HM_BACKEND_LOSS_SIGNAL, for devices with maps that become zeros once the device was
	 * taken away, before device_check knows of the loss: makes maps of the segment's object
	 * raise SIGBUS instead. The change takes effect at once, also on existing mappings. The
	 * library reads the object's bytes by pread(2) of the segment's fd, at fd_offset. The
	 * library may call the operation again for an object that is so already. Returns 0, or a
	 * negative errno with the reason.
	 *
	 * A call with both arguments NULL undoes the operation for all objects of all devices.
	 * In that case -ENODEV means that some devices are gone: their maps keep raising
	 * SIGBUS, and device_check knows of their loss.
	 */
	int (*lost_signal)(void *device, const struct hm_segment *segment);
	/* Further operations are appended here. */
};

/**
 * hm_backend_register - add a backend to the process
 * @ops: [in] table of operations; the library copies the table, and its strings and functions
 *       must stay valid
 *
 * An older plug-in may have a shorter table than this library's. The missing operations of such
 * a table fail with -EOPNOTSUPP. Programs then open devices of the backend as "name" or
 * "name:rest".
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL: a mandatory operation is missing; a bit has no operation, or an operation has no
 *            bit; a bit needs another one, which is not set; all of create, from_file and
 *            import_fd are missing; or the table is longer than this library's. The text names
 *            the operation and the bit.
 *   -EEXIST: another backend has this name; choose another name.
 *   -ENOSPC: the process has the largest possible number of backends; the text has that number.
 */
HM_API int hm_backend_register(const struct hm_backend_ops *ops);

#ifdef __cplusplus
}
#endif

#endif
