"""What a run on a cluster wrote, brought to this machine: found, lent by a pod, received, put in its place."""
