/* SPDX-License-Identifier: MIT */
/* Numbers and names as people read them. */
#ifndef HETMAP_TEXT_H
#define HETMAP_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Enough for every text_* below that writes into the caller's array. */
#define TEXT_MAX 32

/* "3.6 MiB", "512 bytes", "2 GiB". Returns @text. */
const char *text_bytes(uint64_t bytes, char text[TEXT_MAX]);
/* "1,234,567" */
const char *text_count(uint64_t number, char text[TEXT_MAX]);
/* "1.92 s", "0.84 ms", "12.0 us" */
const char *text_seconds(double seconds, char text[TEXT_MAX]);
/* "11.2 GB/s", "0.1 GB/s", "4.2 MB/s", "0.5 kB/s": of so many bytes a second */
const char *text_rate(double bytes, char text[TEXT_MAX]);

/*
 * Returns @name with control characters, and bytes that a terminal can't show, as escapes (\n,
 * \x1b): the name stays on one line. free() it.
 */
char *text_escape(const char *name);
/*
 * Returns @path as a word of a printed shell command: in quotes if it needs them, with bytes
 * that can't be shown as $'\x1b'. The word is no option. free() it.
 */
char *text_shell(const char *path);
/* As text_escape(), but valid UTF-8 is kept whatever the locale: for JSON. */
char *text_escape_json(const char *name);

/*
 * Returns a message that may hold names from files and arguments: control characters become
 * \x1b, and further lines are set in, so that no line looks like another message. Earlier
 * escapes stay. free() it.
 */
char *text_message(const char *message);

/* "train.bin", "0.bin and 3 further files", escaped. free() it. */
char *text_files(const char *const *paths, size_t n);

/* Columns that a UTF-8 or ASCII text takes (no wide characters expected). */
size_t text_columns(const char *text);

/*
 * Prints @message, as text_message() has it, on standard output in lines of at most @width
 * columns, broken at blanks; further lines are indented by @indent.
 */
void text_wrap(const char *message, size_t column, size_t indent, size_t width);

/* printf into memory; free() it. NULL never comes back: it ends the process. */
char *text_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
