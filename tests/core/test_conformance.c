// SPDX-License-Identifier: MIT
/* Runs the conformance suite: one test for each case and subject. */
#include <stdio.h>
#include <stdlib.h>

#include "core/conformance.h"
#include "lib/minimal_backend.h"

#define SUBJECTS_MAX 64

static const struct conformance_case *const tables[] = {
	conformance_objects, conformance_maps,    conformance_resize, conformance_grow,
	conformance_pages,   conformance_sharing, conformance_share,  conformance_counts,
};

#define TABLES (sizeof(tables) / sizeof(tables[0]))

static struct subject subjects[SUBJECTS_MAX];
static unsigned int n_subject;

/* Tests are laid out subject by subject; the place of a test gives its case. */
static struct test *tests;
static const struct conformance_case **cases;
static unsigned int n_case;

static void run(void)
{
	unsigned int at = (unsigned int)(test_current() - tests);
	struct fixture f;

	fixture_open(&f, &subjects[at / n_case]);
	cases[at % n_case]->run(&f);
	fixture_close(&f);
}

static int collect_cases(void)
{
	const struct conformance_case *one;
	unsigned int i;

	for (i = 0; i < TABLES; i++)
		for (one = tables[i]; one->name; one++)
			n_case++;
	cases = calloc(n_case, sizeof(cases[0]));
	if (!cases)
		return -1;
	n_case = 0;
	for (i = 0; i < TABLES; i++)
		for (one = tables[i]; one->name; one++)
			cases[n_case++] = one;
	return 0;
}

static int lay_out(void)
{
	unsigned int i;
	char *name;

	tests = calloc((size_t)n_subject * n_case + 1, sizeof(tests[0]));
	if (!tests)
		return -1;
	for (i = 0; i < n_subject * n_case; i++) {
		if (asprintf(&name, "%s.%s", subjects[i / n_case].name,
			     cases[i % n_case]->name) < 0)
			return -1;
		tests[i].name = name;
		tests[i].run = run;
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (hm_backend_register(&minimal_backend) || hm_backend_register(&growing_backend) ||
	    hm_backend_register(&fixed_backend)) {
		fprintf(stderr, "conformance: %s\n", hm_errmsg());
		return 1;
	}
	n_subject = conformance_subjects(subjects, SUBJECTS_MAX);
	if (!n_subject || collect_cases() || lay_out()) {
		fprintf(stderr, "conformance: no devices, or no memory: %s\n", hm_errmsg());
		return 1;
	}
	return harness_main(argc, argv, "conformance", tests);
}
