/* SPDX-License-Identifier: MIT */
/*
 * An OpenCL driver for tests, loaded through OCL_ICD_VENDORS. It has one CPU
 * device, runs a few kernels that it knows by name, and behaves as HETMAP_STUB
 * says, a list of words separated by commas:
 *
 *     nodevice             a platform without devices
 *     shadow               USE_HOST_PTR copies: bytes of its own, apart memory
 *     unified-noncoherent  the same, but map and unmap bring them up to date and
 *                          the memory calls itself unified
 *     svm-system           CL_DEVICE_SVM_FINE_GRAIN_SYSTEM
 *     arm-import           clImportMemoryARM in place, USE_HOST_PTR copies
 *     late                 events end some milliseconds after their command
 *     two-devices          a GPU behind the CPU
 *     mesa                 the platform is called rusticl
 *     pocl                 the platform is called as PoCL's
 *     slow-build           a build takes 50 ms
 *     blocks               a thread of its own, which blocks SIGBUS, runs all commands;
 *                          it is there from when the devices are listed
 *     blocks-late          likewise, from the first kernel's launch
 *     wrong                every saxpy and histogram has one wrong number
 *     wrong-later          only the second one of each has
 *
 * Without any of them USE_HOST_PTR is in place and there is no SVM. Commands run
 * in the calling thread.
 */
#ifndef HETMAP_TESTS_STUB_ICD_H
#define HETMAP_TESTS_STUB_ICD_H

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <CL/cl_icd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STUB_ALIGNMENT 128
#define STUB_MAX_ALLOC (64u << 20)

/* Every object begins with this; the loader reads the first word. */
struct stub_object {
	cl_icd_dispatch *dispatch;
	unsigned int kind;
	_Atomic unsigned int refs;
};

enum { STUB_CONTEXT = 1, STUB_QUEUE, STUB_EVENT, STUB_MEMORY, STUB_PROGRAM, STUB_KERNEL };

struct stub_modes {
	bool no_device, shadow, unified, svm_system, arm_import, late, two_devices, mesa, pocl,
		slow_build, wrong, wrong_later, blocks, blocks_late;
};

extern struct stub_modes stub_modes;
extern cl_icd_dispatch stub_dispatch;

/* Counts a call. Not CL_SUCCESS: it is to fail with that. */
cl_int stub_enter(const char *function);
void *stub_new(unsigned int kind, size_t size);
cl_int stub_retain(void *object, unsigned int kind, cl_int error);
/* True with the last reference: the caller frees what it owns, then stub_free. */
bool stub_drop(void *object);
void stub_free(void *object);
bool stub_is(const void *object, unsigned int kind);

/* Has the thread that commands belong to call @run(@user), and waits for it. */
void stub_run(void (*run)(void *user), void *user);
/* As memcpy(3), there. */
void stub_copy(void *to, const void *from, size_t length);

/* A command that has just run: *ret_event, if wanted, has @status. */
cl_int stub_done(cl_event *ret_event, cl_int status);
/* Copies a result of a query. */
cl_int stub_answer(const void *value, size_t value_size, size_t size, void *to,
		   size_t *ret_size);

#define STUB_ENTER()                                  \
	do {                                          \
		cl_int error_ = stub_enter(__func__); \
		if (error_)                           \
			return error_;                \
	} while (0)

#define STUB_ENTER_NEW(ret_error)                     \
	do {                                          \
		cl_int error_ = stub_enter(__func__); \
		if (ret_error)                        \
			*(ret_error) = error_;        \
		if (error_)                           \
			return NULL;                  \
	} while (0)

/* ---- memory ---- */

struct stub_memory {
	struct stub_object object;
	struct stub_memory *parent; /* holds a reference */
	cl_mem_flags flags;
	char *host;  /* of USE_HOST_PTR and imports */
	char *bytes; /* the memory that kernels see */
	size_t size;
	bool own; /* bytes is its own to free */
};

void stub_memory_table(cl_icd_dispatch *table);
cl_mem CL_API_CALL stub_import(cl_context context, cl_mem_flags flags,
			       const cl_import_properties_arm *properties, void *memory,
			       size_t size, cl_int *ret_error);

/* ---- kernels ---- */

void stub_kernel_table(cl_icd_dispatch *table);

/* ---- for the tests, by dlsym() ---- */

/* The @nth call of @function from now on, 0: each, fails with @error; "" ends it. */
__attribute__((visibility("default"))) void stub_fail(const char *function, unsigned int nth,
						      int error);
/* Calls of @function so far. */
__attribute__((visibility("default"))) unsigned int stub_calls(const char *function);
/* Objects alive, contexts included. */
__attribute__((visibility("default"))) int stub_live(void);

#endif
