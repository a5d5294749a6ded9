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


"""What an operator of Horizon sets, from the environment.

A copy of it is ``openstack_dashboard/local/local_settings.py``. No setting
concerns the dialogs: they are as Horizon has them.
"""

import os

# Django serves the static files
DEBUG = True
ALLOWED_HOSTS = ['127.0.0.1']
SECRET_KEY = os.environ['HORIZON_SECRET']
SESSION_ENGINE = 'django.contrib.sessions.backends.file'
SESSION_FILE_PATH = os.environ['HORIZON_SESSIONS']
CACHES = {
    'default': {'BACKEND': 'django.core.cache.backends.locmem.LocMemCache'}
}
OPENSTACK_KEYSTONE_URL = os.environ['OS_AUTH_URL']
STATIC_ROOT = os.environ['HORIZON_STATIC']
COMPRESS_ENABLED = True
COMPRESS_OFFLINE = False
LOGGING = {
    'version': 1,
    'disable_existing_loggers': False,
    'handlers': {'console': {'class': 'logging.StreamHandler'}},
    'root': {'handlers': ['console'], 'level': 'INFO'},
}
