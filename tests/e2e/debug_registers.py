# SPDX-License-Identifier: MIT
"""Do the debug registers of this host trap? Some hypervisors take them and report nothing."""
import ctypes
import os
import signal

PTRACE_TRACEME, PTRACE_POKEUSER, PTRACE_CONT = 0, 6, 7
FIRST_REGISTER = 848  # offsetof(struct user, u_debugreg)
CONTROL_REGISTER = FIRST_REGISTER + 7 * 8
WRITES_OF_EIGHT_BYTES = 0x90001  # the first register, on


def debug_registers_trap():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_ulong, ctypes.c_ulong]
    libc.ptrace.restype = ctypes.c_long
    watched = ctypes.c_uint64(0)
    child = os.fork()
    if child == 0:
        libc.ptrace(PTRACE_TRACEME, 0, 0, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        watched.value = 1
        os._exit(0)
    os.waitpid(child, 0)
    libc.ptrace(PTRACE_POKEUSER, child, FIRST_REGISTER, ctypes.addressof(watched))
    libc.ptrace(PTRACE_POKEUSER, child, CONTROL_REGISTER, WRITES_OF_EIGHT_BYTES)
    libc.ptrace(PTRACE_CONT, child, 0, 0)
    _, status = os.waitpid(child, 0)
    if not os.WIFSTOPPED(status):
        return False
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return os.WSTOPSIG(status) == signal.SIGTRAP
