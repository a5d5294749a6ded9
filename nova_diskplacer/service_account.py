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

"""Loads the credentials of service accounts from options."""

import typing

from keystoneauth1 import exceptions as ks_exc
from keystoneauth1 import loading
from keystoneauth1.loading import adapter as adapter_loading
from oslo_config import cfg

from nova_diskplacer import exception
from nova_diskplacer import http_retries


class _PatientLoader(adapter_loading.Adapter):
    plugin_class = http_retries.Adapter


def load_adapter(
    conf: cfg.ConfigOpts,
    group: str,
    service_type: str,
    timeout: int,
    patient: bool = True,
) -> typing.Any:
    """Return a keystoneauth adapter configured by the options of a group.

    :param service_type: of the service in Keystone's catalogue, unless the
        group sets it.
    :param timeout: seconds that a request may take, unless the group sets it.
    :param patient: repeat requests while the service is away: all of them must
        be safe to repeat.
    :raises DiskPlacerError: the options are invalid.
    """
    loading.register_auth_conf_options(conf, group)
    loading.register_session_conf_options(conf, group)
    loading.register_adapter_conf_options(conf, group)
    try:
        auth = loading.load_auth_from_conf_options(conf, group)
        if auth is None:
            raise exception.DiskPlacerError(
                f'[{group}] auth_type is not set: set the credentials of the '
                'service user, as in nova.conf'
            )
        session = loading.load_session_from_conf_options(
            conf, group, auth=auth
        )
        loader = _PatientLoader() if patient else adapter_loading.Adapter()
        adapter = loader.load_from_conf_options(
            conf, group, session=session, auth=auth
        )
    except (ks_exc.ClientException, cfg.Error) as error:
        raise exception.DiskPlacerError(
            f'[{group}] is invalid: {error}'
        ) from error
    adapter.service_type = adapter.service_type or service_type
    session.timeout = session.timeout or timeout
    return adapter
