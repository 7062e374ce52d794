"""The broker's guard: a small process between the owner and the JVM, so that the JVM never outlives its owner.

Run as a script with the standard library only. It starts the given command as its child, writes the child's process id
to standard output, and then waits for whichever comes first:

- the child ends: the guard ends with the child's exit code;
- a byte on standard input: the owner asks to stop; the guard ends the child, politely at first;
- end of input, or a new parent process: the owner is gone, however it died. The guard ends the child and
  removes the folder named by ``--remove``, if any.

The pipe closes even on ``kill -9`` of the owner. The parent process is watched besides, because a forked child of the
owner may hold a copy of the pipe.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time

POLL_SECONDS = 0.2
PR_SET_PDEATHSIG = 1


class Stop(Exception):
    """The guard was asked to stop by SIGTERM."""


def _raise_stop(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Stop


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", required=True, help="file to which the child's output is appended")
    parser.add_argument("--lock-fd", type=int, help="inherited lock, held while child or guard live")
    parser.add_argument(
        "--patience", type=float, required=True, help="seconds between the polite and the hard end"
    )
    parser.add_argument("--remove", help="folder to remove when the owner is gone")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(arguments)

    # The owner decides what Ctrl-C and a closed terminal mean; SIGTERM to the guard means stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _raise_stop)

    owner = os.getppid()
    with open(options.log, "ab") as log:
        child = subprocess.Popen(
            options.command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[] if options.lock_fd is None else [options.lock_fd],
            preexec_fn=_end_with_the_guard,
        )
    print(child.pid, flush=True)

    try:
        owner_gone = _watch(child, owner)
    except Stop:
        owner_gone = False
    if child.poll() is None:
        _end(child, options.patience)
    if owner_gone and options.remove:
        shutil.rmtree(options.remove, ignore_errors=True)
    code = child.returncode
    return code if code >= 0 else 128 - code


def _watch(child: subprocess.Popen[bytes], owner: int) -> bool:
    """Wait until the child ended or has to end; True when the owner is gone."""
    while child.poll() is None:
        if os.getppid() != owner:
            return True
        readable, _, _ = select.select([0], [], [], POLL_SECONDS)
        if readable:
            return os.read(0, 1) == b""
    return False


def _end(child: subprocess.Popen[bytes], patience: float) -> None:
    child.send_signal(signal.SIGCONT)  # a stopped child would not see the polite signal
    child.terminate()
    deadline = time.monotonic() + patience
    while child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    if child.poll() is None:
        child.kill()
    child.wait(timeout=30)


def _end_with_the_guard() -> None:
    """In the child: on Linux, also die when the guard itself is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
