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

"""Reads the configuration files of this host's nova-compute."""

import collections.abc
import contextlib
import functools
import glob
import os
from typing import Any
from typing import TypeVar

from oslo_config import cfg

from nova_diskplacer import exception

# Path and version of each file.
_Files = tuple[tuple[str, tuple[int, ...]], ...]
_T = TypeVar('_T')


def reloading(
    files: collections.abc.Sequence[str],
    parse: collections.abc.Callable[[collections.abc.Sequence[str]], _T],
) -> collections.abc.Callable[[], _T]:
    """Return a function that parses files again when one of them has changed.

    The function raises the exception of ``parse`` until it succeeds, and
    OSError if a file cannot be accessed.

    :param files: the files given to nova-compute; they may be missing.
    """

    @functools.lru_cache(maxsize=1)
    def parse_versions(versions: _Files) -> _T:
        return parse([path for path, _ in versions])

    return lambda: parse_versions(_find_files(files))


def _find_files(files: collections.abc.Sequence[str]) -> _Files:
    """Return the files that nova-compute reads, with their versions.

    Like oslo.config, it reads the existing files in order, then the files of
    each one's directory, such as ``nova.conf.d``.
    """
    versions = []
    paths = [*files]
    for file in files:
        paths += sorted(glob.glob(glob.escape(file) + '.d/*.conf'))
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(path)
            # timestamps of files have a resolution of up to 10 ms
            version = (status.st_mtime_ns, status.st_size, status.st_ino)
            versions.append((path, version))
    return tuple(versions)


def association_refresh(files: collections.abc.Sequence[str]) -> int | None:
    """Return ``[compute] resource_provider_association_refresh`` in seconds.

    nova-compute caches the resource providers of its tree for this time; with
    0, until it is restarted.

    :returns: None without files.
    :raises DiskPlacerError: the files are invalid.
    """
    if not files:
        return None
    name = 'resource_provider_association_refresh'
    refresh: int = parse(files, cfg.IntOpt(name, default=300, min=0))[name]
    return refresh


def parse(
    files: collections.abc.Iterable[str],
    *options: cfg.Opt,
    group: str = 'compute',
) -> dict[str, Any]:
    """Return options of a group in configuration files.

    :raises DiskPlacerError: the files are invalid.
    """
    conf = cfg.ConfigOpts()
    conf.register_opts(options, group)
    try:
        conf([], default_config_files=list(files), default_config_dirs=[])
        return dict(conf[group])
    except (cfg.Error, ValueError) as error:
        raise exception.DiskPlacerError(
            f'[diskplacer_agent] nova_conf cannot be read: {error}'
        ) from error
