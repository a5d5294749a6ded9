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

"""Errors of the project."""


class DiskPlacerError(Exception):
    """Base of the errors; the message is meant for operators."""


class DiskError(DiskPlacerError):
    """A disk or vdisk cannot be prepared, read or changed."""


class DiskHung(DiskError):
    """A disk does not answer."""


class HypervisorError(DiskPlacerError):
    """libvirt does not answer, or rejects a request."""


class ProfileError(DiskPlacerError):
    """A profile cannot be read, is invalid or is unknown."""


class PlacementError(DiskPlacerError):
    """Placement does not answer, or rejects a request."""


class NoComputeNode(PlacementError):
    """The compute node has no resource provider yet."""


class Conflict(PlacementError):
    """A resource provider has changed since it was read (409)."""


class ContentionError(DiskPlacerError):
    """The I/O of servers cannot be measured or weighed as configured."""


class AgentError(DiskPlacerError):
    """The agent of this host does not answer, or cannot be asked."""


class ElasticError(DiskPlacerError):
    """The width of vdisks cannot be decided or simulated as asked."""
