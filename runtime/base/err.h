/* SPDX-License-Identifier: MIT */
/* Error texts: one sentence for each thread, set where the failure is known. */
#ifndef HETMAP_ERR_H
#define HETMAP_ERR_H

/*
 * Sets the thread's text and returns @r, so that a failure is one statement:
 *
 *     return err_set(-ERANGE, "%s: offset %" PRIu64 " is past ...", ...);
 *
 * Longer texts than ERR_TEXT_MAX are cut; nothing is allocated. The text is one line, with a '?'
 * for each control character. What leads there is cold: the compiler puts it where what succeeds
 * need not go past it.
 */
#define ERR_TEXT_MAX 8192
int err_set(int r, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* Puts @lines, a compiler's, below the sentence. Returns @r. */
int err_append_lines(int r, const char *lines) __attribute__((cold));

/* Puts "WHAT: " before the text there is: for callers that know the context. */
int err_prefix(int r, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* Puts the name of @r before the text, unless the text has it. Returns @r. */
int err_with_name(int r);

/* Forgets the thread's text. */
void err_clear(void);

/* "ENOMEM (Cannot allocate memory)" for -ENOMEM; static storage per errno. */
const char *err_name(int r);

#endif
