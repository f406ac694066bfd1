//! first-consumer gives the disks of a KubeVirt VM their first consumer.
