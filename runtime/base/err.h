/* SPDX-License-Identifier: MIT */
/* Error texts: one sentence for each thread, set where the failure is known. */
#ifndef HETMAP_ERR_H
#define HETMAP_ERR_H

/*
 * Sets the thread's text and returns @r, so that a failure is one statement:
 *
 *     return err_set(-ERANGE, "%s: offset %" PRIu64 " is past ...", ...);
 *
 * A text longer than ERR_TEXT_MAX is cut; nothing is allocated. The text is one line: a control
 * character becomes a '?'. The attribute "cold" makes the compiler move paths to it out of the way
 * of success.
 */
#define ERR_TEXT_MAX 8192
int err_set(int r, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* Puts @lines, the output of a compiler, below the sentence. Returns @r. */
int err_append_lines(int r, const char *lines) __attribute__((cold));

/* Puts "CONTEXT: " before the present text: for callers that know the context. */
int err_prefix(int r, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* Puts the name of @r before the text, unless the text has it. Returns @r. */
int err_with_name(int r);

/* Forgets the thread's text. */
void err_clear(void);

/* "ENOMEM (Cannot allocate memory)" for -ENOMEM; static storage per errno. */
const char *err_name(int r);

#endif
