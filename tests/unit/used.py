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

"""What Python modules use of a package that they import."""

import ast


def names(paths, package):
    """Return the names of a package that source files use.

    :returns: names with their modules; the longest chains of attributes.
    """
    return {use for path in paths for use in _names(path.read_text(), package)}


def _names(text, package):
    tree = ast.parse(text)
    imported = {}
    parents = {}
    for node in ast.walk(tree):
        parents.update((child, node) for child in ast.iter_child_nodes(node))
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.module.split('.')[0] == package:
                for alias in node.names:
                    name = alias.asname or alias.name
                    imported[name] = f'{node.module}.{alias.name}'
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in imported:
            chain = []
            parent = parents[node]
            while isinstance(parent, ast.Attribute):
                chain.append(parent.attr)
                parent = parents[parent]
            yield '.'.join([imported[node.id], *chain])
