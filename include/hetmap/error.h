/* SPDX-License-Identifier: MIT */
/*
 * Error texts: how code outside the library sets what hm_errmsg() and hm_warning() return. This
 * header is for extensions (libraries with functions of their own over hetmap), and for plug-ins
 * that add devices and accelerators.
 */
#ifndef HETMAP_ERROR_H
#define HETMAP_ERROR_H

#include <hetmap/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * hm_error_begin - begin a function whose failures have texts
 *
 * Makes hm_errmsg() and hm_warning() of this thread "". A public function of an extension that
 * returns an errno makes this call first: both texts are then of that function, as they are of
 * a function of hetmap. A plug-in must not call this function in its operations, because the
 * texts there are those of the call that uses the operation.
 *
 * Thread safety: any thread; the texts are those of the calling thread. A signal handler must
 * not call this function.
 */
HM_API void hm_error_begin(void);

/**
 * hm_error_set - set the text of a failure, or a warning
 * @r:      [in] negative errno: the text becomes that of hm_errmsg(); 0: the text is added to
 *          the warning (hm_warning()), and hm_errmsg() is "" from then on: a try has failed,
 *          and the function goes on without it. Later calls into the library forget the text.
 *          Positive: a mistake, which becomes -EINVAL. hm_errmsg() has the text and @r
 * @format: [in] format and arguments as for printf(3), which may be what hm_errmsg() and
 *          hm_warning() return. The text of a call is cut at 1023 bytes, all warnings together
 *          at 2047, and a control character becomes a '?'
 *
 * The call changes no errno, and allocates no memory except for the first text of a thread.
 *
 * Thread safety: any thread; the texts are those of the calling thread. A signal handler must
 * not call this function.
 * Returns: @r, so that a failure is one statement: return hm_error_set(-EIO, "..."). -EINVAL if
 * @r is positive, so that callers do not take the failure for success.
 */
HM_API int hm_error_set(int r, const char *format, ...) __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif

#endif
