/* SPDX-License-Identifier: MIT */
/*
 * For those who plug in a kind of device. A backend describes; the core maps.
 *
 * A backend is one static const struct hm_backend_ops. Buffers are described by
 * a recipe of segments; only the library's map step calls mmap(). The smallest
 * useful backend is the mandatory operations and one that makes a buffer.
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
#define HM_SEGMENT_ANON (1u << 2)      /* fd is -1 */
#define HM_SEGMENT_SYNC (1u << 3)      /* MAP_SYNC: DAX */
#define HM_SEGMENT_NORESERVE (1u << 4) /* MAP_NORESERVE */
/* mmap() takes the object's first byte only, and any length up to the object's. */
#define HM_SEGMENT_FROM_START (1u << 5)
/*
 * Faults count from where a mapping begins, also of one that was cut: every page is
 * brought in before anything can cut it.
 */
#define HM_SEGMENT_PRESENT (1u << 6)
#define HM_SEGMENT_DMABUF (1u << 7) /* fd is a dma-buf */
/*
 * mmap() takes all of the segment or nothing; the library makes maps of a part from that.
 * Of buffers without HM_CAP_APPEND, which would cut it.
 */
#define HM_SEGMENT_WHOLE (1u << 8)
/*
 * mmap() is a driver's, and may fail where it did not before, as when the device is gone.
 * Of dma-bufs that is so without the flag.
 */
#define HM_SEGMENT_MAY_REFUSE (1u << 9)

/* One device object, or part of it, inside a buffer. */
struct hm_segment {
	uint64_t offset; /* in the buffer; page-aligned */
	uint64_t length; /* capacity: bytes that can be mapped, committed or not */
	uint64_t fd_offset;
	int fd;         /* the backend's: open as long as the segment lives */
	uint32_t flags; /* HM_SEGMENT_* */
	void *object;   /* the backend's own, for object_destroy */
};

/* How a buffer is to be mapped. Filled by the backend, kept by the core. */
struct hm_recipe {
	struct hm_segment segment; /* the first, as a rule the only one */
	uint64_t size;             /* bytes to commit at first */
	uint64_t page_size;        /* unit of offsets and rights */
	uint64_t alignment;        /* of the map's address; 0: page_size */
	uint64_t caps;             /* HM_CAP_* of this buffer */
	uint32_t access;           /* HM_READ | HM_WRITE a map may have */
	uint32_t cache;            /* enum hm_cache; HM_CACHE_UNKNOWN: not told */
	uint32_t backing;          /* enum hm_backing */
	uint32_t flags;            /* HM_BUFFER_* that hold */
	/*
	 * Bytes that the buffer may grow to where its maps are, by further objects: with
	 * HM_CAP_RESIZE_REPLACES. 0: the segment's length.
	 */
	uint64_t max_size;
	uint32_t place; /* enum hm_place it is in; HM_PLACE_DEFAULT: not known */
	/* Further fields are appended here; the core has zeroed what is not filled. */
};

struct hm_backend_ops {
	size_t size;      /* sizeof(struct hm_backend_ops) of the plug-in */
	const char *name; /* "host": the part of a device name before ':' */
	const char *description;
	uint64_t caps; /* HM_CAP_*: what the table below can do */

	/* Mandatory. */

	/* @rest is what followed the ':' in the name, or "". */
	int (*device_open)(const char *rest, void **ret_device);
	void (*device_close)(void *device);
	/* Fills what the core cannot know; name, backend and caps are preset. */
	int (*device_query)(void *device, struct hm_device_info *info);
	/* Ends one object: called once for each segment, when it is unmapped. */
	void (*object_destroy)(void *device, struct hm_segment *segment);

	/* Optional; NULL is -EOPNOTSUPP. Each has its HM_CAP_ bit. */

	/* HM_CAP_CREATE; @desc is validated, max_size filled in. */
	int (*create)(void *device, const struct hm_buffer_desc *desc,
		      struct hm_recipe *ret_recipe);
	/* HM_CAP_FROM_FILE; @fd is the core's duplicate: the backend owns it on success. */
	int (*from_file)(void *device, int fd, const struct hm_buffer_desc *desc,
			 struct hm_recipe *ret_recipe);
	/* HM_CAP_IMPORT; @fd as above. */
	int (*import_fd)(void *device, int fd, const struct hm_buffer_desc *desc,
			 struct hm_recipe *ret_recipe);
	/* HM_CAP_EXPORT; returns a new descriptor in *ret_fd. */
	int (*export_fd)(void *device, const struct hm_segment *segment, uint32_t flags,
			 int *ret_fd);
	/*
	 * HM_CAP_RESIZE: make @new_size of the segment's bytes usable (grow, before
	 * they are mapped) or give the rest back (shrink, after they were unmapped).
	 * Sizes are relative to the segment. The bytes that it grows by are zero, also
	 * those of @old_size's page, where CPUs may have stored behind the end.
	 */
	int (*resize)(void *device, struct hm_segment *segment, uint64_t old_size,
		      uint64_t new_size);

	/*
	 * Optional, without a capability bit: calls @each with the name of every device
	 * that there is now, in the order that lists have, until it returns other than 0,
	 * which is the result then; -ENOMEM. @each opens devices of this backend. NULL:
	 * there is one, of the backend's name.
	 */
	int (*each_device)(int (*each)(void *user, const char *name), void *user);
	/*
	 * Optional, without a capability bit: 0, or -ENODEV once the device is known
	 * to have been taken away. No system call. NULL: that can't happen to it.
	 */
	int (*device_check)(void *device);
	/*
	 * Optional, without a capability bit: 1 where CPUs are to find a SIGBUS at byte
	 * @offset of the segment, though its descriptor has bytes there, else 0; in
	 * *ret_length of how many bytes, of @length at most, that is so. The library
	 * hides them. NULL: the device takes pages away from its maps by itself.
	 */
	int (*hidden)(void *device, const struct hm_segment *segment, uint64_t offset,
		      uint64_t length, uint64_t *ret_length);
	/*
	 * HM_CAP_BRACKET, in the recipe, too, of buffers that need it: brings bytes
	 * [@offset, @offset + @length) of the buffer that the segments make up to where
	 * CPUs reach them, for @access. They may leave it again at any time.
	 */
	int (*begin_cpu)(void *device, const struct hm_segment *segments, uint32_t n_segment,
			 uint64_t offset, uint64_t length, uint32_t access);
	/*
	 * Optional, without a capability bit of its own: the end of what begin_cpu began.
	 * The buffer may have changed since.
	 */
	int (*end_cpu)(void *device, const struct hm_segment *segments, uint32_t n_segment,
		       uint64_t offset, uint64_t length, uint32_t access);
	/*
	 * Optional, without a capability bit, both or neither: mappings that are dear to
	 * make. @address is one of the whole segment, as the core made it, whose map has
	 * ended. 0: it is the device's from here on; else the core unmaps it.
	 */
	int (*map_keep)(void *device, const struct hm_segment *segment, void *address);
	/* One of the whole segment, with whatever rights: the core's from here on. Or NULL. */
	void *(*map_take)(void *device, const struct hm_segment *segment);
	/*
	 * Optional, without a capability bit: where it is counted, in this process's memory,
	 * how often memory of the segment's object made room for others; as long as the
	 * object is there. No system call. NULL, also as a result: it is not counted here.
	 */
	const uint64_t *(*evictions)(void *device, const struct hm_segment *segment);
	/*
	 * Optional, without a capability bit, for those with device_check: asks the device
	 * itself whether it is there still, by one call; device_check knows of it then. It is
	 * asked whenever a bracket, a copy or work of an accelerator has ended that used bytes
	 * of the device's. device_check itself: what maps show is never ahead of that. NULL:
	 * device_query is called.
	 */
	int (*device_ask)(void *device);
	/*
	 * Optional, without a capability bit, for those whose maps are zeros once the device
	 * was taken away, before device_check knows: those of the segment's object are a SIGBUS
	 * instead, from here on, also where they are mapped already; its bytes are read by
	 * pread(2) of its fd, at fd_offset. Asked again for one that is so already; 0, or why
	 * not. With both NULL it is taken off all objects of all devices; -ENODEV: some are gone,
	 * whose maps stay a SIGBUS, and device_check knows.
	 */
	int (*lost_signal)(void *device, const struct hm_segment *segment);
	/* Further ops are appended here. */
};

/**
 * hm_backend_register - add a backend to the process
 * @ops: [in] copied; its strings and functions must stay valid
 *
 * A shorter table (an older plug-in) gets the missing ops as -EOPNOTSUPP.
 *
 * Errors: -EINVAL a mandatory op is missing, a capability bit has no op or an
 * op no bit (the text names it), none of create, from_file and import_fd is
 * there, or the table is longer than this library's; -EEXIST the name is taken;
 * -ENOSPC.
 */
HM_API int hm_backend_register(const struct hm_backend_ops *ops);

#ifdef __cplusplus
}
#endif

#endif
