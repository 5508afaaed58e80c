/* SPDX-License-Identifier: MIT */
/* Shared by all programs of the command: exit status, options, messages, signals, progress. */
#ifndef HETMAP_COMMAND_H
#define HETMAP_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit status; 128 + n on signal n. */
enum {
	STATUS_DONE = 0,        /* done and verified */
	STATUS_WRONG = 1,       /* wrong result, or device or data lost under way */
	STATUS_USAGE = 2,       /* also: missing file, directory, FIFO */
	STATUS_ENVIRONMENT = 3, /* no permission, no such device, a limit */

	/* For commands that run another command and exit with its status, as env(1) does. */
	STATUS_OWN = 125,            /* hetmap's own failure, usage included */
	STATUS_NOT_EXECUTABLE = 126, /* the command is there, and can't be executed */
	STATUS_NOT_FOUND = 127,      /* the command was not found */
};

/* ---- options (option.c) ---- */

struct option_row {
	char letter;          /* 0: none */
	const char *name;     /* long option; NULL ends the table */
	const char *argument; /* name of its value; NULL: it takes none */
	const char *help;     /* '\n' begins a further line */
};

/* Rows that more than one command has, in one wording; @otherwise: the default. */
#define OPTION_ROW_DEVICE(otherwise)                                              \
	{                                                                         \
		'd', "device", "NAME",                                            \
			"where the bytes live: host, soft:N, sim:N, or another\n" \
			"that hetmap devices lists; N is 0 if left out\n"         \
			"(default: " otherwise ")"                                \
	}
#define OPTION_ROW_ACCEL(otherwise)                                        \
	{                                                                  \
		'a', "accel", "NAME",                                      \
			"accelerator: opencl:N, cpu, or the engine of a\n" \
			"simulated device, soft:N, sim:N\n"                \
			"(default: " otherwise ")"                         \
	}
/* The three rows that everybody has, which option_walk() does itself. */
#define OPTION_ROW_JSON(text)         \
	{                             \
		0, "json", NULL, text \
	}
#define OPTION_ROW_QUIET                                          \
	{                                                         \
		'q', "quiet", NULL, "no progress bar, no remarks" \
	}
#define OPTION_ROW_HELP                        \
	{                                      \
		'h', "help", NULL, "this text" \
	}

/* Where option_walk() is, as a command's functions see it. */
struct option_state {
	const char *command; /* "run", for messages */
	const struct option_row *rows;
	const char *value; /* value of the option, or the argument itself */
	char **rest;       /* the argument, and all behind it */
	bool json;         /* --json was given so far */

	/* private */
	int argc;
	char **argv;
	int next;            /* argv that is looked at next */
	bool only_arguments; /* "--" was seen */
};

/* An argument ended the options: it and all behind it are another program's. */
#define OPTION_END (-1)

/* The options of a command. Each function returns 0, or a status that ends the command. */
struct option_table {
	const char *command; /* "run", for messages */
	const struct option_row *rows;
	void (*usage)(void);
	/* NULL: there are no rows but the three. */
	int (*option)(const struct option_state *state, int option, void *user);
	/* Also OPTION_END. NULL: the command takes no argument, and @remedy is told. */
	int (*argument)(const struct option_state *state, void *user);
	const char *remedy;
	int refused; /* the status of all that is wrong; 0: as the functions return it */
};

/*
 * Walks through all options and arguments, and does --help, --json and --quiet itself, by the names
 * of their rows. False: the command ends with *ret_status.
 */
bool option_walk(const struct option_table *table, int argc, char **argv, void *user,
		 int *ret_status);

/* Refuses the value of @option: prints @expected, and returns STATUS_USAGE. */
int option_refuse(const struct option_state *state, int option, const char *expected);
/* Takes a number from @least to @most: 0; or refuses the value with @expected. */
int option_take_number(const struct option_state *state, int option, uint64_t least,
		       uint64_t most, const char *expected, uint64_t *ret_number);

/* Prints the table as help, and how BYTES are written where a row takes them. */
void option_help(const struct option_row *rows);

/* "256M", "4096", "1.5G" (binary units). 0 or -EINVAL, -ERANGE. */
int option_bytes(const char *text, uint64_t *ret_bytes);
/* A plain number from @least to @most. 0 or -EINVAL, -ERANGE. */
int option_number(const char *text, uint64_t least, uint64_t most, uint64_t *ret_number);

/* The nearest of @names (NULL ends) to a mistyped one; NULL: none is near. */
const char *option_nearest(const char *typed, const char *const *names);

/* ---- messages (output.c) ---- */

struct output {
	bool json;   /* failures become an object on standard output */
	bool quiet;  /* no progress, no remarks */
	bool utf8;   /* the locale is UTF-8 */
	bool colour; /* standard output is a terminal that wants colour */
	/* A policy refused an operation, on any thread: whatever failed then, failed by it. */
	_Atomic bool refused;
};

extern struct output output;

void output_init(void);
/* "--json" anywhere before "--": failures before option parsing obey it too. */
void output_scan_json(int argc, char **argv);
/* Prints a JSON object, one member a line, and drops it. */
struct json_t;
void output_object(struct json_t *object);
/* The same, with all digits of the member @exact. */
void output_exact(struct json_t *object, const char *exact);
/* The same, all on one line. */
void output_line(struct json_t *object);
/* Writes the printed text out. False: standard output takes no more. */
bool output_flush(void);
/* Standard output took no more, with @error: for output_finish(). */
void output_failed(int error);
/* Flushes standard output. Returns @status, or the status of a failed write. */
int output_finish(int status);

/*
 * Prints a failure and returns @status. @error is an errno, positive or negative, or 0; @remedy
 * a sentence, or NULL.
 */
int fail(int status, int error, const char *remedy, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* A failure of the library: prints @what, then hm_errmsg(). */
int fail_library(int status, int r, const char *remedy, const char *what);
/* 0; @status, where /proc is not mounted, and that is told: nothing is known of processes then. */
int fail_without_proc(int status);
/* "hetmap: " and a remark on standard error, unless quiet. */
void remark(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- signals (signals.c) ---- */

/* SIGINT and SIGTERM set a flag; a second one ends the process at once. */
void signals_init(void);
/*
 * From now on a second one within a second of the first is that once more: timeout(1) sends it
 * to its command and to the group that it is in. The one after it ends the process.
 */
void signals_expect_twice(void);
/*
 * With true the next signal ends the process, and so does this call if one came already; with
 * false signals only set the flag again. For phases that don't look at the flag for long, and
 * leave nothing to clean up.
 */
void signals_end_at_once(bool yes);
/* The signal that came, or 0. */
int signals_pending(void);
/* As they were before: for a child, which is about to execute another program. */
void signals_restore(void);

/*
 * Until lost_watch(-1, NULL): a SIGBUS inside a map of the library prints that @name was
 * truncated and exits with STATUS_WRONG. Any other SIGBUS is passed on.
 */
void lost_watch(int fd, const char *name);

/* ---- progress on a terminal (progress.c) ---- */

/* @total is in bytes. Nothing is drawn in the first half second. */
void progress_begin(const char *what, uint64_t total);
void progress_add(uint64_t bytes);
/* Takes the bar away. */
void progress_end(void);

#endif
