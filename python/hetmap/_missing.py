# SPDX-License-Identifier: MIT
"""What an import of the package lacks, in words."""


def explain(error):
    """An ImportError with the remedy; the error itself where there is none."""
    import sysconfig
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return ImportError("hetmap needs a build of Python with the GIL, and this one is "
                           "free-threaded: use the other one of the same version")
    if "libOpenCL.so.1" in str(error):
        return ImportError(f"{error}: install the system's loader of OpenCL drivers (Debian: "
                           "apt-get install ocl-icd-libopencl1)")
    return error
