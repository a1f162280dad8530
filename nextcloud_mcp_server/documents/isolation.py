"""Restricts the document worker: no files, no network, no other processes.

The worker calls `isolate` before it reads a byte of the document. Each restriction holds for the rest of the process
and cannot be undone. Linux has all of them from 6.12 on. Where a kernel or platform lacks one, the limits of
`worker.limit` remain, and `doctor` reports which restriction is missing.
"""

import ctypes
import os
import platform
import signal
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).parents[1]

# linux/prctl.h
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_SET_SECCOMP: Final = 22
_PR_SET_NO_NEW_PRIVS: Final = 38
_SECCOMP_MODE_FILTER: Final = 2

# linux/landlock.h; the numbers of the system calls are the same on every architecture.
_LANDLOCK_CREATE_RULESET: Final = 444
_LANDLOCK_ADD_RULE: Final = 445
_LANDLOCK_RESTRICT_SELF: Final = 446
_CREATE_RULESET_VERSION: Final = 1
_RULE_PATH_BENEATH: Final = 1
_READ_FILE: Final = 1 << 2
_READ_DIR: Final = 1 << 3
#: The file rights that each version of Landlock's interface knows, as one past the highest bit.
_FILE_RIGHTS: Final = {1: 13, 2: 14, 3: 15, 4: 15}
_NEWEST_FILE_RIGHTS: Final = 16
#: TCP is covered from version 4 on, signals and abstract Unix sockets from version 6 on.
_TCP_VERSION, _TCP_RIGHTS = 4, 0b11
_SCOPE_VERSION, _SCOPES = 6, 0b11

#: The places of shared libraries besides Python's own folders.
_LIBRARIES: Final = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache")

# linux/seccomp.h, linux/filter.h: offsets in `struct seccomp_data`, and the return values of a filter.
_NUMBER_AT, _ARCHITECTURE_AT = 0, 4
#: The second argument; the kernel takes the lower half of it, which stands first on both architectures.
_COMMAND_AT: Final = 24
_LOAD, _JUMP_IF_EQUAL, _JUMP_IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW: Final = 0x7FFF0000
_REFUSE: Final = 0x00050000 | 1  # EPERM
_KILL: Final = 0x80000000
#: Jumps to the end of the filter, whose distances are known when it is complete.
_REFUSED, _ALLOWED = -1, -2
#: x86-64 kernels may offer a second table of system calls from this number on (x32).
_X32_CALLS: Final = 0x40000000

#: Calls that do many things, each with the commands that Python needs (asm-generic/fcntl.h, asm-generic/ioctls.h): to
#: copy a descriptor and to read its flags; to ask for a terminal and its size. Others set a descriptor's owner and
#: signal: the kernel then sends any signal to any process of the user when the server reads the worker's output.
_COPY_AND_FLAGS: Final = (0, 1, 2, 3, 1030)
_TERMINAL: Final = (0x5401, 0x5413, 0x5450, 0x5451)
_BY_COMMAND: Final = {
    "x86_64": {72: _COPY_AND_FLAGS, 16: _TERMINAL},
    "aarch64": {25: _COPY_AND_FLAGS, 29: _TERMINAL},
}

#: What Python needs to compute, to read standard input, to write its two outputs and to import modules. There is no
#: socket, no new process, no signal to another process, and no way to change a file among them.
_NEEDED: Final = {
    # AUDIT_ARCH_X86_64, and the numbers of arch/x86/entry/syscalls/syscall_64.tbl
    "x86_64": (
        0xC000003E,
        (
            *(
                0,
                1,
                2,
                3,
                4,
                5,
                6,
                7,
                8,
                9,
                10,
                11,
                12,
                13,
                14,
                15,
                17,
                19,
                20,
                21,
                24,
                25,
                28,
                32,
                35,
                39,
            ),
            *(60, 79, 89, 98, 100, 102, 104, 107, 108, 131, 158, 186, 202, 204, 217, 228, 229, 230, 231),
            *(257, 262, 267, 269, 271, 273, 318, 324, 332, 334, 439),
        ),
    ),
    # AUDIT_ARCH_AARCH64, and the numbers of include/uapi/asm-generic/unistd.h
    "aarch64": (
        0xC00000B7,
        (
            *(
                17,
                23,
                48,
                56,
                57,
                61,
                62,
                63,
                64,
                65,
                66,
                67,
                73,
                78,
                79,
                80,
                93,
                94,
                98,
                99,
                101,
                113,
            ),
            *(114, 115, 123, 124, 132, 134, 135, 139, 153, 165, 172, 174, 175, 176, 177, 178, 214, 215, 216),
            *(222, 226, 233, 278, 283, 291, 293, 439),
        ),
    ),
}


def isolate() -> None:
    """Apply every restriction that the kernel supports; unsupported ones are left out."""
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    # Required for both restrictions in an unprivileged process; and a setuid program would otherwise undo them.
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return
    # No other process of the same user may attach to this one.
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    # The server ends a worker at its deadline; a server that was killed cannot, and a worker that sleeps would stay.
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    _close_files(libc)
    _close_system(libc)


def _close_files(libc: ctypes.CDLL) -> None:
    """Allow only Python's own modules to be opened, for reading (Landlock, Linux 5.13)."""
    version = libc.syscall(_LANDLOCK_CREATE_RULESET, None, 0, _CREATE_RULESET_VERSION)
    if version < 1:
        return
    files = (1 << _FILE_RIGHTS.get(version, _NEWEST_FILE_RIGHTS)) - 1
    fields = [files]
    if version >= _TCP_VERSION:
        fields.append(_TCP_RIGHTS)
    if version >= _SCOPE_VERSION:
        fields.append(_SCOPES)
    attributes = struct.pack(f"{len(fields)}Q", *fields)
    ruleset = libc.syscall(_LANDLOCK_CREATE_RULESET, attributes, len(attributes), 0)
    if ruleset < 0:
        return
    try:
        for path in _modules():
            _allow_reading(libc, ruleset, path)
        libc.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _modules() -> Iterator[str]:
    """Yield the folders of Python and its libraries.

    A checkout that is installed for development is on the module path as a whole. It may contain a database or an
    `.env`, so only the package in it counts.
    """
    yield str(_PACKAGE)
    yield from _LIBRARIES
    yield str(Path(sys.base_prefix, "lib"))
    for entry in sys.path:
        if any(Path(entry).is_relative_to(prefix) for prefix in (sys.prefix, sys.base_prefix)):
            yield entry


def _allow_reading(libc: ctypes.CDLL, ruleset: int, path: str) -> None:
    with suppress(OSError):
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            rights = _READ_FILE | (_READ_DIR if Path(path).is_dir() else 0)
            rule = struct.pack("=Qi", rights, descriptor)
            libc.syscall(_LANDLOCK_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0)
        finally:
            os.close(descriptor)


def _close_system(libc: ctypes.CDLL) -> None:
    """Refuse every system call that is not needed (seccomp with a filter, Linux 3.5)."""
    if platform.machine() not in _NEEDED:
        return
    architecture, needed = _NEEDED[platform.machine()]
    by_command = _BY_COMMAND[platform.machine()]
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_JUMP_IF_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_JUMP_IF_AT_LEAST, _REFUSED, 0, _X32_CALLS),
        *((_JUMP_IF_EQUAL, _ALLOWED, 0, number) for number in needed),
    ]
    for number, commands in by_command.items():
        # Another call skips the commands.
        program += [
            (_JUMP_IF_EQUAL, 0, len(commands) + 2, number),
            (_LOAD, 0, 0, _COMMAND_AT),
            *((_JUMP_IF_EQUAL, _ALLOWED, 0, command) for command in commands),
            (_RETURN, 0, 0, _REFUSE),
        ]
    last = len(program)
    program = [
        (code, last - at + (then == _ALLOWED) - 1 if then in (_REFUSED, _ALLOWED) else then, other, value)
        for at, (code, then, other, value) in enumerate(program)
    ]
    program += [(_RETURN, 0, 0, _REFUSE), (_RETURN, 0, 0, _ALLOW)]
    instructions = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *each) for each in program))
    # `struct sock_fprog`: a count, padding up to a pointer, the instructions.
    header = struct.pack("@HP", len(program), ctypes.addressof(instructions))
    libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0)
