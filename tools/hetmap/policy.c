// SPDX-License-Identifier: MIT
/*
 * hetmap run --policy FILE: a rule a line, the first that fits decides, and what none
 * fits is allowed.
 *
 *     refuse create,resize over=1G
 *     allow from_file path=*.txt uid=0
 *     refuse all
 */
#include "policy.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <pwd.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hetmap/hetmap.h>

#include "common/command.h"
#include "common/text.h"
#include "job.h"

#define BLANKS " \t\r\n"
#define TEXT_LONGEST (1u << 20) /* /dev/zero has no end */
#define N_PATTERN 5

struct rule {
	struct rule *next;
	unsigned int line;
	bool refuse;
	uint32_t operations;      /* bits */
	char *pattern[N_PATTERN]; /* by patterns[]; NULL: any */
	uint64_t over;            /* more bytes than these; UINT64_MAX: any number */
	int64_t uid, peer;        /* -1: anybody's */
	uint32_t access;          /* one of these, at least; 0: any */
	uint32_t given;           /* bits of conditions[] */
	char *text;
};

static struct {
	const char *path;
	struct rule *rules;
} policy;

/* ---- rules ---- */

/* Which string of a request the n-th pattern is for. */
static const struct {
	const char *name;
	size_t offset;
} patterns[N_PATTERN] = {
	{ "device", offsetof(struct hm_access_request, device) },
	{ "accel", offsetof(struct hm_access_request, accel) },
	{ "kernel", offsetof(struct hm_access_request, kernel) },
	{ "buffer", offsetof(struct hm_access_request, buffer) },
	{ "path", offsetof(struct hm_access_request, path) },
};

static int parse_bytes(struct rule *rule, const char *value)
{
	return option_bytes(value, &rule->over);
}

static int parse_user(const char *value, int64_t *ret_uid)
{
	const struct passwd *user;
	uint64_t uid;

	if (!option_number(value, 0, UINT32_MAX - 1, &uid)) {
		*ret_uid = (int64_t)uid;
		return 0;
	}
	user = getpwnam(value);
	if (!user)
		return -ENOENT;
	*ret_uid = user->pw_uid;
	return 0;
}

static int parse_uid(struct rule *rule, const char *value)
{
	return parse_user(value, &rule->uid);
}

static int parse_peer(struct rule *rule, const char *value)
{
	return parse_user(value, &rule->peer);
}

static int parse_access(struct rule *rule, const char *value)
{
	if (!strcmp(value, "read"))
		rule->access = HM_READ;
	else if (!strcmp(value, "write"))
		rule->access = HM_WRITE;
	return rule->access ? 0 : -EINVAL;
}

static const struct {
	const char *name;
	int (*parse)(struct rule *rule, const char *value);
	const char *expected;
} conditions[] = {
	{ "over", parse_bytes, "bytes, as in 4096, 64K, 1G" },
	{ "uid", parse_uid, "a user's name or number" },
	{ "peer", parse_peer, "a user's name or number" },
	{ "access", parse_access, "read or write" },
};

#define N_CONDITION (sizeof(conditions) / sizeof(conditions[0]))

/* ---- reading ---- */

static int no_memory(void)
{
	return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory for a policy");
}

static int wrong(unsigned int line, const char *remedy, const char *what, const char *word)
{
	char *shown = text_escape(word), *path = text_escape(policy.path);

	fail(STATUS_USAGE, EINVAL, remedy, "run: %s, line %u: %s '%s'", path, line, what,
	     shown);
	free(path);
	free(shown);
	return STATUS_USAGE;
}

static int wrong_word(unsigned int line, const char *what, const char *word,
		      const char *const *names)
{
	const char *nearest = option_nearest(word, names);
	char *remedy = nearest ? text_format("did you mean %s?", nearest) :
				 text_format("hetmap-run(1) has the format: POLICIES");
	int status = wrong(line, remedy, what, word);

	free(remedy);
	return status;
}

static int parse_operations(struct rule *rule, char *words)
{
	const char *names[HM_ACCESS_MAX + 2] = { NULL };
	uint32_t i, n;
	char *word;

	for (n = 0; hm_access_name(n); n++)
		names[n] = hm_access_name(n);
	names[n] = "all";
	while ((word = strsep(&words, ","))) {
		for (i = 0; i <= n && strcmp(word, names[i]) != 0; i++)
			;
		if (i > n)
			return wrong_word(rule->line, "unknown operation", word, names);
		rule->operations |= i < n ? 1u << i : UINT32_MAX;
	}
	return 0;
}

static int unknown_condition(const struct rule *rule, const char *word)
{
	const char *names[N_PATTERN + N_CONDITION + 1] = { NULL };
	char *name = strndup(word, strcspn(word, "="));
	size_t i, n = 0;
	int status;

	for (i = 0; i < N_PATTERN; i++)
		names[n++] = patterns[i].name;
	for (i = 0; i < N_CONDITION; i++)
		names[n++] = conditions[i].name;
	status = wrong_word(rule->line, "unknown condition", name ? name : word, names);
	free(name);
	return status;
}

static int parse_condition(struct rule *rule, char *word)
{
	char *value = strchr(word, '=');
	size_t i, length;

	if (!value)
		return wrong(rule->line, "a condition is NAME=VALUE", "no condition:", word);
	length = (size_t)(value++ - word);
	if (!*value)
		return wrong(rule->line, "a condition is NAME=VALUE", "nothing behind", word);
	for (i = 0; i < N_PATTERN; i++) {
		if (strlen(patterns[i].name) != length ||
		    strncmp(patterns[i].name, word, length) != 0)
			continue;
		if (rule->pattern[i])
			return wrong(rule->line, "give each condition once", "a second", word);
		rule->pattern[i] = strdup(value);
		return rule->pattern[i] ? 0 : no_memory();
	}
	for (i = 0; i < N_CONDITION; i++) {
		if (strlen(conditions[i].name) != length ||
		    strncmp(conditions[i].name, word, length) != 0)
			continue;
		if (rule->given & 1u << i)
			return wrong(rule->line, "give each condition once", "a second", word);
		rule->given |= 1u << i;
		if (conditions[i].parse(rule, value))
			return wrong(rule->line, conditions[i].expected, "not valid:", word);
		return 0;
	}
	return unknown_condition(rule, word);
}

static int parse_rule(struct rule *rule, char *words)
{
	static const char *const verdicts[] = { "allow", "refuse", NULL };
	char *word = strtok_r(words, BLANKS, &words);
	int status;

	rule->refuse = !strcmp(word, "refuse");
	if (!rule->refuse && strcmp(word, "allow") != 0)
		return wrong_word(rule->line, "a rule begins with allow or refuse, not with",
				  word, verdicts);
	word = strtok_r(NULL, BLANKS, &words);
	if (!word)
		return wrong(rule->line, "name operations, or all", "no operation behind",
			     rule->text);
	status = parse_operations(rule, word);
	while (!status && (word = strtok_r(NULL, BLANKS, &words)))
		status = parse_condition(rule, word);
	return status;
}

static void rule_free(struct rule *rule)
{
	size_t i;

	for (i = 0; i < N_PATTERN; i++)
		free(rule->pattern[i]);
	free(rule->text);
	free(rule);
}

static int take_line(char *line, size_t length, unsigned int number, struct rule ***next)
{
	struct rule *rule;
	char *end;
	int status;

	if (strlen(line) != length)
		return wrong(number, "a policy is text", "a NUL behind", line);
	line += strspn(line, BLANKS);
	for (end = line + strlen(line); end > line && isspace((unsigned char)end[-1]); end--)
		end[-1] = '\0';
	if (!*line || *line == '#')
		return 0;
	rule = calloc(1, sizeof(*rule));
	if (!rule)
		return no_memory();
	rule->line = number;
	rule->over = UINT64_MAX;
	rule->uid = rule->peer = -1;
	rule->text = strdup(line);
	status = rule->text ? parse_rule(rule, line) : no_memory();
	if (status) {
		rule_free(rule);
		return status;
	}
	**next = rule;
	*next = &rule->next;
	return 0;
}

static int read_failed(int error)
{
	char *shown = text_escape(policy.path);
	int status = fail(job_status_of(-error), error, NULL, "cannot read '%s': %s", shown,
			  strerror(error));

	free(shown);
	return status;
}

static int too_long(void)
{
	char *shown = text_escape(policy.path);

	fail(STATUS_USAGE, EFBIG, "hetmap-run(1) has the format: POLICIES",
	     "the policy '%s' is longer than 1 MiB", shown);
	free(shown);
	return STATUS_USAGE;
}

static int take_lines(char *text, size_t length)
{
	struct rule **next = &policy.rules;
	char *line, *end, *limit = text + length;
	unsigned int number = 0;
	int status = 0;

	*limit = '\0';
	for (line = text; !status && line < limit; line = end + 1) {
		end = memchr(line, '\n', (size_t)(limit - line));
		if (!end)
			end = limit;
		*end = '\0';
		status = take_line(line, (size_t)(end - line), ++number, &next);
	}
	return status;
}

static int read_rules(FILE *file)
{
	char *text = malloc(TEXT_LONGEST + 2);
	size_t length;
	int status;

	if (!text)
		return no_memory();
	length = fread(text, 1, TEXT_LONGEST + 1, file);
	if (ferror(file))
		status = read_failed(errno);
	else if (length > TEXT_LONGEST)
		status = too_long();
	else
		status = take_lines(text, length);
	free(text);
	return status;
}

/* ---- deciding ---- */

static bool fits_peer(const struct rule *rule, const struct hm_access_request *request)
{
	/* Nothing else has one. */
	if (request->operation != HM_ACCESS_SEND && request->operation != HM_ACCESS_RECEIVE)
		return false;
	/* An unknown peer counts as one to refuse, and not as one to allow. */
	if (!request->peer_pid)
		return rule->refuse;
	return (int64_t)request->peer_uid == rule->peer;
}

static bool fits(const struct rule *rule, const struct hm_access_request *request)
{
	const char *text;
	size_t i;

	if (!(rule->operations & 1u << request->operation))
		return false;
	for (i = 0; i < N_PATTERN; i++) {
		if (!rule->pattern[i])
			continue;
		memcpy(&text, (const char *)request + patterns[i].offset, sizeof(text));
		/* A missing string is like an empty one. A '*' stands for a '/', too. */
		if (!text || fnmatch(rule->pattern[i], text, 0) != 0)
			return false;
	}
	if (rule->over != UINT64_MAX && request->size <= rule->over)
		return false;
	if (rule->uid >= 0 && (int64_t)request->uid != rule->uid)
		return false;
	if (rule->peer >= 0 && !fits_peer(rule, request))
		return false;
	return !rule->access || request->access & rule->access;
}

static int decide(void *user, const struct hm_access_request *request, char *reason)
{
	const struct rule *rule;

	(void)user;
	for (rule = policy.rules; rule && !fits(rule, request); rule = rule->next)
		;
	if (!rule || !rule->refuse)
		return 0;
	atomic_store(&output.refused, true);
	snprintf(reason, HM_ACCESS_REASON_MAX, "rule '%.80s' in line %u of %s", rule->text,
		 rule->line, policy.path);
	return -EACCES;
}

int policy_load(const char *path)
{
	FILE *file = fopen(path, "re");
	char *shown;
	int status;

	if (!file) {
		status = job_status_of(-errno);
		shown = text_escape(path);
		fail(status, errno,
		     errno == ENOENT ? "name a file of rules, as hetmap-run(1) has them" : NULL,
		     "cannot open the policy '%s': %s", shown, strerror(errno));
		free(shown);
		return status;
	}
	policy.path = path;
	status = read_rules(file);
	fclose(file);
	if (!status)
		hm_access_hook_set(decide, NULL);
	else
		policy_drop();
	return status;
}

void policy_drop(void)
{
	struct rule *rule;

	hm_access_hook_set(NULL, NULL);
	while ((rule = policy.rules)) {
		policy.rules = rule->next;
		rule_free(rule);
	}
}
