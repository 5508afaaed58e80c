# SPDX-License-Identifier: MIT
"""Errors of the library as exceptions."""


class Error(OSError):
    """A call of the library failed: errno, and a sentence with the numbers.

    >>> import hetmap
    >>> try:
    ...     hetmap.Device("no such device")
    ... except hetmap.Error as error:
    ...     print(error.errno, error.sentence)
    19 there is no device "no such device"
    """

    @property
    def sentence(self):
        """What failed, without the remedy."""
        return self._parts()[0]

    @property
    def remedy(self):
        """What to do about it; None where the library knows nothing."""
        return self._parts()[1]

    def _parts(self):
        text = self.strerror or ""
        ends = [(text.find(mark), len(mark)) for mark in ("; ", ": ") if mark in text]
        if not ends:
            return text, None
        at, length = min(ends)
        return text[:at], text[at + length:]


class DeviceLost(Error):
    """The device of the bytes was taken away: they are gone, see Device.recover()."""


class FileCut(Error):
    """Bytes of a file can't be reached: it was cut, or its storage failed."""


class NoFile(Error, FileNotFoundError):
    """There is no file of this name."""


class LessWarning(UserWarning):
    """A call succeeded with less than was asked for."""
