"""A cluster that is not there, or does not want: one sentence, soon."""

import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client

from sweyard_cli.cluster.connection import connect
from sweyard_cli.cluster.runs import list_runs
from sweyard_cli.cluster.sentences import UnreachableError, reason_of, told_plainly
from sweyard_cli.commands.run import choose_namespace
from sweyard_cli.commands.tasks import read_images
from sweyard_cli.errors import UserError
from sweyard_cli.view.cluster_source import ClusterRunSource


def write_kubeconfig(path: Path, server: str, namespace: str | None = None) -> Path:
    context = {"cluster": "c", "user": "u", **({"namespace": namespace} if namespace else {})}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": context}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(config))
    return path


def test_a_missing_kubeconfig_is_told_with_the_way_around(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot be used: .*without a cluster use `[^ ]*sweyard run"):
        connect(kubeconfig=str(tmp_path / "none"))


@pytest.mark.parametrize(
    "content",
    [b"hello", b"- a", b"a: [", b"\xff\xfe", b"", b"clusters: 3\ncontexts: 3\nusers: 3\ncurrent-context: a"],
    ids=["text", "a list", "no YAML", "no text", "empty", "numbers"],
)
def test_a_file_that_is_no_kubeconfig_is_told_with_its_path(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config").write_bytes(content)
    with pytest.raises(UserError, match=f"the kubeconfig {tmp_path}/config cannot be used: "):
        connect(kubeconfig=str(tmp_path / "config"))


def test_half_a_certificate_is_told(tmp_path: Path) -> None:
    kubeconfig = write_kubeconfig(tmp_path / "config", "https://127.0.0.1:1")
    torn = kubeconfig.read_text().replace("user: {}", "user: {client-certificate-data: LS0tL, client-key-data: LS0tL}")
    kubeconfig.write_text(torn)
    with pytest.raises(UserError, match="cannot be used"):
        connect(kubeconfig=str(kubeconfig))


@pytest.mark.parametrize(
    ("line", "torn", "told"),
    [
        ("user: {}", "user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: /none}}", r"No such file"),
        (
            "user: {}",
            "user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, args: [-c, echo no >&2; exit 3]}}",
            r"users\[\]\.user\.exec\) failed: exec: process returned 3\. no",
        ),
        (
            "user: {}",
            "user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: echo, args: [hello]}}",
            r"failed to decode process output",
        ),
        ("server: https://127.0.0.1:1", "server: localhost:1", r"`server` is localhost:1: an address begins with"),
        ("- context:", "- context: x\n  unused:", r"has no attribute"),
    ],
    ids=["no program", "a program that fails", "a program that says something else", "no address", "no context"],
)
def test_what_a_kubeconfig_gives_no_connection_by_is_told(tmp_path: Path, line: str, torn: str, told: str) -> None:
    kubeconfig = write_kubeconfig(tmp_path / "config", "https://127.0.0.1:1")
    whole = kubeconfig.read_text()
    assert line in whole
    kubeconfig.write_text(whole.replace(line, torn))
    with pytest.raises(UserError, match=f"cannot be used: .*{told}"):
        connect(kubeconfig=str(kubeconfig))


@pytest.mark.parametrize(
    "body",
    [b"<html>sign in</html>", b"[]", b"null", b"{}", bytes(range(256)), b"[" * 100_000],
    ids=["a page", "a list", "null", "an empty object", "no text", "depths"],
)
def test_what_is_no_api_server_is_told_with_its_address(tmp_path: Path, body: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as answering:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        kubeconfig = write_kubeconfig(tmp_path / "config", address)
        answering.submit(_answer, listening, body)
        with pytest.raises(UnreachableError, match=f"what answers at {address} is no API server of Kubernetes"):
            list_runs(connect(kubeconfig=str(kubeconfig)), everywhere=True)


def _answer(listening: socket.socket, body: bytes) -> None:
    """One request."""
    asked, _ = listening.accept()
    with asked:
        asked.recv(65_536)
        asked.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


@pytest.mark.parametrize(
    ("asked", "of_context", "expected"),
    [(None, None, "default"), (None, "team", "team"), ("mine", "team", "mine")],
    ids=["neither", "the context's", "the one asked for"],
)
def test_the_namespace_is_chosen_as_kubectl_does(
    tmp_path: Path, asked: str | None, of_context: str | None, expected: str
) -> None:
    kubeconfig = write_kubeconfig(tmp_path / "config", "http://127.0.0.1:1", of_context)
    assert connect(asked, str(kubeconfig)).namespace == expected


def test_a_server_that_does_not_answer_is_told(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    kubeconfig = write_kubeconfig(tmp_path / "config", f"http://127.0.0.1:{port}")
    with pytest.raises(UnreachableError, match="the API server does not answer") as raised:
        list_runs(connect(kubeconfig=str(kubeconfig)), everywhere=True)
    assert raised.value.exit_code == 1


class FlickeringApi:
    """CustomObjectsApi of one run, whose server goes away and comes back."""

    def __init__(self, answers: list[dict[str, Any] | client.ApiException], elsewhere: Sequence[str] = ()) -> None:
        self._answers = answers
        self._elsewhere = elsewhere

    def get_namespaced_custom_object(
        self, group: str, version: str, namespace: str, plural: str, *_: Any, **__: Any
    ) -> Any:
        if plural != "trainingruns":
            raise client.ApiException(status=404)
        answer = self._answers.pop(0)
        if isinstance(answer, client.ApiException):
            raise answer
        return answer

    def list_cluster_custom_object(self, group: str, version: str, plural: str, **_: Any) -> Any:
        """Runs `tiny` and `other` of each namespace; `forbidden`: no right to list."""
        if "forbidden" in self._elsewhere:
            raise client.ApiException(status=403)
        names = ("other", "tiny")
        return {"items": [{"metadata": {"name": name, "namespace": n}} for n in self._elsewhere for name in names]}


RUN = {"metadata": {"name": "tiny"}, "spec": {}, "status": {"phase": "Running", "step": 3, "totalSteps": 9}}
AWAY = client.ApiException(status=503, reason="Service Unavailable")


def test_looking_goes_on_while_the_server_is_away() -> None:
    source = ClusterRunSource(FlickeringApi([RUN, AWAY, {**RUN, "status": {"phase": "Succeeded"}}]), "team", "tiny")
    assert source.snapshot().step == 3
    away = source.snapshot()
    assert (away.phase, away.step) == ("Running", 3)
    assert away.message.startswith("as last seen: ")
    assert source.snapshot().is_finished


def test_a_run_that_was_never_seen_is_not_waited_for() -> None:
    with pytest.raises(UnreachableError, match="503"):
        ClusterRunSource(FlickeringApi([AWAY]), "team", "tiny").snapshot()
    with pytest.raises(UserError, match="does not exist"):
        ClusterRunSource(FlickeringApi([client.ApiException(status=404)]), "team", "tiny").snapshot()


@pytest.mark.parametrize(
    ("name", "elsewhere", "told"),
    [
        ("tiny", ["sweyard-demo"], r"in namespace sweyard-demo: say -n sweyard-demo$"),
        ("tiny", ["b", "a"], r"in namespaces a, b: say -n a$"),
        ("huge", ["sweyard-demo"], r"status -A` lists all$"),
        ("tiny", ["forbidden"], r"status -A` lists all$"),
    ],
    ids=["one", "several", "none of that name", "no right to look"],
)
def test_a_run_in_another_namespace_is_found(name: str, elsewhere: list[str], told: str) -> None:
    api = FlickeringApi([client.ApiException(status=404)], elsewhere)
    with pytest.raises(UserError, match=told):
        ClusterRunSource(api, "default", name).snapshot()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('{"message": "spec.steps: too few"}', "spec.steps: too few"),
        ("<html>", "the API server answered 422 Unprocessable"),
        ("[]", "the API server answered 422 Unprocessable"),
        (None, "the API server answered 422 Unprocessable"),
    ],
    ids=["its sentence", "no JSON", "no object", "nothing"],
)
def test_a_refusal_is_told_in_the_server_s_words_where_it_has_any(body: str | None, expected: str) -> None:
    error = client.ApiException(status=422, reason="Unprocessable")
    error.body = body
    assert reason_of(error) == expected
    with pytest.raises(UserError, match=f"TrainingRun x: {expected}") as raised, told_plainly("TrainingRun x"):
        raise error
    assert raised.value.exit_code == 2


@pytest.mark.parametrize(
    ("status", "body", "told", "exit_code"),
    [
        ("500 Internal Server Error", 'container not found ("sandbox")', 'x: container not found ("sandbox")', 1),
        ("403 Forbidden", '{"message": "pods is forbidden"}', "x: pods is forbidden", 2),
    ],
)
def test_a_stream_that_is_refused_is_told_without_what_the_client_adds(
    status: str, body: str, told: str, exit_code: int
) -> None:
    reason = f"Handshake status {status} -+-+- {{'content-type': 'text/plain'}} -+-+- {body}"
    with pytest.raises(UserError) as raised, told_plainly("x"):
        raise client.ApiException(status=0, reason=reason)
    assert (str(raised.value), raised.value.exit_code) == (told, exit_code)


def test_a_namespace_in_the_file_and_another_asked_for_are_a_contradiction() -> None:
    document = {"metadata": {"name": "tiny", "namespace": "team"}}
    assert choose_namespace(document, None) == choose_namespace(document, "team") == "team"
    assert choose_namespace({"metadata": {}}, None) is None
    with pytest.raises(UserError, match="choose one"):
        choose_namespace(document, "mine")


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}'], ids=["no JSON", "a list", "a number for an image"])
def test_a_map_of_images_that_is_none_is_told(tmp_path: Path, text: str) -> None:
    file = tmp_path / "images.json"
    file.write_text(text)
    with pytest.raises(UserError, match=r"images\.json"):
        read_images(file)
