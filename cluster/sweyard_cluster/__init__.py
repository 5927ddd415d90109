"""A real Kubernetes on one machine without Docker: real nodes in namespaces, or only a control plane."""
