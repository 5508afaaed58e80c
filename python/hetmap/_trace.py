# SPDX-License-Identifier: MIT
"""Page faults of this process, by the command hetmap."""

import os
import signal
import subprocess
import time

_ATTACH_SECONDS = 30


def _is_attached(data, old):
    """The ranges that the process has already are the first records, its stack one of the last."""
    try:
        with open(data, "rb") as file:
            return os.fstat(file.fileno()).st_ino != old and b"[stack]" in file.read(1 << 22)
    except FileNotFoundError:
        return False


class trace:
    """Records the page faults of this process: `with hetmap.trace("out") as faults: ...`

    The folder is a trace of hetmap-trace(1); `report()` is the text of hetmap-report(1), and a
    notebook shows a picture of the buffer with the most faults. `command` is the program hetmap,
    as PATH has it or by its path.
    """

    def __init__(self, folder="hetmap.trace", command="hetmap"):
        self.folder, self.command, self._tracer = os.fspath(folder), os.fspath(command), None

    def __enter__(self):
        if self._tracer:
            raise ValueError("the trace is under way")
        data = os.path.join(self.folder, "perf.data")
        old = os.stat(data).st_ino if os.path.exists(data) else None
        # In a session of its own: Ctrl-C is for this process, whose __exit__() ends the trace.
        tracer = subprocess.Popen(
            [self.command, "trace", "-q", "-o", self.folder, "-p", str(os.getpid())],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
        end = time.monotonic() + _ATTACH_SECONDS
        try:
            while not _is_attached(data, old):
                if tracer.poll() is not None:
                    text = tracer.stderr.read().decode(errors="replace").strip()
                    raise OSError(f"hetmap trace: {text or tracer.returncode}")
                if time.monotonic() > end:
                    raise TimeoutError(f"hetmap trace has not begun in {_ATTACH_SECONDS} s")
                time.sleep(0.01)
        except BaseException:
            tracer.kill()
            tracer.wait()
            tracer.stderr.close()
            raise
        self._tracer = tracer
        return self

    def __exit__(self, *exception):
        tracer, self._tracer = self._tracer, None
        tracer.send_signal(signal.SIGINT)
        text = tracer.communicate()[1].decode(errors="replace").strip()
        if tracer.returncode:
            raise OSError(f"hetmap trace: {text or tracer.returncode}")

    def _report(self, *options):
        done = subprocess.run([self.command, "report", *options, self.folder],
                              stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode:
            raise OSError(f"hetmap report: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout.decode(errors="replace")

    def report(self) -> str:
        """What hetmap-report(1) says of the trace, with its advice."""
        return self._report()

    def _repr_html_(self):
        return self._report("--svg", "-")
