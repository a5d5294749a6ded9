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

"""Runs in the guest: Placement on loopback, for driver_ops.

``python _driver_ops_placement.py DATABASE`` prints its URL once it answers.
"""

import sys
from wsgiref import simple_server

from oslo_config import cfg
from oslo_policy import opts as policy_opts
from placement import conf as placement_conf
from placement import db_api
from placement import deploy
from placement.db.sqlalchemy import migration


class Quiet(simple_server.WSGIRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


def main() -> None:
    conf = cfg.ConfigOpts()
    placement_conf.register_opts(conf)
    conf.set_override(
        'connection', f'sqlite:///{sys.argv[1]}', 'placement_database'
    )
    conf.set_override('sqlite_synchronous', False, 'placement_database')
    conf.set_override('auth_strategy', 'noauth2', 'api')
    policy_opts.set_defaults(conf, enforce_new_defaults=False)
    conf([], default_config_files=[])
    db_api.configure(conf)
    migration.create_schema()
    application = deploy.loadapp(conf)
    deploy.update_database(conf)
    server = simple_server.make_server(
        '127.0.0.1', 0, application, handler_class=Quiet
    )
    print(f'http://127.0.0.1:{server.server_port}', flush=True)
    server.serve_forever()


if __name__ == '__main__':
    main()
