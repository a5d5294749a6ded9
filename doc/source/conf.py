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

import logging
import pathlib
import sys

TOP = pathlib.Path(__file__).parents[2]
sys.path[:0] = [str(TOP), str(TOP / 'doc' / 'ext'), str(TOP / 'benchmarks')]

# one line for each note and commit
logging.getLogger('reno').setLevel(logging.WARNING)

extensions = [
    'oslo_config.sphinxext',
    'reno.sphinxext',
    'client_checks',
    'commands',
    'extra_specs',
    'fidelity',
    'internals',
    'log_lines',
    'metrics',
    'placement_quality_tables',
    'profiles',
]

project = 'nova-diskplacer'
copyright = 'nova-diskplacer developers'  # noqa: A001
root_doc = 'index'
templates_path = []
exclude_patterns = []

html_theme = 'furo'
html_title = 'nova-diskplacer'
html_static_path = ['_static']
html_css_files = ['pages.css']
html_show_sphinx = False
html_theme_options = {'top_of_page_buttons': []}
