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

"""Configuration options, one module per group."""

from typing import Any

from oslo_config import cfg

from nova_diskplacer.conf import agent
from nova_diskplacer.conf import api
from nova_diskplacer.conf import diskplacer
from nova_diskplacer.conf import elastic
from nova_diskplacer.conf import monitor
from nova_diskplacer.conf import scheduler
from nova_diskplacer.conf import vendordata
from nova_diskplacer.conf import weights

GROUPS = (
    diskplacer,
    agent,
    monitor,
    weights,
    elastic,
    scheduler,
    api,
    vendordata,
)

CONF = cfg.CONF


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register every group of options on ``conf``; safe to repeat."""
    for module in GROUPS:
        conf.register_group(module.GROUP)
        conf.register_opts(module.OPTS, group=module.GROUP)


def list_opts() -> list[tuple[cfg.OptGroup, list[Any]]]:
    """Entry point of ``oslo.config.opts``."""
    return [(module.GROUP, module.OPTS) for module in GROUPS]
