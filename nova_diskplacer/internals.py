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

"""Names of another program's code that are not an interface of it.

Tables of such names say what a service relies on, and a check at its start
says what is missing. The tables import nothing: the documentation is made from
them, too.
"""

import collections.abc
import dataclasses
import functools
import importlib
import inspect
import typing

from oslo_log import log as logging

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Name:
    """Something that another program's code has.

    ``name`` is an attribute of the module or, with dots, an attribute of
    that. It is called with ``parameters`` by their names. ``source`` are
    pieces of its source code: behaviour that no name stands for. ``use`` says
    what it is good for.
    """

    module: str
    name: str
    use: str
    parameters: tuple[str, ...] = ()
    source: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f'{self.module}.{self.name}'

    def missing(self) -> list[str]:
        """Return what of this is not there."""
        try:
            found: typing.Any = importlib.import_module(self.module)
            for part in self.name.split('.'):
                found = getattr(found, part)
        except (ImportError, AttributeError):
            return [str(self)]
        absent = []
        if self.parameters:
            known = inspect.signature(found).parameters
            absent += [
                f'{self}({parameter}=)'
                for parameter in self.parameters
                if parameter not in known
            ]
        if self.source:
            try:
                text = inspect.getsource(found)
            except OSError:
                # installed without its source
                return absent
            absent += [
                f'"{piece}" in {self}'
                for piece in self.source
                if piece not in text
            ]
        return absent


Names = tuple[Name, ...]


def missing(names: collections.abc.Iterable[Name]) -> list[str]:
    """Return what is not there, a description of each."""
    return [absent for name in names for absent in name.missing()]


@functools.cache
def check(names: Names, program: str) -> None:
    """Log in one line what a program lacks; once per process.

    :param program: its name and the release that the tables were made for.
    """
    absent = missing(names)
    if absent:
        LOG.error(
            'This is not the %s that nova-diskplacer knows; what needs the '
            'following will fail or do the wrong thing: %s',
            program,
            ', '.join(absent),
        )
