"""Where commands are tried: what is there before each, for it alone, and the command line that works there."""

from __future__ import annotations

import io
import shutil
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from signals_commands import Command, Peers, write_inputs
from truth import CAPTURES

from txmq_lib.cli import main

SETTINGS = str(CAPTURES.parents[1] / "conf" / "few-rows.yaml")


class Places:
    """Places below a directory. What is there before a command is made once; commands that Spark needs for it run on the
    session of this process.
    """

    def __init__(self, place: Path) -> None:
        self.peers = Peers(place)
        self._place = place
        self._bases: dict[object, Path] = {}

    def close(self) -> None:
        """Let go of whom commands talk to."""
        self.peers.close()

    def copied(self, command: Command, name: str) -> Path:
        """What is there before the command, for it alone; one that only reads needs no copy."""
        base = self._base(command)
        return base if command.only_reads else shutil.copytree(base, self._place / name.replace(" ", "-"))

    def leave(self, run: Path, command: Command) -> None:
        """Remove what `copied` gave."""
        if not command.only_reads:
            shutil.rmtree(run)

    def line(self, run: Path, arguments: tuple[str, ...]) -> list[str]:
        """The arguments of `txmq` for a command in its place."""
        places = {"place": run, "namesrv": self.peers.broker.names.address, "health": self.peers.health}
        filled = list(arguments)
        for name, place in places.items():
            filled = [argument.replace(f"{{{name}}}", str(place)) for argument in filled]
        return ["--conf", SETTINGS, "--warehouse", str(run / "warehouse"), *filled]

    def left_alone(self, run: Path, arguments: tuple[str, ...]) -> None:
        """Run a command to its end in this process; RuntimeError where it fails."""
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as said:
            status = main(self.line(run, arguments))
        require_done(arguments, status, said.getvalue())

    def _base(self, command: Command) -> Path:
        key = (command.before, command.prepare)
        if key not in self._bases:
            base = self._place / f"base-{len(self._bases)}"
            base.mkdir(parents=True)
            write_inputs(base)
            self.peers.begin()
            for before in command.before:
                self.left_alone(base, before)
            if command.prepare is not None:
                command.prepare(base)
            self._bases[key] = base
        return self._bases[key]


def require_done(arguments: tuple[str, ...], status: int, words: str) -> None:
    """RuntimeError where a command ended otherwise than done, or done with findings."""
    if status not in (0, 1):
        raise RuntimeError(f"{arguments}: status {status}: {words[-2000:]}")
