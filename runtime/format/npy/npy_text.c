// SPDX-License-Identifier: MIT
/* Parses the Python literals of a .npy file's header: see npy_text.h. */
#include "format/npy/npy_text.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"

int npy_text_broken(const struct npy_text *text, const char *expected)
{
	if (text->at == text->end)
		return err_set(-EBADMSG, "its header ends where %s should be", expected);
	return err_set(-EBADMSG, "its header has no %s at character %zu", expected,
		       (size_t)(text->at - text->begin));
}

void npy_text_skip_space(struct npy_text *text)
{
	while (text->at < text->end && *text->at && strchr(" \t\r\n\f", *text->at))
		text->at++;
}

bool npy_text_take(struct npy_text *text, char sign)
{
	npy_text_skip_space(text);
	if (text->at == text->end || *text->at != sign)
		return false;
	text->at++;
	return true;
}

bool npy_text_is(struct npy_text *text, char sign)
{
	npy_text_skip_space(text);
	return text->at < text->end && *text->at == sign;
}

int npy_text_take_string(struct npy_text *text, const char **ret_string, size_t *ret_length)
{
	const char *begin;
	char quote;

	npy_text_skip_space(text);
	if (text->at == text->end || (*text->at != '\'' && *text->at != '"'))
		return npy_text_broken(text, "string");
	quote = *text->at++;
	begin = text->at;
	while (text->at < text->end && *text->at != quote) {
		if (*text->at == '\\' || *text->at == '\n' || !*text->at)
			return npy_text_broken(text, "plain string");
		text->at++;
	}
	if (text->at == text->end)
		return npy_text_broken(text, "end of a string");
	*ret_string = begin;
	*ret_length = (size_t)(text->at++ - begin);
	return 0;
}

/* Python 2 wrote 10L. */
int npy_text_take_number(struct npy_text *text, uint64_t *ret_number)
{
	const char *begin;
	uint64_t number = 0;

	npy_text_skip_space(text);
	begin = text->at;
	while (text->at < text->end && *text->at >= '0' && *text->at <= '9') {
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(*text->at - '0'), &number))
			return err_set(-EBADMSG,
				       "its header has a number beyond 2^64 at character %zu",
				       (size_t)(begin - text->begin));
		text->at++;
	}
	if (text->at == begin)
		return npy_text_broken(text, "number");
	/* 01 is no number in Python. */
	if (*begin == '0' && number)
		return npy_text_broken(&(struct npy_text){ text->begin, begin, text->end },
				       "number");
	if (text->at < text->end && *text->at == 'L')
		text->at++;
	*ret_number = number;
	return 0;
}

int npy_text_take_truth(struct npy_text *text, bool *ret_truth)
{
	size_t left;

	npy_text_skip_space(text);
	left = (size_t)(text->end - text->at);
	if (left >= 4 && !memcmp(text->at, "True", 4)) {
		text->at += 4;
		*ret_truth = true;
		return 0;
	}
	if (left >= 5 && !memcmp(text->at, "False", 5)) {
		text->at += 5;
		*ret_truth = false;
		return 0;
	}
	return npy_text_broken(text, "True or False");
}
