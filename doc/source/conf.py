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


"""Sphinx configuration of the documentation."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / 'ext'))

extensions = [
    'openstackdocstheme',
    'oslo_config.sphinxext',
    'commands',
    'extra_specs',
    'internals',
    'metrics',
    'profiles',
]

project = 'nova-diskplacer'
copyright = 'nova-diskplacer developers'  # noqa: A001
root_doc = 'index'
templates_path = []
exclude_patterns = []
pygments_style = 'native'

html_theme = 'openstackdocs'
html_static_path = ['_static']
openstackdocs_repo_name = 'nova-diskplacer'
openstackdocs_auto_name = False
openstackdocs_use_storyboard = False
openstackdocs_pdf_link = False
