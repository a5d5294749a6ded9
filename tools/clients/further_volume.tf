# A server of flavor and image alone, and a further volume on its host.

terraform {
  required_providers {
    openstack = {
      source = "terraform-provider-openstack/openstack"
    }
  }
}

provider "openstack" {}

variable "flavor" {}

variable "image" {}

variable "network" {}

resource "openstack_compute_instance_v2" "worker" {
  name        = "worker-2"
  flavor_name = var.flavor
  image_name  = var.image

  network {
    name = var.network
  }
}

resource "openstack_blockstorage_volume_v3" "logs" {
  name        = "logs"
  size        = 1
  volume_type = "vdisk"

  scheduler_hints {
    local_to_instance = openstack_compute_instance_v2.worker.id
  }
}

resource "openstack_compute_volume_attach_v2" "logs" {
  instance_id = openstack_compute_instance_v2.worker.id
  volume_id   = openstack_blockstorage_volume_v3.logs.id
}
