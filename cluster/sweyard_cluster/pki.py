"""Certificates of a cluster: one authority, one certificate for each component, made by openssl."""

import base64
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import yaml

from .errors import ClusterError

VALID_DAYS = "3650"
KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


def openssl(*arguments: str) -> None:
    try:
        done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise ClusterError("openssl is missing; install the package openssl") from error
    if done.returncode:
        raise ClusterError(f"openssl {arguments[0]} failed: {done.stderr.strip()}")


def make_authority(directory: Path) -> None:
    """The authority (ca.crt, ca.key) and the key pair that signs service account tokens (sa.key, sa.pub)."""
    if (directory / "sa.pub").exists():
        return
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    openssl("req", "-x509", *KEY, "-subj", "/CN=sweyard-cluster", "-days", VALID_DAYS,
            "-keyout", str(directory / "ca.key"), "-out", str(directory / "ca.crt"))  # fmt: skip
    openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(directory / "sa.key"))
    unfinished = directory / ".sa.new"
    openssl("ec", "-in", str(directory / "sa.key"), "-pubout", "-out", str(unfinished))
    os.replace(unfinished, directory / "sa.pub")


def issue(directory: Path, name: str, subject: str, alternative_names: Sequence[str] = ()) -> None:
    """NAME.crt and NAME.key signed by the authority, unless they exist."""
    certificate, key = directory / f"{name}.crt", directory / f"{name}.key"
    if certificate.exists():
        return
    extensions = ["-addext", f"subjectAltName={','.join(alternative_names)}"] if alternative_names else []
    unfinished = directory / f".{name}.new"
    openssl("req", "-x509", "-CA", str(directory / "ca.crt"), "-CAkey", str(directory / "ca.key"), *KEY,
            "-subj", subject, *extensions, "-addext", "basicConstraints=critical,CA:FALSE", "-days", VALID_DAYS,
            "-keyout", str(key), "-out", str(unfinished))  # fmt: skip
    os.replace(unfinished, certificate)


def kubeconfig_text(server: str, authority: bytes, certificate: bytes, key: bytes, name: str) -> str:
    """A self-contained kubeconfig with one context called `name`."""

    def encode(data: bytes) -> str:
        return base64.b64encode(data).decode()

    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority-data": encode(authority)}}],
        "users": [
            {"name": name, "user": {"client-certificate-data": encode(certificate), "client-key-data": encode(key)}}
        ],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    return yaml.safe_dump(config, sort_keys=False)


def write_kubeconfig(path: Path, server: str, pki: Path, user: str, name: str) -> None:
    """Write the kubeconfig of the certificate `user`, readable by its owner only."""
    text = kubeconfig_text(
        server,
        (pki / "ca.crt").read_bytes(),
        (pki / f"{user}.crt").read_bytes(),
        (pki / f"{user}.key").read_bytes(),
        name,
    )
    unfinished = path.with_name(f".{path.name}.new")
    unfinished.touch(mode=0o600)
    unfinished.write_text(text)
    os.replace(unfinished, path)
