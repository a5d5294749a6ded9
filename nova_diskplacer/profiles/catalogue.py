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

"""The catalogue of I/O profiles: those shipped, and the operator's own.

The files of the shipped ones lie beside this module.
"""

import collections.abc
import dataclasses
import hashlib
import json
import logging
import os
import pathlib
from importlib import metadata

from nova_diskplacer import exception
from nova_diskplacer.conf import diskplacer
from nova_diskplacer.host import log_once
from nova_diskplacer.profiles import definitions
from nova_diskplacer.profiles import profile_files

_HERE = pathlib.Path(__file__).parent

_closed = log_once.ChangeLogger(logging.getLogger(__name__))

#: The papers that the shipped profiles rest on, as their sources name them.
PAPERS = {
    'P0': 'Ha, Venzano, Brown, Michiardi: On the Impact of Virtualization on '
    'the I/O Performance of Analytic Workloads',
    'P1': 'Lim, Horey, Yao, Begoli, Cao: Performance implications from sizing '
    "a VM on multi-core systems: A Data analytic application's view",
    'P2': 'Nicolae: Understanding Vertical Scalability of I/O Virtualization '
    'for MapReduce Workloads: Challenges and Opportunities (Euro-Par 2013 '
    'Workshops, doi 10.1007/978-3-642-54420-0_1)',
    'P3': 'Ha, Venzano, Brown, Michiardi: The Impacts of Virtualization on '
    "Big Data Application's Workload (a draft by the authors of P0, with "
    'other figures)',
    'P4': 'Malensek, Pallickara, Pallickara: Alleviation of Disk I/O '
    'Contention in Virtualized Settings for Data-Intensive Computing',
}


class Catalogue(collections.abc.Mapping[str, definitions.Profile]):
    """Profiles by name; an alias finds its profile too, but is not listed.

    :raises ProfileError: two profiles have the same alias.
    """

    def __init__(
        self, profiles: collections.abc.Iterable[definitions.Profile]
    ) -> None:
        self._profiles = {profile.name: profile for profile in profiles}
        self._aliases: dict[str, str] = {}
        for profile in self._profiles.values():
            for alias in profile.aliases:
                other = self._aliases.setdefault(alias, profile.name)
                if other != profile.name:
                    raise exception.ProfileError(
                        f'profile {profile.name}: aliases: {alias} is an '
                        f'alias of {other} already; aliases must be unique'
                    )

    def __getitem__(self, name: str) -> definitions.Profile:
        return self._profiles.get(name) or self._profiles[self._aliases[name]]

    def __iter__(self) -> collections.abc.Iterator[str]:
        return iter(self._profiles)

    def __len__(self) -> int:
        return len(self._profiles)

    def find(self, name: str) -> definitions.Profile:
        """Return the profile of that name or alias.

        :raises ProfileError: there is none; names those that there are.
        """
        if name not in self:
            names = ', '.join(
                f'{profile.name} ({", ".join(profile.aliases)})'
                if profile.aliases
                else profile.name
                for profile in self.values()
            )
            raise exception.ProfileError(
                f'no profile {name}; there are: {names}'
            )
        return self[name]


def load(directories: collections.abc.Iterable[str] = ()) -> Catalogue:
    """Return the shipped profiles and those of the directories.

    Directories are read in their order, the files of each by name; a profile
    replaces the one of the same name read before it. A directory that does
    not exist holds none, nor does the former default one if this process may
    not look into it.

    :raises ProfileError: a directory or a file cannot be read, or a file is
        not a profile, see :func:`profile_files.read`.
    """
    profiles = {}
    for directory in (_HERE, *map(pathlib.Path, _readable(directories))):
        for path in _files(directory):
            profile = profile_files.read(path)
            profiles[profile.name] = profile
    return Catalogue(profiles.values())


def digest(profiles: collections.abc.Mapping[str, definitions.Profile]) -> str:
    """Return a digest that is the same for the same profiles."""
    fields = {
        name: dataclasses.asdict(profile) for name, profile in profiles.items()
    }
    text = json.dumps(fields, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def software(
    directories: collections.abc.Iterable[str],
) -> dict[str, str]:
    """Return the ``release`` of this package and its ``profiles``' digest.

    :raises ProfileError: as ``load``.
    """
    return {
        'release': metadata.version('nova-diskplacer'),
        'profiles': digest(load(directories)),
    }


def _readable(directories: collections.abc.Iterable[str]) -> list[str]:
    """Return directories without the former default one if it is closed.

    It counts only beside the other default one: what an operator has set
    instead must be readable.
    """
    found = list(directories)
    former = diskplacer.FORMER_PROFILE_DIR
    if set(found).issuperset(diskplacer.PROFILE_DIRS.default) and _is_closed(
        former
    ):
        _closed.log(
            former,
            'Profiles in %s, if there are any, are not read: permission '
            'denied. Move them to %s.',
            former,
            diskplacer.PROFILE_DIRS.default[-1],
        )
        found.remove(former)
    return found


def _is_closed(directory: str) -> bool:
    try:
        os.listdir(directory)
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _files(directory: pathlib.Path) -> list[pathlib.Path]:
    try:
        paths = sorted(directory.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        text = f'{directory}: {error.strerror}'
        raise exception.ProfileError(text) from error
    return [
        p for p in paths if p.suffix == '.yaml' and p != profile_files.SCHEMA
    ]
