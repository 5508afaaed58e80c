/* SPDX-License-Identifier: MIT */
/* Status: arrow::Status inside of the library, errno and hm_errmsg() at its doors. */
#ifndef HETMAP_TABLE_STATUS_HH
#define HETMAP_TABLE_STATUS_HH

#include <cerrno>
#include <cstdarg>
#include <exception>
#include <new>
#include <string>

#include <arrow/result.h>
#include <arrow/status.h>

namespace hetmap
{

using arrow::Result;
using arrow::Status;

/* A failure with its negative errno, and a sentence. */
Status Fail(int r, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* A failure of libhetmap: its errno, and the text of hm_errmsg(). */
Status FailOf(int r) __attribute__((cold));

/* The errno of a failure; of a status of libarrow the one that suits its code. */
int ErrnoOf(const Status &status);

/* The same failure, with "WHERE: " before its sentence. */
Status At(const std::string &where, const Status &status);

/* The sentence of a failure, on one line. */
std::string TextOf(const Status &status);

/* Tells of a success with less than was asked for (hm_warning()). */
void Warn(const std::string &text);

/* What @work returns, a Status or a Result. An exception is a failure. */
template <typename F> auto Caught(const F &work) -> decltype(work())
{
	try {
		return work();
	} catch (const std::bad_alloc &) {
		return Status::OutOfMemory("not enough memory is available");
	} catch (const std::exception &e) {
		return Status::Invalid(e.what());
	} catch (...) {
		return Fail(-EIO, "another library failed without a reason");
	}
}

/* Forgets the texts of the call before. */
void Forget() noexcept;

/* The errno of @status, whose sentence hm_errmsg() has from now on. */
int Told(const Status &status) noexcept;

/* The same of the exception that is handled now: to be called in a catch block. */
int ToldThrown() noexcept __attribute__((cold));

/*
 * The frame of each public function: forgets the old texts, and makes an errno and a text of what
 * @work returns. No exception gets out. A frame takes the function object as it is: to wrap it
 * (std::function) may itself run out of memory, outside of the frame.
 */
template <typename F> int Door(const F &work) noexcept
{
	Forget();
	try {
		return Told(work());
	} catch (...) {
		return ToldThrown();
	}
}

/* The same for functions that touch no text. */
template <typename F> void Quietly(const F &work) noexcept
{
	try {
		work();
	} catch (...) {
		/* The end of an object has nobody to tell. */
	}
}

} /* namespace hetmap */

/* Fails the calling function where @call, which gives an errno of libhetmap, does. */
#define RETURN_IF_REFUSED(call)                            \
	do {                                               \
		int refused_ = (call);                     \
		if (refused_)                              \
			return ::hetmap::FailOf(refused_); \
	} while (0)

#endif
