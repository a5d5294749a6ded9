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

"""Names in another program's code that are not its public interface.

A service lists the names that it relies on in a table, and checks at its start
that they exist. The tables import nothing, so that the documentation can be
generated from them.
"""

import collections.abc
import contextlib
import dataclasses
import functools
import inspect
import pkgutil
import typing

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

#: The releases that the tables of Nova's names are for.
NOVA = 'Nova 31 to 34'


@dataclasses.dataclass(frozen=True)
class Name:
    """A name in another program's code, with its module.

    ``use`` is its purpose. ``parameters`` are passed by name. ``source`` are
    pieces of its source code, for behaviour without a name. ``earlier`` is the
    name in earlier releases. With ``since``, a major release,
    something is left out in earlier ones, as ``use`` says.
    """

    name: str
    use: str
    parameters: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    earlier: str = ''
    since: int = 0

    def missing(self) -> list[str]:
        """Return descriptions of the parts that are missing."""
        part = self._find()
        if part is None:
            return [self.name]
        absent = []
        if self.parameters:
            parameters = inspect.signature(part).parameters
            absent += [
                f'{self.name}({parameter}=)'
                for parameter in self.parameters
                if parameter not in parameters
            ]
        if self.source:
            try:
                text = inspect.getsource(part)
            except OSError:
                # installed without its source
                return absent
            absent += [
                f'"{piece}" in {self.name}'
                for piece in self.source
                if piece not in text
            ]
        return absent

    def _find(self) -> typing.Any:
        for name in filter(None, (self.name, self.earlier)):
            with contextlib.suppress(ImportError, AttributeError):
                return pkgutil.resolve_name(name)
        return None


Names = tuple[Name, ...]


def missing(names: collections.abc.Iterable[Name]) -> list[str]:
    """Return descriptions of the parts of the names that are missing."""
    return [absent for name in names for absent in name.missing()]


@functools.cache
def check(names: Names, program: str) -> None:
    """Log an error if names are missing; once per process.

    :param program: the program and the release that the table is for.
    """
    absent = missing(names)
    if absent:
        LOG.error(
            'This is not the %s that nova-diskplacer knows; what needs the '
            'following will fail or do the wrong thing: %s',
            program,
            ', '.join(absent),
        )
