"""The right results of a kernel, and how far rounding may take an honest one."""
