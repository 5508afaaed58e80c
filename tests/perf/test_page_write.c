// SPDX-License-Identifier: MIT
/*
 * The page of "hetmap report --html" as a file: the data in it, names that try to end the data, and
 * the error where it can't be written. tests/perf/test_page.sh opens it in a browser.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../tools/perf/report/page.h"
#include "lib/command.h"

static const char data_begin[] = "<script type=\"application/json\" id=\"data\">";
static const char data_end[] = "</script>";

/* The page of @report; free() it. */
static char *written(const json_t *report)
{
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);

	CHECK_FATAL(out != NULL);
	CHECK_EQUAL(page_write(out, report), 0);
	fclose(out);
	CHECK_FATAL(text != NULL && strlen(text) == length);
	return text;
}

static void check_base64(const char *bytes, const char *expected)
{
	AUTO(json_t) *text = page_base64((const unsigned char *)bytes, strlen(bytes));

	CHECK_FATAL(text != NULL);
	if (strcmp(json_string_value(text), expected))
		test_fail(__FILE__, __LINE__, "%s, not %s", json_string_value(text), expected);
}

/* RFC 4648, section 10. */
static void base64(void)
{
	check_base64("", "");
	check_base64("f", "Zg==");
	check_base64("fo", "Zm8=");
	check_base64("foo", "Zm9v");
	check_base64("foob", "Zm9vYg==");
	check_base64("foobar", "Zm9vYmFy");
	check_base64("\xfb\xff\x01", "+/8B");
}

static size_t letters_of(const struct page_event *events, size_t n, bool nodes)
{
	AUTO(json_t) *text = NULL;
	size_t length;

	CHECK_EQUAL(page_events(events, n, nodes, &text), 0);
	CHECK_FATAL(text != NULL);
	length = json_string_length(text);
	return length;
}

/* Predictable bytes take almost no room, random ones about their own size. */
static void events_are_small(void)
{
	static struct page_event events[100000];
	const size_t n = sizeof(events) / sizeof(events[0]);
	uint32_t random = 1;
	size_t i;

	CHECK_EQUAL(letters_of(NULL, 0, false), 8);
	for (i = 0; i < n; i++)
		events[i] = (struct page_event){
			.time = (uint32_t)(4 * i), .page = (uint32_t)i, .buffer = 3, .thread = 2
		};
	CHECK(letters_of(events, n, true) < n / 8 * 4 / 3);
	for (i = 0; i < n; i++) {
		random = random * 1664525 + 1013904223;
		events[i].page = random >> 12;
	}
	CHECK(letters_of(events, n, true) < n * 24 / 8 * 4 / 3);
}

/* ---- events, as page_events.js reads them ---- */

#define NUMBER (64 + 33 * 32 + 33 * 32)
#define SAMES 12

struct decoder {
	const char *at; /* letters; each four are three bytes */
	uint32_t n_byte, range, code;
	uint16_t chance[SAMES + 9 * NUMBER];
	uint8_t same[6];
};

static uint32_t letter(char c)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				      "0123456789+/";
	const char *at = strchr(letters, c);

	return at && *at ? (uint32_t)(at - letters) : 0;
}

static void next(struct decoder *d)
{
	const char *four = d->at + d->n_byte / 3 * 4;
	uint32_t bits = 0, k;

	for (k = 0; k < 4; k++)
		bits = bits << 6 | letter(four[k]);
	d->code = d->code << 8 | (bits >> (16 - 8 * (d->n_byte++ % 3)) & 0xff);
}

static uint32_t bit(struct decoder *d, size_t which)
{
	uint16_t *chance = &d->chance[which];
	uint32_t bound = (d->range >> 12) * *chance, one = d->code >= bound;

	d->code -= one ? bound : 0;
	d->range = one ? d->range - bound : bound;
	*chance =
		(uint16_t)(one ? *chance - (*chance >> 5) : *chance + ((4096 - *chance) >> 5));
	for (; d->range < 1u << 24; d->range <<= 8)
		next(d);
	return one;
}

static uint32_t number(struct decoder *d, size_t model)
{
	size_t at = SAMES + model * NUMBER, node = 1, length, i;
	uint32_t value = 1, one;

	while (node < 64)
		node = 2 * node + bit(d, at + node);
	length = node - 64;
	if (length < 2)
		return (uint32_t)length;
	for (node = 1, i = length - 1; i--; value = 2 * value + one) {
		bool top = length - 2 - i < 5;

		one = bit(d, at + 64 + (top ? 32 * length + node : 33 * 32 + 32 * length + i));
		node = top ? 2 * node + one : node;
	}
	return value;
}

static bool same(struct decoder *d, size_t what)
{
	d->same[what] = (uint8_t)bit(d, 2 * what + d->same[what]);
	return d->same[what];
}

static void check_whole(const struct page_event *events, size_t n)
{
	static struct decoder d;
	static struct page_event last[65536];
	static uint32_t step[65536], page_of[65536];
	static uint8_t node_of[65536];
	uint32_t time = 0, code;
	uint16_t t = 0;
	AUTO(json_t) *text = NULL;
	size_t i;

	memset(&d, 0, sizeof(d));
	memset(last, 0, sizeof(last));
	memset(step, 0, sizeof(step));
	memset(page_of, 0, sizeof(page_of));
	memset(node_of, 0, sizeof(node_of));
	for (i = 0; i < sizeof(d.chance) / sizeof(d.chance[0]); i++)
		d.chance[i] = 2048;
	CHECK_EQUAL(page_events(events, n, true, &text), 0);
	d.at = json_string_value(text);
	d.range = UINT32_MAX;
	for (i = 0; i < 5; i++)
		next(&d);
	for (i = 0; i < n; i++) {
		const struct page_event *e = &events[i];
		struct page_event *was;
		uint16_t b;

		time += number(&d, 0);
		t = same(&d, 0) ? t : (uint16_t)number(&d, 1);
		was = &last[t];
		was->cpu = same(&d, 1) ? was->cpu : (uint8_t)number(&d, 2);
		b = same(&d, 2) ? was->buffer : (uint16_t)number(&d, 3);
		was->kind = same(&d, 3) ? was->kind : (uint8_t)number(&d, 4);
		if (!same(&d, 4)) {
			code = number(&d, 5);
			step[t] = code >> 1 ^ (code & 1 ? UINT32_MAX : 0);
		}
		was->page = page_of[b] = (b == was->buffer ? was->page : page_of[b]) + step[t];
		was->buffer = b;
		was->cost_ns = number(&d, was->kind & PAGE_MAJOR ? 8 : 7);
		node_of[b] = same(&d, 5) ? node_of[b] : (uint8_t)number(&d, 6);
		if (time != e->time || t != e->thread || was->cpu != e->cpu || b != e->buffer ||
		    was->kind != e->kind || was->page != e->page ||
		    was->cost_ns != e->cost_ns || node_of[b] != e->node)
			test_fail(__FILE__, __LINE__, "event %zu is another one", i);
	}
	/* The text was needed up to its last byte or two. */
	CHECK(json_string_length(text) / 4 * 3 - d.n_byte < 5);
}

static uint32_t drawn;

static uint32_t draw(uint32_t below)
{
	drawn = drawn * 1664525 + 1013904223;
	return (uint32_t)((uint64_t)drawn * below >> 32);
}

/* Small and large numbers, all there are, and few. */
static void events_are_whole(void)
{
	static const uint32_t most[] = { 1, 2, 100, UINT16_MAX, UINT32_MAX };
	static struct page_event events[5000];
	const size_t n = sizeof(events) / sizeof(events[0]);
	size_t i, k;

	for (k = 0; k < sizeof(most) / sizeof(most[0]); k++) {
		uint32_t short_most = most[k] < UINT16_MAX ? most[k] : UINT16_MAX + 1;

		for (i = 0; i < n; i++)
			events[i] = (struct page_event){
				.time = (i ? events[i - 1].time : 0) +
					draw(most[k] / (uint32_t)n + 1),
				.page = draw(most[k]),
				.cost_ns = draw(most[k]),
				.buffer = (uint16_t)draw(short_most),
				.thread = (uint16_t)draw(short_most),
				.cpu = (uint8_t)draw(short_most),
				.kind = (uint8_t)draw(32),
				.node = (uint8_t)draw(short_most),
			};
		events[n - 1].time = events[n - 1].page = events[n / 2].page = UINT32_MAX;
		events[n / 2].cost_ns = UINT32_MAX;
		events[n / 2].buffer = events[n / 2].thread = UINT16_MAX;
		events[n / 2].cpu = events[n / 2].node = UINT8_MAX;
		check_whole(events, n);
		check_whole(events, 1);
	}
}

static void data_are_whole(void)
{
	AUTO(json_t) *report = json_pack("{s:s, s:[s, s, s], s:I}", "a", "</script><!--", "b",
					 "@DATA@", "@SCRIPT@", "\"\\\n\x7f", "<c>",
					 (json_int_t)1 << 60);
	AUTO_TEXT *page = written(report);
	char *from = strstr(page, data_begin), *to;
	AUTO(json_t) *read = NULL;

	CHECK_FATAL(from != NULL);
	from += sizeof(data_begin) - 1;
	to = strstr(from, data_end);
	CHECK_FATAL(to != NULL);
	CHECK(memchr(from, '<', (size_t)(to - from)) == NULL);
	read = json_loadb(from, (size_t)(to - from), 0, NULL);
	CHECK(json_equal(read, report));
}

/* No mark of the template is left in the page, and nothing is fetched by a network. */
static void page_is_whole(void)
{
	static const char *const foreign[] = { "@STYLE@", "@DATA@",  "@SCRIPT@", "http:",
					       "https:",  "src=",    "href=",    "url(",
					       "@import", "import(", "fetch(",   "XMLHttp" };
	AUTO(json_t) *report = json_object();
	AUTO_TEXT *page = written(report);
	size_t i;

	for (i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
		if (strstr(page, foreign[i]))
			test_fail(__FILE__, __LINE__, "%s is in it", foreign[i]);
	CHECK(!strncmp(page, "<!DOCTYPE html>\n", 16));
	CHECK(strstr(page, "content=\"default-src 'none'; script-src 'unsafe-inline'; "
			   "style-src 'unsafe-inline'; img-src data:\"") != NULL);
	CHECK(strstr(page, "prefers-color-scheme: dark") != NULL);
	CHECK(strstr(page, "</html>\n") != NULL);
	/* All names of the data are used as text. */
	CHECK(strstr(page, "innerHTML") == NULL);
}

static void no_room(void)
{
	FILE *out = fopen("/dev/full", "w");
	AUTO(json_t) *report = json_object();

	CHECK_FATAL(out != NULL);
	CHECK_EQUAL(page_write(out, report), -ENOSPC);
	/* Nothing is kept back that a later write would find room for. */
	setvbuf(out, NULL, _IONBF, 0);
	CHECK_EQUAL(page_write(out, report), -ENOSPC);
	fclose(out);
}

static void no_report(void)
{
	AUTO_TEXT *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);
	AUTO(json_t) *list = json_array();

	CHECK_FATAL(out != NULL);
	CHECK_EQUAL(page_write(out, NULL), -EINVAL);
	CHECK_EQUAL(page_write(out, list), -EINVAL);
	fclose(out);
	CHECK_EQUAL(length, 0);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		{ "base64", base64, 0, 0 },
		{ "events_are_small", events_are_small, 0, 0 },
		{ "events_are_whole", events_are_whole, 0, 0 },
		{ "data_are_whole", data_are_whole, 0, 0 },
		{ "page_is_whole", page_is_whole, 0, 0 },
		{ "no_room", no_room, 0, 0 },
		{ "no_report", no_report, 0, 0 },
		{ NULL, NULL, 0, 0 },
	};

	return harness_main(argc, argv, "page_write", tests);
}
