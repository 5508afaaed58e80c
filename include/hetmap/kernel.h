/* SPDX-License-Identifier: MIT */
/*
 * Kernel: named work in one or more forms (OpenCL C source, a CPU function, an engine program).
 * Each accelerator builds the form that it runs, on the first launch there.
 */
#ifndef HETMAP_KERNEL_H
#define HETMAP_KERNEL_H

#include <hetmap/accel.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_kernel;

#define HM_KERNEL_MAX_ARGS 32

/* Kind of a launch argument. The HM_* functions of queue.h make arguments. */
enum hm_arg_kind {
	HM_ARG_END = 0,
	HM_ARG_SCALAR = 1,
	HM_ARG_POINTER = 2,
	HM_ARG_LOCAL = 3, /* work-group memory: OpenCL's local */
	HM_ARG_ANY = 4,   /* a pointer that need not be in a map; CPU functions see POINTER */
};

/* Type of a scalar's bytes. */
enum hm_arg_type {
	HM_ARG_UNTYPED = 0, /* not told: the library checks the size alone */
	HM_ARG_INTEGER = 1, /* signed or not */
	HM_ARG_FLOAT = 2,
	HM_ARG_VECTOR = 3, /* OpenCL's float4 and similar types: hm_arg_scalar() passes one */
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

/* Part of a grid for one call of a CPU function. */
struct hm_cpu_range {
	uint64_t begin[3];
	uint64_t end[3];    /* one past the last */
	uint64_t global[3]; /* the whole grid */
};

/**
 * hm_cpu_function - run a part of a kernel on "cpu"; a function of the application
 * @range: [in] work items to do
 * @args:  [in] arguments as the launch passed them, also lengths of 0; args[i].pointer or
 *         args[i].f32 and similar members. A "local" has its size, but no memory
 *
 * Thread safety: the library calls the function on several threads at once, with ranges that do
 * not overlap.
 * Returns: 0, or a negative errno. The first one becomes the result of the fence; parts that
 * have not begun by then do not run.
 */
typedef int hm_cpu_function(const struct hm_cpu_range *range, const struct hm_arg *args);

/* Operation of an engine's command, as enum hetsim_op in uapi/hetsim.h. */
enum hm_engine_op {
	HM_ENGINE_NOTHING = 0,
	HM_ENGINE_FILL = 1,      /* words of destination = value */
	HM_ENGINE_COPY = 2,      /* destination = source */
	HM_ENGINE_ADD = 3,       /* words: destination = source + source2 */
	HM_ENGINE_XOR = 4,       /* words: destination = source ^ source2 */
	HM_ENGINE_SCALE = 5,     /* words: destination = source * value */
	HM_ENGINE_AXPY = 6,      /* words: destination += source * value */
	HM_ENGINE_HISTOGRAM = 7, /* 256 words at destination = times that each byte occurs */
	HM_ENGINE_CRC32 = 8,     /* word at destination = CRC-32 of source, as zlib has it */
	HM_ENGINE_COMPARE = 9,   /* u64 at destination = offset of first difference, or ~0 */
};

#define HM_ENGINE_NONE 255 /* in place of an argument's index */

/*
 * One command of an engine program. Operands are indices of the kernel's arguments, which are
 * pointers, or scalars of 4 or 8 bytes. Words are unsigned and have 32 bits.
 */
struct hm_engine_step {
	uint8_t op; /* enum hm_engine_op */
	uint8_t destination;
	uint8_t source;
	uint8_t source2;
	uint8_t length; /* bytes of the operands; NONE: the shortest range, but no result's */
	uint8_t value;  /* NONE: 0 */
	uint16_t reserved;
};

struct hm_kernel_desc {
	uint32_t struct_size;
	uint32_t flags;       /* 0 */
	const char *name;     /* name of the kernel, and of the function in the source */
	const char *opencl;   /* [optional] OpenCL C source */
	const char *options;  /* [optional] build options of the source */
	hm_cpu_function *cpu; /* [optional] */
	/*
	 * Arguments, separated by blanks: "in", "out", "inout" for pointers, "f32 f64 i32 u32
	 * i64 u64" for scalars, "local" for work-group memory. cpu needs a signature. For
	 * OpenCL alone the signature may be NULL, and the library asks the driver: it is NULL for
	 * a kernel with a vector, which has no word.
	 */
	const char *signature;
	uint64_t group[3]; /* OpenCL's work-group; 1: unused; all 0: the driver chooses */
	/*
	 * [optional] Engine program: steps that run one after the other, whatever the grid. An
	 * engine program needs a signature.
	 */
	const struct hm_engine_step *engine;
	uint32_t n_engine; /* number of steps */
	uint32_t reserved; /* 0 */
};

/**
 * hm_kernel_create - describe a kernel
 * @desc:       [in] description; the library copies it, its strings and its steps
 * @ret_kernel: [out] a reference, which the caller drops with hm_kernel_unref()
 *
 * The call builds nothing. An error in the source therefore shows at the first launch, or at
 * hm_kernel_build().
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL: the description has no form or no name, the signature does not parse (the text has
 *            the word), or a step does not fit the signature (the text has the step's number).
 *   -ENOMEM: not enough memory is available.
 */
HM_API int hm_kernel_create(const struct hm_kernel_desc *desc, struct hm_kernel **ret_kernel);

/**
 * hm_kernel_build - build a kernel for an accelerator now
 * @kernel: [in] kernel
 * @accel:  [in] accelerator
 *
 * The library caches binaries in $XDG_CACHE_HOME/hetmap (or ~/.cache/hetmap). Threads and
 * processes that share a cache build one OpenCL kernel at a time; a build waits up to 30 seconds
 * for another one, and is then made without the lock, and not cached. Nor is the binary of a source
 * that includes files, which may change: the library compiles it in each process.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ENOEXEC:    the source does not compile; hm_errmsg() has the build log.
 *   -EOPNOTSUPP: the kernel has no form that this accelerator runs (the text names the kernel's
 *                forms), or the driver has no compiler.
 *   -EINVAL:     the number or kinds of arguments in the source differ from the signature, an
 *                argument is const where the signature says "out" or "inout", or the source has
 *                no function of that name.
 *   -EIO:        the driver failed.
 *   -ENODEV:     the driver reports that the device is gone.
 *   -ENOMEM:     not enough memory is available.
 */
HM_API int hm_kernel_build(struct hm_kernel *kernel, struct hm_accel *accel);

/** hm_kernel_ref - take a reference, and return @kernel. NULL gives NULL. */
HM_API struct hm_kernel *hm_kernel_ref(struct hm_kernel *kernel);

/** hm_kernel_unref - drop a reference; NULL is allowed. Work in flight holds one. */
HM_API void hm_kernel_unref(struct hm_kernel *kernel);

#ifdef __cplusplus
}
#endif

#endif
