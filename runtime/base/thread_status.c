// SPDX-License-Identifier: MIT
/* Reads a thread's signal mask from the text of its status file. Uses no other room or file. */
#include "base/thread_status.h"

#include <stdlib.h>
#include <string.h>

/* The number behind @key, which begins a line; 0 where there is none. */
static unsigned long long value_of(const char *text, const char *key, int base)
{
	size_t length = strlen(key);
	const char *at;

	for (at = text; at; at = strchr(at, '\n')) {
		at += *at == '\n';
		if (!strncmp(at, key, length))
			return strtoull(at + length, NULL, base);
	}
	return 0;
}

bool thread_status_blocks(const char *text, int signal)
{
	return value_of(text, "SigBlk:", 16) >> (signal - 1) & 1;
}

bool thread_status_has_waited(const char *text)
{
	return value_of(text, "voluntary_ctxt_switches:", 10);
}
