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

# Chroots of Debian. Source this file.
#
#   chroot_find_mirror        set MIRROR, if it is not set: that of this machine
#   chroot_make ARGUMENT...   run mmdebstrap; its last arguments are the suite
#                             and the target

# The first one that apt has: that of the distribution.
chroot_find_mirror() {
    MIRROR=${MIRROR:-$(
        apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' |
            awk '!/security/ && !count++'
    )}
}

# A mirror of unstable may be behind; its signature is checked all the same.
chroot_make() {
    mmdebstrap --quiet --mode=root \
        --aptopt='Acquire::Check-Valid-Until "false"' \
        --aptopt='APT::Install-Recommends "false"' \
        --aptopt='Dpkg::Use-Pty "false"' "$@" \
        "$MIRROR"
}
