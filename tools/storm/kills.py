#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.


"""The kills of a storm of server moves: of what, and when."""

import collections.abc
import dataclasses

SOURCE = 'source'
DESTINATION = 'destination'

# of a move: the source is exported and attached, memory is copied, data is
# copied, the source is released
ATTACH = 'attach'
MIGRATE = 'migrate'
COPY = 'copy'
RELEASE = 'release'

QEMU = 'qemu'
REBOOT = 'reboot'
SETTLER = 'diskplacer-settle'


@dataclasses.dataclass(frozen=True)
class Kill:
    """SIGKILL of a program of one of both hosts in a phase of a move.

    ``program`` may be several, joined by +. ``reboot`` stands for a hard
    reboot of the server by Nova.
    """

    phase: str
    program: str
    side: str

    @property
    def name(self) -> str:
        return f'{self.phase} {self.program}@{self.side}'


_PROGRAMS = {
    ATTACH: (
        ('cinder-volume', SOURCE),
        ('cinder-volume', DESTINATION),
        ('nova-compute', SOURCE),
        ('nova-compute', DESTINATION),
        ('libvirtd', SOURCE),
        ('libvirtd', DESTINATION),
        (QEMU, SOURCE),
    ),
    MIGRATE: (
        ('cinder-volume', SOURCE),
        ('cinder-volume', DESTINATION),
        ('nova-compute', SOURCE),
        ('nova-compute', DESTINATION),
        ('libvirtd', SOURCE),
        ('libvirtd', DESTINATION),
        (QEMU, SOURCE),
    ),
    COPY: (
        ('cinder-volume', SOURCE),
        ('cinder-volume', DESTINATION),
        ('nova-compute', SOURCE),
        ('nova-compute', DESTINATION),
        (SETTLER, DESTINATION),
        (f'cinder-volume+{SETTLER}', DESTINATION),
        ('libvirtd', DESTINATION),
        (QEMU, DESTINATION),
        (REBOOT, DESTINATION),
    ),
    RELEASE: (
        ('cinder-volume', SOURCE),
        ('cinder-volume', DESTINATION),
        (SETTLER, DESTINATION),
        (QEMU, DESTINATION),
        (REBOOT, DESTINATION),
    ),
}
ALL = tuple(
    Kill(phase, program, side)
    for phase, programs in _PROGRAMS.items()
    for program, side in programs
)


def select(words: collections.abc.Iterable[str]) -> tuple[Kill, ...]:
    """Return the kills whose names have one of the words; all for none.

    :raises LookupError: there is none.
    """
    words = tuple(words)
    found = tuple(
        kill
        for kill in ALL
        if not words or any(word in kill.name for word in words)
    )
    if not found:
        names = ', '.join(kill.name for kill in ALL)
        raise LookupError(
            f'no kill has {words} in its name; there are: {names}'
        )
    return found


@dataclasses.dataclass(frozen=True)
class Ended:
    """What a move came to in which a program was killed.

    ``host`` is the side where the server was then; ``means`` what an operator
    had to do; ``violations`` what must not be; ``seconds`` from the kill until
    nothing of the move was left; ``crashes`` how often the guest's kernel has
    crashed, after which it was done again.
    """

    kill: Kill
    host: str
    seconds: float
    means: tuple[str, ...] = ()
    violations: tuple[str, ...] = ()
    crashes: int = 0

    @property
    def line(self) -> str:
        """The outcome in a line."""
        how = '; '.join(self.violations or self.means) or 'by itself'
        kind = 'VIOLATION' if self.violations else 'ok'
        return (
            f'{self.kill.name:40} {kind:10} at {self.host:12} '
            f'{self.seconds:5.0f} s  {how}'
        )
