/* SPDX-License-Identifier: MIT */
/*
 * Kernel: named work in one or more forms (OpenCL C source, a CPU function, an
 * engine program).
 * Each accelerator builds the form it runs, on the first launch there.
 */
#ifndef HETMAP_KERNEL_H
#define HETMAP_KERNEL_H

#include <hetmap/accelerator.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_kernel;

#define HM_KERNEL_MAX_ARGS 32

/* A launch argument; made by the HM_* functions of queue.h. */
enum hm_arg_kind {
	HM_ARG_END = 0,
	HM_ARG_SCALAR = 1,
	HM_ARG_POINTER = 2,
	HM_ARG_LOCAL = 3, /* work-group memory: OpenCL's local */
};

/* What a scalar's bytes are. */
enum hm_arg_type {
	HM_ARG_UNTYPED = 0, /* not told: its size alone is looked at */
	HM_ARG_INTEGER = 1, /* signed or not */
	HM_ARG_FLOAT = 2,
	HM_ARG_VECTOR = 3, /* OpenCL's float4 and so on: hm_arg_scalar() passes one */
};

struct hm_arg {
	uint8_t kind;   /* enum hm_arg_kind */
	uint8_t access; /* pointers: HM_READ | HM_WRITE */
	uint16_t type;  /* scalars: enum hm_arg_type */
	uint32_t size;  /* scalars: bytes, up to 16; local: bytes */
	union {
		const void *pointer;
		unsigned char value[16];
		float f32;
		double f64;
		int32_t i32;
		uint32_t u32;
		int64_t i64;
		uint64_t u64;
	};
	uint64_t length; /* pointers: bytes from pointer; 0: the whole allocation */
};

/* The part of a grid that one call of a CPU function is to do. */
struct hm_cpu_range {
	uint64_t begin[3];
	uint64_t end[3];    /* one past the last */
	uint64_t global[3]; /* the whole grid */
};

/**
 * hm_cpu_function - a kernel's form for "cpu"
 * @range: [in] work items to do
 * @args:  [in] as launched; args[i].pointer or args[i].f32 and so on
 *
 * Called on several threads at once with disjoint ranges. Returns 0 or a
 * negative errno, which becomes the fence's.
 */
typedef int hm_cpu_function(const struct hm_cpu_range *range, const struct hm_arg *args);

/* What an engine's command does; as enum hetsim_op in uapi/hetsim.h. */
enum hm_engine_op {
	HM_ENGINE_NOTHING = 0,
	HM_ENGINE_FILL = 1,      /* words of destination = value */
	HM_ENGINE_COPY = 2,      /* destination = source */
	HM_ENGINE_ADD = 3,       /* words: destination = source + source2 */
	HM_ENGINE_XOR = 4,       /* words: destination = source ^ source2 */
	HM_ENGINE_SCALE = 5,     /* words: destination = source * value */
	HM_ENGINE_AXPY = 6,      /* words: destination += source * value */
	HM_ENGINE_HISTOGRAM = 7, /* destination[256] = how often each byte occurs */
	HM_ENGINE_CRC32 = 8,     /* word at destination = CRC-32 of source */
	HM_ENGINE_COMPARE = 9,   /* u64 at destination = first byte that differs, or ~0 */
};

#define HM_ENGINE_NONE 255 /* in place of an argument's index */

/*
 * One command of an engine program. Operands are indices of the kernel's
 * arguments: pointers, or scalars of 4 or 8 bytes. Words are unsigned, of 32 bits.
 */
struct hm_engine_step {
	uint8_t op; /* enum hm_engine_op */
	uint8_t destination;
	uint8_t source;
	uint8_t source2;
	uint8_t length; /* of the operands, in bytes; NONE: the shortest one's range */
	uint8_t value;  /* NONE: 0 */
	uint16_t reserved;
};

struct hm_kernel_desc {
	uint32_t struct_size;
	uint32_t flags;       /* 0 */
	const char *name;     /* of the kernel function in the source too */
	const char *opencl;   /* [optional] OpenCL C source */
	const char *options;  /* [optional] its build options */
	hm_cpu_function *cpu; /* [optional] */
	/*
	 * The arguments, separated by blanks: "in", "out", "inout" for pointers,
	 * "f32 f64 i32 u32 i64 u64" for scalars, "local". Needed with cpu;
	 * for OpenCL alone it may be NULL, and the driver is asked.
	 */
	const char *signature;
	uint64_t group[3]; /* work-group size; 0: the driver chooses */
	/*
	 * [optional] An engine program: steps that run one after the other, whatever
	 * the grid. Needs a signature.
	 */
	const struct hm_engine_step *engine;
	uint32_t n_engine;
	uint32_t reserved; /* 0 */
};

/**
 * hm_kernel_create - describe a kernel
 * @desc: [in] copied, strings too
 * @ret_kernel: [out] dropped with hm_kernel_unref()
 *
 * Nothing is built yet, so a wrong source shows at the first launch, or at
 * hm_kernel_build().
 *
 * Errors: -EINVAL no form, no name, a signature that does not parse (the text has the
 * word), or a step that does not fit it (the text has its number); -ENOMEM.
 */
HM_API int hm_kernel_create(const struct hm_kernel_desc *desc, struct hm_kernel **ret_kernel);

/**
 * hm_kernel_build - build a kernel for an accelerator now
 * @kernel: [in]
 * @accel:  [in]
 *
 * Binaries are cached under $XDG_CACHE_HOME/hetmap (or ~/.cache/hetmap).
 *
 * Errors: -ENOEXEC the source does not compile (hm_errmsg() has the build
 * log); -EOPNOTSUPP the kernel has no form this accelerator runs (the text
 * names those it has), or the driver has no compiler; -EINVAL the number or kinds of
 * arguments in the source are not those of the signature (also const for "out" or
 * "inout"), or the source has no function of that name; -EIO the driver failed; -ENODEV it
 * says that the device is not there; -ENOMEM.
 */
HM_API int hm_kernel_build(struct hm_kernel *kernel, struct hm_accel *accel);

/** hm_kernel_ref - take a reference; returns @kernel. NULL gives NULL. */
HM_API struct hm_kernel *hm_kernel_ref(struct hm_kernel *kernel);

/** hm_kernel_unref - drop a reference; NULL is allowed. Work in flight holds one. */
HM_API void hm_kernel_unref(struct hm_kernel *kernel);

#ifdef __cplusplus
}
#endif

#endif
