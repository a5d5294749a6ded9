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

"""The backends of this driver that cinder.conf has on this host."""

import collections.abc
from typing import Any

from cinder.volume import configuration
from oslo_config import cfg
from oslo_utils import importutils

from cinder_vdisk_mapper import conf
from nova_diskplacer import exception

_DRIVER = 'cinder_vdisk_mapper.driver.VDiskMapperDriver'


def read(config: cfg.ConfigOpts) -> dict[str, Any]:
    """Return the options of each backend, by its name ``host@section``.

    :raises DiskPlacerError: cinder.conf has none.
    """
    # the import needs Cinder's objects, which the caller has registered
    manager = importutils.import_module('cinder.volume.manager')
    driver = importutils.import_module('cinder.volume.driver')
    conf.register_opts(config)
    backends = {}
    for section in config.enabled_backends or ():
        options = configuration.Configuration(
            manager.volume_backend_opts, config_group=section
        )
        if options.volume_driver != _DRIVER:
            continue
        # of all drivers, such as the attempts to find a device
        options.append_config_values(driver.volume_opts)
        options.append_config_values(conf.OPTS)
        config.register_opt(cfg.StrOpt('backend_host'), group=section)
        host = config[section].backend_host or config.host
        backends[f'{host}@{section}'] = options
    if not backends:
        raise exception.DiskPlacerError(
            'no section of [DEFAULT] enabled_backends='
            f'{config.enabled_backends} of cinder.conf has volume_driver = '
            f'{_DRIVER}'
        )
    return backends


def hosts(
    config: cfg.ConfigOpts, names: collections.abc.Iterable[str]
) -> frozenset[str]:
    """Return the names that this host may have in Nova.

    :param names: of the backends, as ``host@section``.
    """
    return frozenset(name.partition('@')[0] for name in names) | {config.host}
