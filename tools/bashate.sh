#!/bin/bash
#
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


# Check the style of every shell script of the project. Not for the length of
# lines (E006), and DevStack's settings have no interpreter to name (E005).

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
scripts=()
while read -r file; do
    case $file in
    *.sh | devstack/settings | devstack/lib/*) scripts+=("$file") ;;
    *) head -n 1 "$file" | grep -q '^#!/bin/.*sh' && scripts+=("$file") ;;
    esac
done < <(git ls-files -co --exclude-standard .ci devstack nova_diskplacer tools)
exec bashate --ignore E005,E006 "${scripts[@]}"
