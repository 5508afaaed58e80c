// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Checks of the calls' arguments: values that no device accepts, and calls that the open file may
 * not make. The call itself looks up the objects that its members name, and places in them.
 */
#include "model.h"

static bool sim_is_paged(u64 bytes)
{
	return !(bytes & (SIM_PAGE_SIZE - 1));
}

static int sim_sum_check(u64 a, u64 b)
{
	u64 sum;

	return check_add_overflow(a, b, &sum) ? -EOVERFLOW : 0;
}

static int sim_zero_check(u64 value)
{
	return value ? -EINVAL : 0;
}

static int sim_create_check(const struct hetsim_buffer_create *create)
{
	if (create->flags || create->__reserved || create->place >= SIM_N_PLACES ||
	    create->cache > HETSIM_CACHE_COMBINE)
		return -EINVAL;
	return 0;
}

static int sim_resize_check(const struct hetsim_buffer_resize *resize, bool may_write)
{
	if (resize->flags || resize->__reserved)
		return -EINVAL;
	return may_write ? 0 : -EACCES;
}

/* The members by which a call with a queue is a submission: without a queue they are 0. */
static int sim_later_check(struct sim_later later, u32 reserved)
{
	if (reserved || later.n_waits > HETSIM_MAX_SYNCS || later.n_signals > HETSIM_MAX_SYNCS)
		return -EINVAL;
	if (!later.queue && (later.n_waits || later.n_signals || later.waits || later.signals))
		return -EINVAL;
	return 0;
}

static int sim_move_check(const struct hetsim_buffer_move *move, bool may_write)
{
	int r = sim_later_check(SIM_LATER(move), move->__reserved);

	if (r)
		return r;
	if (move->flags || move->place >= SIM_N_PLACES || !move->length ||
	    !sim_is_paged(move->offset | move->length))
		return -EINVAL;
	if (sim_sum_check(move->offset, move->length))
		return -EOVERFLOW;
	return may_write ? 0 : -EACCES;
}

static int sim_sample_check(const struct hetsim_buffer_sample *sample)
{
	bool read = sample->action == HETSIM_SAMPLE_READ;

	if (sample->action > HETSIM_SAMPLE_STOP || sample->__reserved ||
	    !sim_is_paged(sample->offset | sample->length) || !!sample->length != read ||
	    (!read && sample->offset))
		return -EINVAL;
	return sim_sum_check(sample->offset, sample->length);
}

static int sim_when_lost_check(const struct hetsim_buffer_when_lost *lost)
{
	return lost->when > HETSIM_WHEN_LOST_SIGNAL || lost->__reserved ? -EINVAL : 0;
}

static int sim_export_check(const struct hetsim_export *ask, bool may_write)
{
	if (ask->flags & ~HETSIM_EXPORT_WRITE || ask->__reserved)
		return -EINVAL;
	return ask->flags & HETSIM_EXPORT_WRITE && !may_write ? -EACCES : 0;
}

static int sim_bind_check(const struct hetsim_bind *bind, bool may_write)
{
	int r = sim_later_check(SIM_LATER(bind), bind->__reserved);

	if (r)
		return r;
	if (bind->flags & ~HETSIM_BIND_WRITE || bind->source > HETSIM_SOURCE_PROCESS_RANGE ||
	    !sim_is_paged(bind->offset))
		return -EINVAL;
	if (bind->source != HETSIM_SOURCE_BUFFER)
		return -EOPNOTSUPP;
	if (bind->flags & HETSIM_BIND_WRITE && !may_write)
		return -EACCES;
	if (sim_sum_check(bind->offset, bind->length))
		return -EOVERFLOW;
	return sim_span_check(bind->address, bind->length);
}

static int sim_unbind_check(const struct hetsim_unbind *unbind)
{
	int r = sim_later_check(SIM_LATER(unbind), unbind->__reserved);

	if (r)
		return r;
	return unbind->flags ? -EINVAL : sim_span_check(unbind->address, unbind->length);
}

static int sim_queue_check(const struct hetsim_queue_create *create)
{
	if (create->flags || create->__reserved || create->type > HETSIM_QUEUE_COUNTER ||
	    create->timeout_ms > HETSIM_MAX_TIMEOUT_MS)
		return -EINVAL;
	return 0;
}

int sim_submit_check(const struct hetsim_submit *submit)
{
	if (submit->flags || submit->__reserved || submit->__reserved2 || !submit->n_commands ||
	    submit->n_commands > SIM_MAX_COMMANDS || submit->n_waits > HETSIM_MAX_SYNCS ||
	    submit->n_signals > HETSIM_MAX_SYNCS || submit->n_uses > HETSIM_MAX_USES ||
	    submit->command_size < offsetofend(struct hetsim_command, value))
		return -EINVAL;
	return submit->command_size > SIM_PAGE_SIZE ? -E2BIG : 0;
}

int sim_sync_check(const struct hetsim_sync *sync)
{
	if (sync->kind > HETSIM_SYNC_FENCE || (sync->kind == HETSIM_SYNC_FENCE && sync->point))
		return -EINVAL;
	return 0;
}

int sim_use_check(const struct hetsim_use *use, u32 type, bool may_write)
{
	if (use->flags & ~(HETSIM_USE_WRITE | HETSIM_USE_WAIT_ONLY))
		return -EINVAL;
	if (use->flags & HETSIM_USE_WRITE && !may_write)
		return -EACCES;
	/* Work that may wait for user space must not be behind a fence of a buffer. */
	if (type != HETSIM_QUEUE_DMA_FENCE && !(use->flags & HETSIM_USE_WAIT_ONLY))
		return -EOPNOTSUPP;
	return 0;
}

static int sim_inject_check(const struct hetsim_inject *inject)
{
	if (inject->flags)
		return -EINVAL;
	switch (inject->kind) {
	case HETSIM_INJECT_SIGBUS:
	case HETSIM_INJECT_POISON:
	case HETSIM_INJECT_EVICTION:
		return 0;
	case HETSIM_INJECT_LATENCY:
	case HETSIM_INJECT_STUCK:
	case HETSIM_INJECT_LOST_INTERRUPT:
		return inject->value > S64_MAX ? -EINVAL : 0;
	case HETSIM_INJECT_ENOMEM:
	case HETSIM_INJECT_EINTR:
		return inject->target || inject->value > S64_MAX ? -EINVAL : 0;
	case HETSIM_INJECT_RESET:
	case HETSIM_INJECT_UNPLUG:
		return inject->target || inject->value ? -EINVAL : 0;
	default:
		return -EINVAL;
	}
}

static int sim_advise_check(const struct hetsim_advise *advise)
{
	u64 value = advise->value;

	switch (advise->advice) {
	case HETSIM_ADVISE_LOCATION:
		if (value > HETSIM_LOCATION_DEVICE)
			return -EINVAL;
		break;
	case HETSIM_ADVISE_ACCESSED_BY:
	case HETSIM_ADVISE_READ_MOSTLY:
	case HETSIM_ADVISE_NO_ACCESS:
		if (value > 1)
			return -EINVAL;
		break;
	case HETSIM_ADVISE_GRANULE:
		if (value & ~(u64)SIM_CHUNKS || value & (value - 1))
			return -EINVAL;
		break;
	case HETSIM_ADVISE_COUNTER:
		if (value > U16_MAX)
			return -EINVAL;
		break;
	case HETSIM_ADVISE_CACHE:
		if (!sim_is_paged(value))
			return -EINVAL;
		break;
	default:
		return -EINVAL;
	}
	return sim_span_check(advise->address, advise->length);
}

static int sim_prefetch_check(const struct hetsim_prefetch *prefetch)
{
	if (prefetch->flags & ~HETSIM_PREFETCH_WRITE ||
	    prefetch->location > HETSIM_LOCATION_DEVICE ||
	    prefetch->location == HETSIM_LOCATION_NONE)
		return -EINVAL;
	return sim_span_check(prefetch->address, prefetch->length);
}

static int sim_range_query_check(const struct hetsim_range_query *query)
{
	return query->flags ? -EINVAL : sim_span_check(query->address, query->length);
}

static int sim_mirror_check(const struct hetsim_mirror *mirror, bool may_write)
{
	if (mirror->flags || mirror->__reserved)
		return -EINVAL;
	return may_write ? 0 : -EACCES;
}

static int sim_learn_check(const struct hetsim_learn *learn)
{
	if (learn->flags || (learn->least | learn->most) & (SZ_64K - 1))
		return -EINVAL;
	return learn->most && (!learn->least || learn->least > learn->most) ? -EINVAL : 0;
}

int sim_argument_check(unsigned int cmd, const union sim_argument *argument, bool may_write)
{
	switch (cmd) {
	case HETSIM_HANDSHAKE:
		return sim_zero_check(argument->handshake.flags & ~HETSIM_HANDSHAKE_ZERO_WHEN_LOST);
	case HETSIM_QUERY:
		return sim_zero_check(argument->query.flags);
	case HETSIM_COUNTERS:
		return argument->counters.scope > HETSIM_SCOPE_DEVICE ? -EINVAL : 0;
	case HETSIM_BUFFER_CREATE:
		return sim_create_check(&argument->buffer_create);
	case HETSIM_BUFFER_RESIZE:
		return sim_resize_check(&argument->buffer_resize, may_write);
	case HETSIM_BUFFER_MOVE:
		return sim_move_check(&argument->buffer_move, may_write);
	case HETSIM_BUFFER_SAMPLE:
		return sim_sample_check(&argument->buffer_sample);
	case HETSIM_BUFFER_WHEN_LOST:
		return sim_when_lost_check(&argument->buffer_when_lost);
	case HETSIM_EXPORT:
		return sim_export_check(&argument->export, may_write);
	case HETSIM_IMPORT:
		return sim_zero_check(argument->import.flags);
	case HETSIM_BIND:
		return sim_bind_check(&argument->bind, may_write);
	case HETSIM_UNBIND:
		return sim_unbind_check(&argument->unbind);
	case HETSIM_QUEUE_CREATE:
		return sim_queue_check(&argument->queue_create);
	case HETSIM_SUBMIT:
		return sim_submit_check(&argument->submit);
	case HETSIM_WAIT:
		return sim_zero_check(argument->wait.__reserved);
	case HETSIM_FENCE_FD:
		return sim_zero_check(argument->fence_fd.flags);
	case HETSIM_QUEUE_EVENT:
		return sim_zero_check(argument->queue_event.flags);
	case HETSIM_TIMELINE_CREATE:
		return sim_zero_check(argument->timeline_create.flags |
				      argument->timeline_create.__reserved);
	case HETSIM_INJECT:
		return sim_inject_check(&argument->inject);
	case HETSIM_MIRROR:
		return sim_mirror_check(&argument->mirror, may_write);
	case HETSIM_ADVISE:
		return sim_advise_check(&argument->advise);
	case HETSIM_PREFETCH:
		return sim_prefetch_check(&argument->prefetch);
	case HETSIM_RANGE_QUERY:
		return sim_range_query_check(&argument->range_query);
	case HETSIM_MIRROR_EVENTS:
		return sim_zero_check(argument->mirror_events.flags |
				      argument->mirror_events.__reserved);
	case HETSIM_LEARN:
		return sim_learn_check(&argument->learn);
	default: /* the others only name an object */
		return 0;
	}
}
