// SPDX-License-Identifier: MIT
/*
 * Kernels: the description, and one build for each accelerator that ran it.
 *
 * Builds are prepended under kernel->lock and stay until the kernel goes: a launch finds its own
 * without a lock.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accel/accel.h"
#include "base/sys.h"

/*
 * The forms of a kernel: the name by which an accelerator asks for one (hm_accel_ops.form), the
 * words for it in messages, and the field of the description that has it. check_desc() knows the
 * rules of single forms.
 */
static const struct form {
	const char *name, *text;
	size_t offset;  /* of a pointer in hm_kernel_desc */
	bool signature; /* it needs hm_kernel_desc.signature */
} forms[] = {
	{ "opencl", "OpenCL C source", offsetof(struct hm_kernel_desc, opencl), false },
	{ "cpu", "a CPU function", offsetof(struct hm_kernel_desc, cpu), true },
	{ "engine", "an engine program", offsetof(struct hm_kernel_desc, engine), true },
};

static bool has_form(const struct hm_kernel_desc *desc, const struct form *form)
{
	const void *pointer;

	/* A function's pointer has the size of data's here [POSIX, dlsym()]. */
	memcpy(&pointer, (const char *)desc + form->offset, sizeof(pointer));
	return pointer != NULL;
}

static size_t text_size(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

static const char *text_put(char **to, const char *text)
{
	char *at = *to;
	size_t size = text_size(text);

	if (!text)
		return NULL;
	memcpy(at, text, size);
	*to += size;
	return at;
}

/* A kernel has at least one form, and a signature where one of them needs it. */
static int check_forms(const struct hm_kernel_desc *desc)
{
	char text[128];
	size_t length = 0, n = 0, i;

	for (i = 0; i < ARRAY_SIZE(forms); i++) {
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s, ",
					   forms[i].text);
		if (!has_form(desc, &forms[i]))
			continue;
		n++;
		if (forms[i].signature && !desc->signature)
			return err_set(-EINVAL, "kernel %s: %s needs a signature", desc->name,
				       forms[i].text);
	}
	if (n)
		return 0;
	return err_set(-EINVAL, "kernel %s has no form: give %sor several of them", desc->name,
		       text);
}

static int check_desc(const struct hm_kernel_desc *desc)
{
	uint64_t threads = 1;
	uint32_t i;
	int r;

	if (desc->flags)
		return err_set(-EINVAL, "kernel: unknown flags 0x%" PRIx32, desc->flags);
	if (!desc->name || !desc->name[0])
		return err_set(-EINVAL, "kernel: it has no name");
	r = check_forms(desc);
	if (r)
		return r;
	if (!desc->engine != !desc->n_engine || desc->n_engine > ENGINE_STEPS_MAX ||
	    desc->reserved)
		return err_set(-EINVAL,
			       "kernel %s: an engine program has 1 to %d steps, not %" PRIu32
			       "%s%s",
			       desc->name, ENGINE_STEPS_MAX, desc->n_engine,
			       desc->engine ? "" : " at NULL",
			       desc->reserved ? ", and reserved is 0" : "");
	for (i = 0; i < 3; i++) {
		if (!desc->group[i])
			continue;
		if (desc->group[i] > UINT32_MAX / threads)
			return err_set(-EINVAL, "kernel %s: a work-group of more than 2^32",
				       desc->name);
		threads *= desc->group[i];
	}
	return 0;
}

int hm_kernel_create(const struct hm_kernel_desc *desc, struct hm_kernel **ret_kernel)
{
	struct hm_accel_parameters parameters;
	struct hm_kernel_desc known;
	struct hm_kernel *kernel;
	size_t steps;
	char *text;
	int r;

	err_begin();
	if (!desc || !ret_kernel)
		return err_set(-EINVAL, "kernel: desc or ret_kernel is NULL");
	r = struct_read(&known, sizeof(known), desc, desc->struct_size,
			offsetof(struct hm_kernel_desc, group), "hm_kernel_desc");
	if (r)
		return r;
	r = check_desc(&known);
	if (r)
		return r;
	r = signature_parse(known.signature, &parameters);
	if (!r)
		r = engine_check(&known, &parameters);
	if (r)
		return err_prefix(r, "kernel %s", known.name);
	fork_init();
	steps = known.n_engine * sizeof(*known.engine);
	kernel = sys_calloc(1, sizeof(*kernel) + steps + text_size(known.name) +
				       text_size(known.opencl) + text_size(known.options) +
				       text_size(known.signature));
	if (!kernel)
		return err_set(-ENOMEM, "kernel %s: no memory for it", known.name);
	object_init(&kernel->object, OBJECT_KERNEL);
	pthread_mutex_init(&kernel->lock, NULL);
	kernel->desc = known;
	kernel->parameters = parameters;
	text = kernel->text + steps;
	if (steps)
		kernel->desc.engine = memcpy(kernel->text, known.engine, steps);
	kernel->desc.name = text_put(&text, known.name);
	kernel->desc.opencl = text_put(&text, known.opencl);
	kernel->desc.options = text_put(&text, known.options);
	kernel->desc.signature = text_put(&text, known.signature);
	*ret_kernel = kernel;
	return 0;
}

static struct kernel_build *find_build(struct hm_kernel *kernel, const struct hm_accel *accel)
{
	struct kernel_build *build;

	build = atomic_load_explicit(&kernel->builds, memory_order_acquire);
	while (build && atomic_load_explicit(&build->accel, memory_order_relaxed) != accel)
		build = build->next;
	return build;
}

/*
 * Ends the build, unless the accelerator has closed and done it already. view_mutex decides
 * which comes first, as with views: it is held across a fork.
 */
static void end_build(struct kernel_build *build)
{
	struct hm_accel *accel;

	pthread_mutex_lock(&view_mutex);
	accel = atomic_load(&build->accel);
	if (accel) {
		cds_list_del(&build->link);
		atomic_store(&build->accel, NULL);
		accel->ops->kernel_free(accel->data, build->data);
	}
	pthread_mutex_unlock(&view_mutex);
}

void kernel_end_builds(struct hm_accel *accel)
{
	struct kernel_build *build, *next;

	pthread_mutex_lock(&view_mutex);
	cds_list_for_each_entry_safe(build, next, &accel->builds, link) {
		cds_list_del(&build->link);
		atomic_store(&build->accel, NULL);
		accel->ops->kernel_free(accel->data, build->data);
	}
	pthread_mutex_unlock(&view_mutex);
}

static int make_build(struct hm_kernel *kernel, struct hm_accel *accel,
		      struct kernel_build **ret_build)
{
	struct kernel_build *build;
	int r;

	build = sys_calloc(1, sizeof(*build));
	if (!build)
		return err_set(-ENOMEM, "kernel %s: no memory to build it", kernel->desc.name);
	build->parameters = kernel->parameters;
	r = accel->ops->kernel_build(accel->data, &kernel->desc, &build->parameters,
				     &build->data);
	if (r) {
		free(build);
		return r;
	}
	atomic_init(&build->accel, accel);
	pthread_mutex_lock(&view_mutex);
	cds_list_add(&build->link, &accel->builds);
	pthread_mutex_unlock(&view_mutex);
	*ret_build = build;
	return 0;
}

/* Names the kernel's forms where the accelerator supports none of them, and the remedy. */
static int check_form(const struct hm_kernel *kernel, const struct hm_accel *accel)
{
	const struct hm_kernel_desc *desc = &kernel->desc;
	const char *wanted = "that form";
	char text[64];
	size_t length = 0, i;

	for (i = 0; i < ARRAY_SIZE(forms); i++) {
		if (!strcmp(accel->ops->form, forms[i].name)) {
			if (has_form(desc, &forms[i]))
				return 0;
			wanted = forms[i].text;
		}
		if (!has_form(desc, &forms[i]))
			continue;
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s\"%s\"",
					   length ? " and " : "", forms[i].name);
	}
	return err_set(
		-EOPNOTSUPP,
		"kernel %s has no form that %s runs (\"%s\"): it has %s: give the kernel "
		"%s, too, or open another accelerator%s",
		desc->name, accel->name, accel->ops->form, text, wanted,
		desc->opencl ? "; \"hetmap doctor\" tells which OpenCL driver to install" : "");
}

int kernel_get_build(struct hm_kernel *kernel, struct hm_accel *accel,
		     struct kernel_build **ret_build)
{
	struct kernel_build *build = find_build(kernel, accel);
	int r = 0;

	if (likely(build)) {
		*ret_build = build;
		return 0;
	}
	r = check_form(kernel, accel);
	if (r)
		return r;
	pthread_mutex_lock(&kernel->lock);
	build = find_build(kernel, accel);
	if (!build) {
		r = make_build(kernel, accel, &build);
		if (!r) {
			build->next =
				atomic_load_explicit(&kernel->builds, memory_order_relaxed);
			atomic_store_explicit(&kernel->builds, build, memory_order_release);
		}
	}
	pthread_mutex_unlock(&kernel->lock);
	if (!r)
		*ret_build = build;
	return r;
}

int hm_kernel_build(struct hm_kernel *kernel, struct hm_accel *accel)
{
	struct kernel_build *build;
	int r;

	err_begin();
	r = object_check((struct hm_object *)kernel, OBJECT_KERNEL);
	if (!r)
		r = object_check((struct hm_object *)accel, OBJECT_ACCEL);
	if (r)
		return r;
	return kernel_get_build(kernel, accel, &build);
}

struct hm_kernel *hm_kernel_ref(struct hm_kernel *kernel)
{
	if (kernel)
		object_ref(&kernel->object);
	return kernel;
}

void hm_kernel_unref(struct hm_kernel *kernel)
{
	struct kernel_build *build, *next;

	if (!kernel || !object_put(&kernel->object))
		return;
	err_hold();
	build = atomic_load_explicit(&kernel->builds, memory_order_acquire);
	for (; build; build = next) {
		next = build->next;
		end_build(build);
		free(build);
	}
	err_release();
	pthread_mutex_destroy(&kernel->lock);
	kernel->object.kind = OBJECT_FREED;
	free(kernel);
}
