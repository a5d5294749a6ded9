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

"""Imports modules that are elsewhere in some of Cinder 26 to 29."""

try:
    from cinder.db import api as db_api
    from cinder.db import models
except ImportError:
    # before Cinder 29
    from cinder.db.sqlalchemy import api as db_api
    from cinder.db.sqlalchemy import models

__all__ = ('db_api', 'models')
