"""The cache agent: one pod per node that pulls the images assigned to its node and reports what the node holds.

It talks to the container runtime through its CRI socket and to the API server about two small ConfigMaps of its own
node: the operator writes the assignment, the agent writes the report. Each object has exactly one writer.
"""
