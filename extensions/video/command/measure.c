// SPDX-License-Identifier: MIT
/* The frame path in place and with copies, picture by picture, in turns. */
#include "measure.h"

#include <errno.h>
#include <hetmap/error.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/command.h"
#include "common/text.h"
#include "perf/bench/bench_stats.h"

#define TARGET 0.6
#define WARM_UP 2 /* pictures that do not count: their pages are new */
#define PICTURES_MOST 10000
#define SEED 36
#define SECOND_NS 1000000000ull

struct measure {
	struct pipeline *pipeline;
	struct hm_frame_info first; /* picture; all others are like it */
	struct hm_frame_layout packed;
	struct hm_frame_pool *results;
	struct hm_frame *uploaded, *result; /* the accelerator's, with copies */
	struct hm_frame_info uploaded_info, result_info;
	unsigned char *picture, *downloaded; /* the program's */
	double *in_place, *with_copies;      /* ns */
	unsigned int n;
	uint64_t bytes_in_place, bytes_with_copies; /* of one picture */
	uint32_t way_in;
	bool same; /* both results have the same bytes, so far */
};

/* ---- frame_path: the two ways ---- */

static int wait_done(struct hm_fence *fence, struct hm_fence_info *ret_info)
{
	int r = hm_fence_wait(fence, UINT64_MAX);

	ret_info->struct_size = sizeof(*ret_info);
	if (!r)
		r = hm_fence_query(fence, ret_info);
	hm_fence_unref(fence);
	return r;
}

static int convert(struct measure *m, const struct hm_frame_info *from,
		   const struct hm_frame_info *to, struct hm_fence_info *ret_info)
{
	struct hm_fence *fence;
	int r = convert_launch(m->pipeline->queue, m->pipeline->kernel, from, to, &fence);

	return r ? r : wait_done(fence, ret_info);
}

/* The accelerator reads the decoder's frame, and its result is where CPUs read it. */
static int go_in_place(struct measure *m, const struct hm_frame_info *from,
		       struct hm_frame **ret_result, double *ret_ns)
{
	struct hm_frame_info to = { .struct_size = sizeof(to) };
	struct hm_fence_info done = { 0 };
	struct hm_frame *result;
	double begin = pipeline_now();
	int r;

	r = hm_frame_pool_acquire(m->results, SECOND_NS, &result);
	if (r)
		return r;
	r = hm_frame_query(result, &to);
	if (!r)
		r = convert(m, from, &to, &done);
	*ret_ns = (pipeline_now() - begin) * 1e9;
	if (r) {
		hm_frame_unref(result);
		return r;
	}
	m->bytes_in_place = done.bytes_copied;
	if (done.way_in > m->way_in)
		m->way_in = done.way_in;
	*ret_result = result;
	return 0;
}

/* The rows of each plane, next to each other. Returns their bytes. */
static uint64_t pack(struct measure *m, const struct hm_frame_info *from)
{
	const struct hm_frame_plane *plane;
	const unsigned char *row;
	uint64_t bytes = 0;
	uint32_t i, n;

	for (i = 0; i < m->packed.n_planes; i++) {
		plane = &m->packed.plane[i];
		row = from->address[i];
		for (n = 0; n < plane->rows; n++, row += from->plane[i].stride)
			memcpy(m->picture + plane->offset + n * plane->stride, row,
			       plane->stride);
		bytes += plane->rows * plane->stride;
	}
	return bytes;
}

static int upload(struct measure *m)
{
	const struct hm_frame_info *to = &m->uploaded_info;
	int r = hm_map_begin_cpu(to->map[0], 0, m->packed.bytes, HM_WRITE);

	if (r)
		return r;
	memcpy(hm_map_address(to->map[0]), m->picture, m->packed.bytes);
	return hm_map_end_cpu(to->map[0], 0, m->packed.bytes, HM_WRITE);
}

static int download(struct measure *m)
{
	const struct hm_frame_info *from = &m->result_info;
	int r = hm_map_begin_cpu(from->map[0], 0, from->plane[0].bytes, HM_READ);

	if (r)
		return r;
	memcpy(m->downloaded, from->address[0], from->plane[0].bytes);
	return hm_map_end_cpu(from->map[0], 0, from->plane[0].bytes, HM_READ);
}

static int go_with_copies(struct measure *m, const struct hm_frame_info *from, double *ret_ns)
{
	struct hm_fence_info done = { 0 };
	double begin = pipeline_now();
	uint64_t bytes = pack(m, from);
	int r;

	r = upload(m);
	if (!r)
		r = convert(m, &m->uploaded_info, &m->result_info, &done);
	if (!r)
		r = download(m);
	*ret_ns = (pipeline_now() - begin) * 1e9;
	m->bytes_with_copies =
		bytes + m->packed.bytes + m->result_info.plane[0].bytes + done.bytes_copied;
	return r;
}

/* ---- pictures ---- */

static int make_frame(struct measure *m, const struct hm_frame_pool_desc *desc,
		      struct hm_frame **ret_frame, struct hm_frame_info *ret_info)
{
	struct hm_frame_pool *pool;
	int r;

	r = hm_frame_pool_create(m->pipeline->device, desc, &pool);
	if (r)
		return r;
	r = hm_frame_pool_acquire(pool, 0, ret_frame);
	hm_frame_pool_unref(pool);
	ret_info->struct_size = sizeof(*ret_info);
	return r ? r : hm_frame_query(*ret_frame, ret_info);
}

/* For pictures like the first one. */
static int prepare(struct measure *m, const struct hm_frame_info *first)
{
	const struct hm_frame_rect *visible = &first->props.visible;
	struct hm_frame_pool_desc desc = {
		.struct_size = sizeof(desc),
		.fourcc = first->fourcc,
		.width = visible->width,
		.height = visible->height,
	};
	int r;

	m->first = *first;
	if (visible->x || visible->y) {
		hm_error_set(-EOPNOTSUPP,
			     "the visible part of its pictures begins at %u, %u, which the "
			     "copies do not take",
			     visible->x, visible->y);
		return -EOPNOTSUPP;
	}
	r = hm_frame_layout_query(first->fourcc, visible->width, visible->height, NULL, 0,
				  &m->packed);
	if (!r)
		r = make_frame(m, &desc, &m->uploaded, &m->uploaded_info);
	m->uploaded_info.props = first->props;
	desc.fourcc = HM_FRAME_XRGB8888;
	if (!r)
		r = make_frame(m, &desc, &m->result, &m->result_info);
	if (!r)
		r = hm_frame_pool_create(m->pipeline->device, &desc, &m->results);
	if (r)
		return r;
	m->picture = calloc(1, m->packed.bytes);
	m->downloaded = calloc(1, m->result_info.plane[0].bytes);
	m->in_place = calloc(PICTURES_MOST, sizeof(*m->in_place));
	m->with_copies = calloc(PICTURES_MOST, sizeof(*m->with_copies));
	if (!m->picture || !m->downloaded || !m->in_place || !m->with_copies)
		return hm_error_set(-ENOMEM, "no memory for pictures of %ux%u", visible->width,
				    visible->height);
	m->same = true;
	return 0;
}

/* Compares the result in place with the downloaded one. */
static int compare(struct measure *m, struct hm_frame *result)
{
	struct hm_frame_info info = { .struct_size = sizeof(info) };
	const struct hm_frame_rect *visible = &m->first.props.visible;
	const unsigned char *a, *b = m->downloaded;
	uint32_t row;
	int r = hm_frame_query(result, &info);

	if (r)
		return r;
	a = info.address[0];
	for (row = 0; row < visible->height; row++)
		m->same &= !memcmp(a + row * info.plane[0].stride,
				   b + row * m->result_info.plane[0].stride,
				   visible->width * 4ull);
	return 0;
}

static bool is_like(const struct hm_frame_info *a, const struct hm_frame_info *b)
{
	return a->fourcc == b->fourcc &&
	       !memcmp(&a->props.visible, &b->props.visible, sizeof(a->props.visible));
}

static int take(struct measure *m, struct hm_frame *frame, uint64_t number)
{
	struct hm_frame_info info = { .struct_size = sizeof(info) };
	struct hm_frame *result = NULL;
	double in_place = 0, with_copies = 0;
	bool first = number % 2;
	int r;

	r = hm_frame_query(frame, &info);
	if (!r && number == 1)
		r = prepare(m, &info);
	if (r)
		return r;
	if (!is_like(&info, &m->first))
		return hm_error_set(-EOPNOTSUPP, "picture %llu has another size or format",
				    (unsigned long long)number);
	if (first)
		r = go_in_place(m, &info, &result, &in_place);
	if (!r)
		r = go_with_copies(m, &info, &with_copies);
	if (!r && !first)
		r = go_in_place(m, &info, &result, &in_place);
	if (!r)
		r = compare(m, result);
	hm_frame_unref(result);
	if (!r && number > WARM_UP) {
		m->in_place[m->n] = in_place;
		m->with_copies[m->n++] = with_copies;
	}
	return r;
}

static int take_all(struct measure *m)
{
	const uint64_t frames = m->pipeline->options->frames;
	struct hm_frame *frame;
	uint64_t number = 0;
	int r = 0;

	while (!r && m->n < PICTURES_MOST && (!frames || number < frames)) {
		if (signals_pending())
			return 128 + signals_pending();
		r = hm_video_read(m->pipeline->producer[0].video, &frame);
		if (!r) {
			r = take(m, frame, ++number);
			hm_frame_unref(frame);
		}
	}
	if (r && r != -ENODATA)
		return fail_library(r == -EBADMSG || r == -EIO ? STATUS_WRONG :
								 STATUS_ENVIRONMENT,
				    r, NULL, "cannot measure the pictures");
	if (!m->n)
		return fail(STATUS_USAGE, EINVAL, NULL,
			    "--bench needs more than %d pictures, and there are %llu", WARM_UP,
			    (unsigned long long)number);
	if (!m->same)
		return fail(STATUS_WRONG, EIO, NULL,
			    "the results in place and with copies differ");
	return 0;
}

/* ---- the result ---- */

static json_t *spread_json(const struct bench_spread *spread)
{
	return json_pack("{s:f, s:f}", "p50", spread->median / 1e9, "p99", spread->p99 / 1e9);
}

static json_t *samples_json(const double *ns, unsigned int n)
{
	json_t *samples = json_array();
	unsigned int i;

	for (i = 0; i < n; i++)
		json_array_append_new(samples, json_real(ns[i] / 1e9));
	return samples;
}

static void print_json(const struct measure *m, const struct bench_spread *in_place,
		       const struct bench_spread *with_copies,
		       const struct bench_interval *interval)
{
	const struct hm_frame_rect *visible = &m->first.props.visible;
	char *name = text_escape_json(m->pipeline->options->input);
	double ratio = in_place->median / with_copies->median;
	const char *way = report_way(m->way_in);
	char code[FOURCC_TEXT];
	json_t *object;

	object = json_pack("{s:s, s:s, s:s, s:i, s:i, s:s, s:i, s:o, s:o, s:f}", "job", "video",
			   "bench", "frame_path", "file", name, "width", (int)visible->width,
			   "height", (int)visible->height, "format",
			   report_fourcc(m->first.fourcc, code), "pictures", (int)m->n,
			   "in_place_seconds", spread_json(in_place), "with_copies_seconds",
			   spread_json(with_copies), "ratio", ratio);
	free(name);
	json_object_set_new(object, "ratio_95",
			    isnan(interval->low) ?
				    json_null() :
				    json_pack("[f, f]", interval->low, interval->high));
	json_object_set_new(object, "target", json_real(TARGET));
	json_object_set_new(object, "met", json_boolean(ratio <= TARGET));
	json_object_set_new(object, "samples",
			    json_pack("{s:o, s:o}", "in_place", samples_json(m->in_place, m->n),
				      "with_copies", samples_json(m->with_copies, m->n)));
	json_object_set_new(object, "bytes_copied",
			    json_pack("{s:I, s:I}", "in_place", (json_int_t)m->bytes_in_place,
				      "with_copies", (json_int_t)m->bytes_with_copies));
	json_object_set_new(object, "device", json_string(m->pipeline->device_name));
	json_object_set_new(object, "accel", json_string(m->pipeline->accel_info.name));
	json_object_set_new(object, "way_in", way ? json_string(way) : json_null());
	output_object(object);
}

static void print_text(const struct measure *m, const struct bench_spread *in_place,
		       const struct bench_spread *with_copies,
		       const struct bench_interval *interval)
{
	const struct hm_frame_rect *visible = &m->first.props.visible;
	double ratio = in_place->median / with_copies->median;
	const char *way = report_way(m->way_in);
	char a[TEXT_MAX], b[TEXT_MAX], code[FOURCC_TEXT];

	printf("frame_path: %ux%u %s to XRGB, %u pictures after %d to warm up\n\n",
	       visible->width, visible->height, report_fourcc(m->first.fourcc, code), m->n,
	       WARM_UP);
	printf("  in place     %s p50, %s p99, from handed over to done\n",
	       text_seconds(in_place->median / 1e9, a), text_seconds(in_place->p99 / 1e9, b));
	printf("  with copies  %s p50, %s p99: copied, uploaded, converted, downloaded\n",
	       text_seconds(with_copies->median / 1e9, a),
	       text_seconds(with_copies->p99 / 1e9, b));
	printf("  ratio        %.2f", ratio);
	if (!isnan(interval->low))
		printf(" (95%%: %.3f to %.3f)", interval->low, interval->high);
	printf(", target <= %.2f %s\n", TARGET, ratio <= TARGET ? "met" : "missed");
	printf("  bytes copied %s against %s a picture\n", text_bytes(m->bytes_in_place, a),
	       text_bytes(m->bytes_with_copies, b));
	printf("  device       %s\n", m->pipeline->device_name);
	printf("  accelerator  %s%s%s\n", m->pipeline->accel_info.name, way ? ", " : "",
	       way ? way : "");
}

static int print(struct measure *m)
{
	struct bench_interval interval;
	struct bench_spread in_place, with_copies;

	if (m->n < BENCH_LEAST)
		interval.low = interval.high = NAN;
	else if (bench_ratio_interval(m->in_place, m->with_copies, m->n, SEED, &interval))
		return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory for an interval");
	bench_spread_of(m->in_place, m->n, &in_place);
	bench_spread_of(m->with_copies, m->n, &with_copies);
	if (output.json)
		print_json(m, &in_place, &with_copies, &interval);
	else
		print_text(m, &in_place, &with_copies, &interval);
	return 0;
}

int measure_run(struct pipeline *pipeline)
{
	struct measure m = { .pipeline = pipeline };
	int status = take_all(&m);

	if (!status)
		status = print(&m);
	hm_frame_unref(m.uploaded);
	hm_frame_unref(m.result);
	hm_frame_pool_unref(m.results);
	free(m.picture);
	free(m.downloaded);
	free(m.in_place);
	free(m.with_copies);
	return status;
}
