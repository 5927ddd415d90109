"""The version of sweyard, for programs of an image in which nothing is installed, only copied."""

VERSION = "0.1.0"
