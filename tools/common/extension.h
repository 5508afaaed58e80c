/* SPDX-License-Identifier: MIT */
/* Programs that do a part of the command: those of extensions, and the benchmarks. */
#ifndef HETMAP_EXTENSION_H
#define HETMAP_EXTENSION_H

#include <stdbool.h>
#include <stddef.h>

struct extension {
	const char *name;    /* of its job and of its program, libexec/hetmap/NAME */
	const char *package; /* that has it */
	const char *build;   /* the other remedy: how a checkout gets it */
};

/* The i-th, from 0; NULL: there are no more. */
const struct extension *extension_at(size_t i);
/* Is a job of hetmap run that of an extension? */
bool extension_has_job(const char *name);
/*
 * Becomes the program of extension @name, which exists, with the arguments @argv up to NULL:
 * argv[0] is the name of the job, or of the command that the program does a part of. Returns an
 * exit status if that fails; a missing program is STATUS_ENVIRONMENT, told of @what ("run: video").
 */
int extension_run(const char *name, const char *what, char **argv);
/* Likewise of a program that is no extension's; @remedy: for a missing one. */
int libexec_run(const char *name, const char *what, const char *remedy, char **argv);
/* The path of hetmap, asked by a program of libexec/hetmap: free() it. NULL: it is not there. */
char *hetmap_path(void);

#endif
