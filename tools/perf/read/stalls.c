// SPDX-License-Identifier: MIT
/* How long processes stood still for page faults. */
#include "stalls.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>

/* A thread's last event tells its state; before the first it does nothing. */
enum doing {
	SLEEPS,
	RUNS,  /* or would, if there were a CPU for it */
	WAITS, /* sleeps in a fault */
	N_DOING,
};

struct process {
	uint32_t pid;
	uint32_t n[N_DOING]; /* threads */
	uint64_t at;         /* up to when it is counted */
	uint64_t stalled_ns;
};

struct thread {
	uint32_t tid;
	struct process *process;
	enum doing doing;
	bool in_fault;
};

struct stalls {
	void *processes, *threads; /* trees, by pid and tid */
	struct process *process;   /* the last ones */
	struct thread *thread;
};

static int compare_processes(const void *a, const void *b)
{
	const struct process *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static int compare_threads(const void *a, const void *b)
{
	const struct thread *x = a, *y = b;

	return (x->tid > y->tid) - (x->tid < y->tid);
}

static struct process *process_of(struct stalls *stalls, uint32_t pid)
{
	const struct process key = { .pid = pid };
	struct process *process;
	void *node;

	if (stalls->process && stalls->process->pid == pid)
		return stalls->process;
	node = tfind(&key, &stalls->processes, compare_processes);
	if (node)
		return stalls->process = *(struct process **)node;
	process = calloc(1, sizeof(*process));
	if (!process)
		return NULL;
	process->pid = pid;
	if (!tsearch(process, &stalls->processes, compare_processes)) {
		free(process);
		return NULL;
	}
	return stalls->process = process;
}

static struct thread *thread_of(struct stalls *stalls, uint32_t pid, uint32_t tid)
{
	const struct thread key = { .tid = tid };
	struct thread *thread = stalls->thread;
	struct process *process;
	void *node;

	if (thread && thread->tid == tid && thread->process->pid == pid)
		return thread;
	process = process_of(stalls, pid);
	if (!process)
		return NULL;
	node = tfind(&key, &stalls->threads, compare_threads);
	if (node) {
		thread = *(struct thread **)node;
	} else {
		thread = calloc(1, sizeof(*thread));
		if (!thread)
			return NULL;
		thread->tid = tid;
		if (!tsearch(thread, &stalls->threads, compare_threads)) {
			free(thread);
			return NULL;
		}
	}
	/* New, or its number was another's before. */
	if (thread->process != process) {
		if (thread->process)
			thread->process->n[thread->doing]--;
		thread->process = process;
		thread->doing = SLEEPS;
		thread->in_fault = false;
		process->n[SLEEPS]++;
	}
	return stalls->thread = thread;
}

static void settle(struct process *process, uint64_t time)
{
	if (time <= process->at)
		return;
	if (process->at && process->n[WAITS] && !process->n[RUNS])
		process->stalled_ns += time - process->at;
	process->at = time;
}

static void set(struct thread *thread, enum doing doing, uint64_t time)
{
	if (thread->doing == doing)
		return;
	settle(thread->process, time);
	thread->process->n[thread->doing]--;
	thread->process->n[doing]++;
	thread->doing = doing;
}

struct stalls *stalls_create(void)
{
	return calloc(1, sizeof(struct stalls));
}

void stalls_free(struct stalls *stalls)
{
	if (!stalls)
		return;
	tdestroy(stalls->processes, free);
	tdestroy(stalls->threads, free);
	free(stalls);
}

int stalls_event(struct stalls *stalls, const struct recorded_event *event)
{
	enum doing doing = RUNS;
	struct thread *thread;

	if (event->kind > RECORDED_MAJOR && event->kind != RECORDED_SWITCH &&
	    event->kind != RECORDED_EXIT)
		return 0;
	thread = thread_of(stalls, event->pid, event->tid);
	if (!thread)
		return -ENOMEM;
	if (event->kind == RECORDED_SWITCH) {
		/* Who was taken off the CPU goes on as soon as there is one. */
		if (event->off_cpu && !event->preempted)
			doing = thread->in_fault ? WAITS : SLEEPS;
	} else {
		/* A fault that a signal ended has no end: the next one begins then. */
		thread->in_fault = event->kind == RECORDED_FAULT;
		if (event->kind == RECORDED_EXIT)
			doing = SLEEPS;
	}
	set(thread, doing, event->time);
	return 0;
}

uint64_t stalls_of(struct stalls *stalls, uint32_t pid)
{
	const struct process *process = process_of(stalls, pid);

	return process ? process->stalled_ns : 0;
}
