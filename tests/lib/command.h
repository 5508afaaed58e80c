/* SPDX-License-Identifier: MIT */
/* Runs the command `hetmap` of this build and keeps its output. */
#ifndef HETMAP_TESTS_COMMAND_H
#define HETMAP_TESTS_COMMAND_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "lib/harness.h"
#include "lib/rig.h"

#define COMMAND_ARGS_MAX 16

/* On the CPU where OpenCL is not the point: quick, and the same everywhere. */
#define ON_CPU "--accel", "cpu", "--rounds", "1"

struct command {
	const char *args[COMMAND_ARGS_MAX]; /* after "hetmap"; NULL ends */
	const char *env[8]; /* "NAME=value" on top of this process's; "NAME" unsets */
	uid_t uid;          /* 0: this process's */
	int resource;       /* RLIMIT_*, where limit is not 0 */
	uint64_t limit;
	int out, err;          /* descriptors to write to; 0: kept in the outcome; -1: closed */
	void (*prepare)(void); /* called last before it executes; NULL: nothing */
};

struct outcome {
	int status; /* exit status, or -signal */
	char *out;  /* NUL-terminated */
	char *err;
};

/* Starts it; command_wait() ends it. */
pid_t command_start(const struct command *command);
/* The outcome is { 0 }, or an earlier one, whose texts are freed. Likewise below. */
void command_wait(pid_t pid, struct outcome *ret_outcome);
/* Waits until it handles signal @sig, and has @path mapped where that is not NULL. */
void command_await(pid_t pid, int sig, const char *path);
void command_run(const struct command *command, struct outcome *ret_outcome);
/*
 * For prepare: opening a file to write, and for nothing else, is refused, as that of
 * /proc/self/clear_refs is in some containers. Exits with COMMAND_NO_FILTER where it can't.
 */
void command_refuse_writing(void);
#define COMMAND_NO_FILTER 70
/* Likewise any system call whose n-th @argument, from 0 on, has this @value: @error. */
void command_refuse_call(unsigned int call, unsigned int argument, unsigned int value,
			 int error);
/* Likewise perf_event_open(2), as that is in many containers: EPERM. */
void command_refuse_perf(void);
void outcome_free(struct outcome *outcome);
AUTO_END(outcome, outcome_free)

/* Runs the command, the last argument: its exit status is @expected. */
#define CHECK_RUN(expected, ret_outcome, ...)                 \
	do {                                                  \
		command_run(__VA_ARGS__, ret_outcome);        \
		CHECK_EQUAL((ret_outcome)->status, expected); \
	} while (0)

/* The standard output as JSON, or a failure of the test and NULL. */
json_t *outcome_json(const struct outcome *outcome);
/* Of a run that exits with @expected, or the test is abandoned. */
json_t *command_json(const struct command *command, int expected);
/* Of one that succeeds, and whose result was verified. */
json_t *command_verified(const struct command *command);
/* A member of its type, or a failure of the test. */
double real_of(const json_t *json, const char *key);
int64_t integer_of(const json_t *json, const char *key);
const char *string_of(const json_t *json, const char *key);
/* A failure object: has error, errno and remedy of the right types. */
void check_failure_json(const struct outcome *outcome, int expected_errno);
/* No line is longer than 80 columns, none ends in a blank, all is printable. */
void check_lines(const char *text);

static inline void json_t_auto(json_t *const *json)
{
	json_decref(*json);
}

/* A temporary folder of the test, removed with all in it by folder_remove(). */
char *folder_make(void);
/*
 * A string that is freed at the end of its block, and a folder of folder_make() that is removed:
 *
 *	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "data");
 */
#define AUTO_TEXT __attribute__((cleanup(text_auto), unused)) char
void text_auto(char *const *text);
void folder_remove(char *folder);
/* AUTO_FOLDER char *folder = folder_make(); it is removed at the end of the variable's block. */
#define AUTO_FOLDER __attribute__((cleanup(folder_auto), unused))
void folder_auto(char *const *folder);
/* FOLDER/NAME; free() it. */
char *folder_path(const char *folder, const char *name);
/* Makes the folders on the way, too. */
void file_write(const char *folder, const char *name, const char *bytes, size_t length);
void file_sparse(const char *folder, const char *name, uint64_t size);
/* mount(2), for this process alone. False: the test is to be left out, and that is said. */
bool folder_mount(const char *what, const char *where, const char *type, unsigned long flags,
		  const char *options);

/* Is there an OpenCL device, and may it be used here? Otherwise a skip. */
bool have_opencl(void);

#endif
