// SPDX-License-Identifier: MIT
/* Installs and removes the handler, and calls earlier handlers as before. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/err.h"
#include "fault/handler.h"
#include "base/object.h"
#include "loss/loss.h"
#include "fault/repair.h"
#include "base/sys.h"
#include "map/view.h"

typedef void action_function(int signal, siginfo_t *info, void *context);

/* An earlier handler. Constant except for reset, and never freed, as handlers may be late. */
struct before {
	struct before *next;
	struct sigaction action;
	_Atomic bool reset; /* SA_RESETHAND: it has been called */
};

/* The signals that are handled, with their earlier and later handlers. */
static struct handled {
	int signal;
	const char *name;
	uint32_t bit;                     /* HM_HANDLER_* */
	struct before *all;               /* all there ever were */
	struct before *spare;             /* for the next one; or NULL */
	_Atomic(struct before *) before;  /* the present one; set before a handler runs */
	_Atomic(action_function *) above; /* of hm_handler_chained(); or handler_run */
} handled[] = {
	{ .signal = SIGBUS, .name = "SIGBUS", .bit = HM_HANDLER_SIGBUS },
	{ .signal = SIGSEGV, .name = "SIGSEGV", .bit = HM_HANDLER_SIGSEGV },
};

/*
 * Protects installing and removing: fields above that are not atomic, and the variables below.
 */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint32_t n_installed;
static _Atomic uint32_t flags = HANDLER_NONE; /* read without lock, too */

uint32_t handler_flags(void)
{
	return atomic_load_explicit(&flags, memory_order_acquire);
}

/* ---- forwarding ---- */

static struct handled *handled_of(int signal)
{
	return signal == handled[0].signal ? &handled[0] : &handled[1];
}

/* The kernel's default action: at once, or when the access is made again. */
static void end_by_default(int signal, siginfo_t *info, bool sent)
{
	struct sigaction action = { .sa_handler = SIG_DFL };

	sigaction(signal, &action, NULL);
	/* Blocked until the handler returns. */
	if (sent)
		syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), signal, info);
}

void handler_forward(int signal, siginfo_t *info, void *context)
{
	bool sent = info->si_code <= 0 || (signal == SIGBUS && info->si_code == BUS_MCEERR_AO);
	struct before *kept = handled_of(signal)->before;
	const struct sigaction *before = &kept->action;
	sigset_t mask;

	/* A thread that can't go on can't ignore a signal [signal(7)]. */
	if (before->sa_handler == SIG_IGN && sent)
		return;
	if (before->sa_handler == SIG_IGN || before->sa_handler == SIG_DFL ||
	    (before->sa_flags & (int)SA_RESETHAND && atomic_exchange(&kept->reset, true))) {
		end_by_default(signal, info, sent);
		return;
	}
	/* The mask that the handler may expect; the kernel restores the old one at the end. */
	memset(&mask, 0, sizeof(mask));
	memcpy(&mask, &((ucontext_t *)context)->uc_sigmask, _NSIG / 8);
	sigorset(&mask, &mask, &before->sa_mask);
	if (!(before->sa_flags & SA_NODEFER))
		sigaddset(&mask, signal);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	if (before->sa_flags & SA_SIGINFO)
		before->sa_sigaction(signal, info, context);
	else
		before->sa_handler(signal);
}

/* ---- coming and going ---- */

static bool is_ours(const struct sigaction *action)
{
	return action->sa_flags & SA_SIGINFO && action->sa_sigaction == handler_run;
}

static bool is_same(const struct sigaction *a, const struct sigaction *b)
{
	return a->sa_sigaction == b->sa_sigaction && a->sa_flags == b->sa_flags &&
	       !memcmp(&a->sa_mask, &b->sa_mask, _NSIG / 8);
}

/* Makes the record, so that keep() can't fail. */
static int prepare(struct handled *h)
{
	if (!h->spare)
		h->spare = sys_calloc(1, sizeof(*h->spare));
	return h->spare ? 0 : err_set(-ENOMEM, "no memory to note the handlers of %s", h->name);
}

/*
 * Notes @action as the earlier handler, in its old record if it was there before. Skips the
 * library's own handler, which other code may have saved and put back: the one before it stays.
 */
static void keep(struct handled *h, const struct sigaction *action)
{
	struct before *before;

	if (is_ours(action))
		return;
	for (before = h->all; before; before = before->next)
		if (is_same(&before->action, action))
			break;
	if (!before) {
		before = h->spare;
		h->spare = NULL;
		before->action = *action;
		before->next = h->all;
		h->all = before;
	}
	before->reset = false;
	h->before = before;
}

static int take(struct handled *h)
{
	struct sigaction ours = { .sa_sigaction = handler_run };
	struct sigaction action, replaced;
	int r;

	r = prepare(h);
	if (r)
		return r;
	/* Must be known before the first fault. */
	r = sys_sigaction(h->signal, NULL, &action);
	if (r)
		goto err;
	keep(h, &action);
	r = prepare(h);
	if (r)
		return r;
	h->above = handler_run;
	/*
	 * All signals are blocked, so that none comes between a claim of a block and its end.
	 */
	sigfillset(&ours.sa_mask);
	ours.sa_flags = SA_SIGINFO | SA_ONSTACK | (action.sa_flags & SA_RESTART);
	r = sys_sigaction(h->signal, &ours, &replaced);
	if (r)
		goto err;
	/* Another handler may have been installed in between. */
	if (!is_same(&replaced, &action))
		keep(h, &replaced);
	return 0;

err:
	return err_set(r, "installing a handler of %s: %s", h->name, err_name(r));
}

/* Leaves a handler alone that was installed since. */
static int give_back(struct handled *h)
{
	struct sigaction now;
	int r;

	r = sys_sigaction(h->signal, NULL, &now);
	if (!r && is_ours(&now))
		r = sys_sigaction(h->signal, &h->before->action, NULL);
	return r ? err_set(r, "removing the handler of %s: %s", h->name, err_name(r)) : 0;
}

static int install_locked(void)
{
	int r;

	guard_prepare();
	/* Waits for changes of maps. */
	r = repair_begin();
	if (r)
		return r;
	handler_was_installed = true;
	r = take(&handled[0]);
	if (r)
		return r;
	r = take(&handled[1]);
	if (r)
		goto err_first;
	return 0;

err_first:
	sys_sigaction(handled[0].signal, &handled[0].before->action, NULL);
	return r;
}

static int remove_locked(void)
{
	int r;

	r = give_back(&handled[0]);
	if (r)
		return r;
	r = give_back(&handled[1]);
	if (r)
		goto err_first;
	return 0;

err_first:
	take(&handled[0]);
	return r;
}

/*
 * An installation waits for changes of all maps, with the mutex held, for which other calls
 * wait.
 */
static int check_caller(const char *what)
{
	if (!view_in_callback())
		return 0;
	return err_set(-EDEADLK,
		       "%s: a view's callback must not make this call, as a map is being "
		       "changed: call after the callback",
		       what);
}

int hm_handler_install(uint32_t wanted)
{
	bool first = false;
	int r;

	err_begin();
	if (wanted & ~HM_HANDLER_NO_REPAIR)
		return err_set(-EINVAL, "hm_handler_install: unknown flags 0x%x",
			       wanted & ~HM_HANDLER_NO_REPAIR);
	r = check_caller("hm_handler_install");
	if (r)
		return r;
	fork_init();
	pthread_mutex_lock(&mutex);
	if (n_installed && wanted != flags) {
		r = err_set(-EBUSY,
			    "the handler is installed already, with flags 0x%x and not 0x%x: "
			    "remove it first",
			    flags, wanted);
		goto unlock;
	}
	if (!n_installed)
		r = install_locked();
	/*
	 * Set last: threads that see the flags take faults for errors. Until then the handler
	 * forwards them. A child that is forked in between has no handler installed:
	 * handler_install_fork_child().
	 */
	if (!r && !n_installed)
		flags = wanted;
	if (!r)
		n_installed++;
	else if (!n_installed)
		repair_finish();
	first = !r && n_installed == 1 && !(wanted & HM_HANDLER_NO_REPAIR);
	if (first)
		loss_handler_comes();
unlock:
	pthread_mutex_unlock(&mutex);
	if (first)
		loss_signal_each();
	return r;
}

static uint32_t above_now(bool promised)
{
	struct sigaction now;
	uint32_t above = 0;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(handled); i++) {
		if (sys_sigaction(handled[i].signal, NULL, &now) || is_ours(&now))
			continue;
		if ((now.sa_sigaction == handled[i].above) == promised)
			above |= handled[i].bit;
	}
	return above;
}

/*
 * A signal with its default action, or ignored, has no other handler that calls the library's.
 */
static int check_removal(void)
{
	struct sigaction now;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(handled); i++) {
		if (sys_sigaction(handled[i].signal, NULL, &now) || is_ours(&now) ||
		    now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN)
			continue;
		return err_set(-EBUSY,
			       "another handler of %s was installed since, which may call the "
			       "library's: remove that one first",
			       handled[i].name);
	}
	return 0;
}

int hm_handler_remove(void)
{
	int r;
	bool stays = false;

	err_begin();
	r = check_caller("hm_handler_remove");
	if (r)
		return r;
	pthread_mutex_lock(&mutex);
	if (!n_installed)
		r = err_set(-EINVAL, "hm_handler_remove without hm_handler_install");
	else if (n_installed == 1)
		r = check_removal();
	if (!r && n_installed == 1) {
		loss_handler_goes();
		r = remove_locked();
		stays = r && !(flags & HM_HANDLER_NO_REPAIR);
		if (stays)
			loss_handler_comes();
	}
	if (!r && !--n_installed) {
		flags = HANDLER_NONE;
		repair_finish();
	}
	pthread_mutex_unlock(&mutex);
	if (stays)
		loss_signal_each();
	return r;
}

static int promise(struct handled *h)
{
	struct sigaction now;
	int r;

	r = sys_sigaction(h->signal, NULL, &now);
	if (r)
		return err_set(r, "asking for the handler of %s: %s", h->name, err_name(r));
	if (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN)
		return err_set(-EINVAL,
			       "the handler of %s was taken away since, and no other handler "
			       "forwards to it: remove it, and install it again",
			       h->name);
	h->above = now.sa_sigaction;
	return 0;
}

int hm_handler_chained(void)
{
	int r;
	size_t i;

	err_begin();
	r = check_caller("hm_handler_chained");
	if (r)
		return r;
	pthread_mutex_lock(&mutex);
	if (!n_installed)
		r = err_set(-EINVAL, "hm_handler_chained without hm_handler_install");
	for (i = 0; i < ARRAY_SIZE(handled) && !r; i++)
		r = promise(&handled[i]);
	pthread_mutex_unlock(&mutex);
	return r;
}

/* A thread that held the mutex is in the parent. */
void handler_install_fork_child(void)
{
	mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	if (!n_installed)
		flags = HANDLER_NONE;
}

uint32_t handler_unchained(void)
{
	return above_now(false);
}

int hm_handler_query(struct hm_handler_info *ret_info)
{
	struct hm_handler_info info = { 0 };
	int r;

	err_begin();
	if (!ret_info)
		return err_set(-EINVAL, "hm_handler_query: ret_info is NULL");
	r = struct_check_out(ret_info->struct_size, sizeof(info),
			     offsetof(struct hm_handler_info, guarded), "hm_handler_info");
	if (!r)
		r = check_caller("hm_handler_query");
	if (r)
		return r;
	pthread_mutex_lock(&mutex);
	info.installed = n_installed;
	if (n_installed) {
		info.flags = flags;
		info.chained = above_now(true);
		info.above = info.chained | above_now(false);
	}
	pthread_mutex_unlock(&mutex);
	info.guarded = handler_counters.guarded;
	info.repaired = handler_counters.repaired;
	info.forwarded = handler_counters.forwarded;
	struct_write(ret_info, &info, ret_info->struct_size);
	return 0;
}
