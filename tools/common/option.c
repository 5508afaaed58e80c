// SPDX-License-Identifier: MIT
/*
 * Options: getopt_long(3) driven by one table that is the help text, too.
 * Arguments and options mix in any order; "--" ends the options.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "text.h"

#define OPTIONS_MAX 64

/* next() returns these beside the index of an option in the table, and OPTION_END. */
#define OPTION_ARGUMENT (-2) /* no option: in state->value */
#define OPTION_WRONG (-3)    /* the user was told */

/* Edit distance; a swap of neighbours counts one. */
static size_t distance(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b), i, j;
	size_t d[33][33];

	if (n > 32 || m > 32)
		return 33;
	for (i = 0; i <= n; i++)
		d[i][0] = i;
	for (j = 0; j <= m; j++)
		d[0][j] = j;
	for (i = 1; i <= n; i++) {
		for (j = 1; j <= m; j++) {
			size_t best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);

			if (d[i - 1][j] + 1 < best)
				best = d[i - 1][j] + 1;
			if (d[i][j - 1] + 1 < best)
				best = d[i][j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    d[i - 2][j - 2] + 1 < best)
				best = d[i - 2][j - 2] + 1;
			d[i][j] = best;
		}
	}
	return d[n][m];
}

const char *option_nearest(const char *typed, const char *const *names)
{
	const char *nearest = NULL;
	size_t best = 3;

	for (; *names; names++) {
		size_t d = distance(typed, *names);

		/* "dev" for "devices": the beginning of a word is near to it. */
		if (strlen(typed) >= 2 && !strncmp(typed, *names, strlen(typed)))
			d = 1;
		/* Two letters of three would turn anything into anything. */
		if (d < best && d < strlen(*names) - 1 && d < strlen(typed)) {
			best = d;
			nearest = *names;
		}
	}
	return nearest;
}

static int wrong(const struct option_state *state, const char *format, const char *what)
{
	char *shown = text_escape(what);
	char *text = text_format(format, shown);
	char *remedy = text_format("hetmap %s --help lists the options", state->command);

	fail(STATUS_USAGE, EINVAL, remedy, "%s: %s", state->command, text);
	free(remedy);
	free(text);
	free(shown);
	return OPTION_WRONG;
}

int option_refuse(const struct option_state *state, int option, const char *expected)
{
	char *shown = text_escape(state->value);

	fail(STATUS_USAGE, EINVAL, expected, "%s: --%s: not valid: '%s'", state->command,
	     state->rows[option].name, shown);
	free(shown);
	return STATUS_USAGE;
}

static int unknown(const struct option_state *state, const char *typed)
{
	const char *names[OPTIONS_MAX + 1];
	size_t length = strcspn(typed, "=");
	char *name = strndup(typed, length);
	char *shown = text_escape(name ? name : "");
	const char *nearest;
	char *remedy;
	size_t n;

	for (n = 0; n < OPTIONS_MAX && state->rows[n].name; n++)
		names[n] = state->rows[n].name;
	names[n] = NULL;
	nearest = !strncmp(shown, "--", 2) ? option_nearest(shown + 2, names) : NULL;
	if (nearest)
		remedy = text_format("did you mean --%s?", nearest);
	else
		remedy = text_format("hetmap %s --help lists the options", state->command);
	fail(STATUS_USAGE, EINVAL, remedy, "%s: unknown option %s", state->command, shown);
	free(remedy);
	free(shown);
	free(name);
	return OPTION_WRONG;
}

static int next(struct option_state *state)
{
	struct option table[OPTIONS_MAX + 1] = { 0 };
	/* '-': every argument in its place, whatever POSIXLY_CORRECT says. */
	char letters[2 * OPTIONS_MAX + 3] = "-:";
	size_t n, at = 2;
	int c, index;

	for (n = 0; state->rows[n].name; n++) {
		const struct option_row *row = &state->rows[n];

		table[n].name = row->name;
		table[n].has_arg = row->argument ? required_argument : no_argument;
		table[n].val = 256 + (int)n;
		if (!row->letter)
			continue;
		letters[at++] = row->letter;
		if (row->argument)
			letters[at++] = ':';
	}
	if (!state->next) {
		optind = 0; /* glibc: begin anew */
		opterr = 0;
		state->next = 1;
	}
	if (!state->only_arguments) {
		index = optind ? optind : 1;
		c = getopt_long(state->argc, state->argv, letters, table, NULL);
		state->next = optind;
		state->value = optarg;
		if (c >= 256)
			return c - 256;
		if (c == 1)
			return OPTION_ARGUMENT;
		if (c == ':')
			return wrong(state, "option %s needs a value",
				     state->argv[state->next - 1]);
		if (c == '?' && optopt >= 256)
			return wrong(state, "option %s takes no value", state->argv[index]);
		if (c == '?')
			return unknown(state, state->argv[index]);
		for (n = 0; c > 0 && state->rows[n].name; n++)
			if (state->rows[n].letter == c)
				return (int)n;
		state->only_arguments = true;
	}
	if (state->next >= state->argc)
		return OPTION_END;
	state->value = state->argv[state->next++];
	return OPTION_ARGUMENT;
}

static int take_option(struct option_state *state, int option, const struct option_table *table,
		       void *user)
{
	const char *name = table->rows[option].name;

	if (!strcmp(name, "json"))
		output.json = state->json = true;
	else if (!strcmp(name, "quiet"))
		output.quiet = true;
	else
		return table->option(state, option, user);
	return 0;
}

static int take_argument(struct option_state *state, const struct option_table *table,
			 void *user)
{
	if (!table->argument)
		return fail(STATUS_USAGE, EINVAL, table->remedy, "%s takes no argument",
			    table->command);
	state->rest = &state->argv[state->next - 1];
	return table->argument(state, user);
}

bool option_walk(const struct option_table *table, int argc, char **argv, void *user,
		 int *ret_status)
{
	struct option_state state = {
		.command = table->command,
		.rows = table->rows,
		.argc = argc,
		.argv = argv,
	};
	int option, status = 0;

	while (!status && (option = next(&state)) != OPTION_END) {
		if (option == OPTION_WRONG) {
			status = STATUS_USAGE;
		} else if (option == OPTION_ARGUMENT) {
			status = take_argument(&state, table, user);
		} else if (!strcmp(table->rows[option].name, "help")) {
			table->usage();
			*ret_status = STATUS_DONE;
			return false;
		} else {
			status = take_option(&state, option, table, user);
		}
	}
	if (!status || status == OPTION_END)
		return true;
	*ret_status = table->refused ? table->refused : status;
	return false;
}

void option_help(const struct option_row *rows)
{
	bool bytes = false;

	for (; rows->name; rows++) {
		char left[64];
		const char *line = rows->help;

		snprintf(left, sizeof(left), "%c%c%s --%s%s%s", rows->letter ? '-' : ' ',
			 rows->letter ? rows->letter : ' ', rows->letter ? "," : " ",
			 rows->name, rows->argument ? " " : "",
			 rows->argument ? rows->argument : "");
		printf("  %-22s", left);
		while (line) {
			const char *end = strchr(line, '\n');

			printf("  %.*s\n", end ? (int)(end - line) : (int)strlen(line), line);
			line = end ? end + 1 : NULL;
			if (line)
				printf("%24s", "");
		}
		bytes |= rows->argument && !strcmp(rows->argument, "BYTES");
	}
	if (bytes)
		puts("\nBYTES may end in K, M, G or T (powers of 1024).");
}

int option_number(const char *text, uint64_t least, uint64_t most, uint64_t *ret_number)
{
	char *end;
	unsigned long long number;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	number = strtoull(text, &end, 10);
	if (*end)
		return -EINVAL;
	if (errno || number < least || number > most)
		return -ERANGE;
	*ret_number = number;
	return 0;
}

int option_take_number(const struct option_state *state, int option, uint64_t least,
		       uint64_t most, const char *expected, uint64_t *ret_number)
{
	return option_number(state->value, least, most, ret_number) ?
		       option_refuse(state, option, expected) :
		       0;
}

int option_bytes(const char *text, uint64_t *ret_bytes)
{
	static const char suffixes[] = "KMGT";
	const char *unit;
	long double value;
	unsigned int shift = 0;
	char *end;

	/* No sign; and no hexadecimal numbers and exponents, which strtold() takes. */
	if (*text < '0' || *text > '9')
		return -EINVAL;
	value = strtold(text, &end);
	if (end != text + strspn(text, "0123456789."))
		return -EINVAL;
	if (*end) {
		unit = strchr(suffixes, *end >= 'a' ? *end - 'a' + 'A' : *end);
		if (!unit)
			return -EINVAL;
		shift = 10 * (unsigned int)(unit - suffixes + 1);
		end++;
	}
	/* "256M", "256MiB" and "256MB" are one thing here: binary. */
	if (shift && (!strcmp(end, "iB") || !strcmp(end, "B")))
		end += strlen(end);
	if (*end)
		return -EINVAL;
	value *= (long double)(1ull << shift);
	if (value >= 9223372036854775808.0L)
		return -ERANGE;
	if (value != (long double)(uint64_t)value)
		return -EINVAL;
	*ret_bytes = (uint64_t)value;
	return 0;
}
