"""Progress of a command on stderr: a bar on a terminal, a line every half minute elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

EVERY = 30.0
"""Chosen: seconds between two lines where stderr is no terminal."""


@contextmanager
def progress_bar(label: str, *, show: bool = True) -> Iterator[Callable[[int, int], None] | None]:
    """Yield ``progress(done, total)``; None if `show` is False."""
    if not show:
        yield None
        return
    if not sys.stderr.isatty():
        lines = ProgressLines(label)
        with _said_now_and_then(lines, EVERY):
            yield lines
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]}"),
    )
    start = time.monotonic()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None, left="")

        def progress(done: int, total: int) -> None:
            left = time_left(time.monotonic() - start, done, total - done)
            bar.update(task, completed=done, total=total, left=f"about {_duration(left)} left" if left >= 1 else "")

        yield progress


@contextmanager
def stages(first: str = "reading", *, show: bool = True) -> Iterator[Callable[[str], None] | None]:
    """Yield ``tell(stage)``, for work with named stages and no total; None if `show` is False."""
    if not show:
        yield None
        return
    if not sys.stderr.isatty():
        lines = ProgressLines(first)
        with _said_now_and_then(lines, EVERY):
            yield lines.begin
        return
    from rich.console import Console

    with Console(stderr=True).status(first) as status:
        yield lambda what: status.update(what)


class ProgressLines:
    """Lines about a command's progress, with the time left at the present speed.

    The speed is measured from the first report of progress: a resumed run starts with many pieces already done.

    Examples
    --------
    >>> moments = iter([0.0, 10.0, 40.0, 50.0, 160.0, 170.0])
    >>> lines = ProgressLines("runs", clock=lambda: next(moments))
    >>> lines.line()
    'runs: at work for 10 s'
    >>> lines(4, 10)
    >>> lines.line()
    'runs: 4 of 10'
    >>> lines(6, 10)
    >>> lines.line()
    'runs: 6 of 10, about 4 min left'
    """

    def __init__(self, label: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._label, self._clock = label, clock
        self._start = clock()
        self._first: tuple[float, int] | None = None
        self._last: tuple[float, int, int] | None = None

    def __call__(self, done: int, total: int) -> None:
        """Record the progress that `line` prints."""
        now = self._clock()
        self._first = self._first or (now, done)
        self._last = (now, done, total)

    def begin(self, label: str) -> None:
        """Begin another piece of work."""
        self._label, self._start, self._first, self._last = label, self._clock(), None, None

    def line(self) -> str:
        """Return the present progress as one line."""
        now = self._clock()
        if self._first is None or self._last is None:
            return f"{self._label}: at work for {_duration(now - self._start)}"
        (start, before), (moment, done, total) = self._first, self._last
        if not before < done <= total:
            return f"{self._label}: {done} of {total}"
        left = time_left(moment - start, done - before, total - done) - (now - moment)
        return f"{self._label}: {done} of {total}" + (f", about {_duration(left)} left" if left >= 1 else "")


def time_left(seconds: float, done: int, left: int) -> float:
    """Return the seconds left if all goes on as it did on average since the start.

    Examples
    --------
    >>> time_left(30.0, 10, 20)
    60.0
    """
    return seconds / done * left if done else 0.0


@contextmanager
def _said_now_and_then(lines: ProgressLines, every: float) -> Iterator[None]:
    """Print a line at intervals until the end; nothing if the end comes before the first."""
    ended = Event()

    def say() -> None:
        while not ended.wait(every):
            print(lines.line(), file=sys.stderr, flush=True)

    speaker = Thread(target=say, daemon=True)
    speaker.start()
    try:
        yield
    finally:
        ended.set()
        speaker.join()


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
