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

"""The configuration files of this host's nova-compute."""

import collections.abc
import contextlib
import glob
import os
import typing

from oslo_config import cfg

from nova_diskplacer import exception

Sources = list[tuple[str, tuple[int, ...]]]
_T = typing.TypeVar('_T')


class ReloadingConfig(typing.Generic[_T]):
    """What the configuration says, read again when a file has changed.

    :param files: as of ``sources``.
    :param parse: reads it from the files that there are.
    """

    def __init__(
        self,
        files: collections.abc.Sequence[str],
        parse: collections.abc.Callable[[collections.abc.Sequence[str]], _T],
    ) -> None:
        self._files = files
        self._parse = parse
        self._read: tuple[Sources, _T] | None = None

    def read(self) -> _T:
        """Return what it says now.

        What ``parse`` raises is raised each time until it succeeds.

        :raises OSError: it is not known whether a file exists.
        """
        now = sources(self._files)
        if self._read is None or self._read[0] != now:
            self._read = now, self._parse([path for path, _ in now])
        return self._read[1]


def sources(files: collections.abc.Sequence[str]) -> Sources:
    """Return what nova-compute reads, and what tells it from what it was.

    As oslo.config does: the files that exist, in this order, then those of
    the directory of each that is named like it, as ``nova.conf.d``.

    :raises OSError: it is not known whether a file exists.
    """
    found: Sources = []
    for path in (
        *files,
        *(
            name
            for file in files
            for name in sorted(glob.glob(glob.escape(file) + '.d/*.conf'))
        ),
    ):
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(path)
            # the clock of files may stand still for 10 ms
            version = (status.st_mtime_ns, status.st_size, status.st_ino)
            found.append((path, version))
    return found


def association_refresh(files: collections.abc.Sequence[str]) -> int | None:
    """Return ``[compute] resource_provider_association_refresh`` in seconds.

    nova-compute keeps the resource providers of its tree for so long before
    it asks Placement for them again; with 0, until it is restarted.

    :returns: None where there are no files.
    :raises DiskPlacerError: the files are no configuration.
    """
    if not files:
        return None
    conf = cfg.ConfigOpts()
    name = 'resource_provider_association_refresh'
    conf.register_opt(cfg.IntOpt(name, default=300, min=0), 'compute')
    try:
        conf([], default_config_files=list(files), default_config_dirs=[])
        refresh: int = conf.compute[name]
    except (cfg.Error, ValueError) as error:
        raise exception.DiskPlacerError(
            f'[diskplacer_agent] nova_conf cannot be read: {error}'
        ) from error
    return refresh
