// SPDX-License-Identifier: MIT
/* Makes a name of a file fit for a sentence: see shown.h. */
#include "format/text/shown.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

const char *name_shown(const char *name, char text[SHOWN_MAX])
{
	size_t length = strlen(name), i;
	bool cut = length > SHOWN_MAX - 6;

	if (cut)
		length = SHOWN_MAX - 6;
	/* Not in the middle of a character. */
	while (cut && length && ((unsigned char)name[length] & 0xc0) == 0x80)
		length--;
	snprintf(text, SHOWN_MAX, "\"%.*s\"%s", (int)length, name, cut ? "..." : "");
	for (i = 0; text[i]; i++) {
		unsigned char c = (unsigned char)text[i];

		/* C0 and C1: control characters, which a terminal would act upon. */
		if (c < 0x20 || c == 0x7f)
			text[i] = '?';
		else if (c == 0xc2 && ((unsigned char)text[i + 1] & 0xe0) == 0x80)
			text[i] = text[i + 1] = '?';
	}
	return text;
}
