// SPDX-License-Identifier: MIT
/* Error texts: thread-local, no allocation. */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <hetmap/base.h>
#include <hetmap/error.h>

_Thread_local struct err_state err_state;

/* Texts of calls, and of calls in the callbacks of these. */
static _Thread_local struct {
	char text[ERR_TEXT_MAX];
	char warning[ERR_WARNING_MAX];
} texts[2];

#define text (texts[err_state.in_callback].text)
#define warning (texts[err_state.in_callback].warning)

/* Other programs choose names: no part of one may look like a line of its own in a log. */
static void put_on_one_line(char *sentence)
{
	for (; *sentence; sentence++)
		if ((unsigned char)*sentence < ' ' || *sentence == '\177')
			*sentence = '?';
}

static void said(void)
{
	err_state.said = true;
	err_state.sets++;
}

int err_set(int r, const char *format, ...)
{
	va_list args;

	if (err_state.held)
		return r;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	put_on_one_line(text);
	said();
	return r;
}

int err_append_lines(int r, const char *lines)
{
	size_t length = strlen(text);

	if (!err_state.held)
		snprintf(text + length, sizeof(text) - length, ":\n%s", lines);
	return r;
}

int err_prefix(int r, const char *format, ...)
{
	char prefix[512];
	size_t room, length;
	va_list args;

	if (err_state.held)
		return r;
	va_start(args, format);
	vsnprintf(prefix, sizeof(prefix) - 2, format, args);
	va_end(args);
	put_on_one_line(prefix);
	strcat(prefix, ": ");

	if (!err_state.said)
		text[0] = '\0';
	length = strlen(prefix);
	room = sizeof(text) - length;
	/* The end of a text that is too long is cut; the terminator stays. */
	memmove(text + length, text, room);
	memcpy(text, prefix, length);
	text[sizeof(text) - 1] = '\0';
	said();
	return r;
}

int err_with_name(int r)
{
	const char *symbol = strerrorname_np(-r);

	return symbol && strstr(hm_errmsg(), symbol) ? r : err_prefix(r, "%s", err_name(r));
}

void err_clear(void)
{
	if (!err_state.held)
		err_state.said = false;
}

void err_warn(const char *format, ...)
{
	size_t length = err_state.warned ? strlen(warning) : 0;
	va_list args;

	if (err_state.held)
		return;
	if (length && length < sizeof(warning) - 3) {
		memcpy(warning + length, "; ", 3);
		length += 2;
	}
	va_start(args, format);
	vsnprintf(warning + length, sizeof(warning) - length, format, args);
	va_end(args);
	put_on_one_line(warning);
	err_state.warned = true;
	err_state.said = false;
}

void err_survive(void)
{
	if (err_state.said)
		err_warn("%s", text);
}

const char *err_name(int r)
{
	static _Thread_local char name[96];
	const char *symbol = strerrorname_np(-r);

	if (symbol)
		snprintf(name, sizeof(name), "%s (%s)", symbol, strerrordesc_np(-r));
	else
		snprintf(name, sizeof(name), "%d, which is no errno", r);
	return name;
}

void hm_error_begin(void)
{
	err_begin();
}

int hm_error_set(int r, const char *format, ...)
{
	char given[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(given, sizeof(given), format, args);
	va_end(args);
	if (r < 0)
		return err_set(r, "%s", given);
	/* Passed on, the number would be taken for success. */
	if (r > 0)
		return err_set(-EINVAL,
			       "%s (hm_error_set: r is %d: pass a negative errno, or 0)", given,
			       r);
	err_warn("%s", given);
	return 0;
}

const char *hm_errmsg(void)
{
	return err_state.said ? text : "";
}

const char *hm_warning(void)
{
	return err_state.warned ? warning : "";
}

uint32_t hm_version(void)
{
	return HM_VERSION;
}
