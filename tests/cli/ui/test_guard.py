"""Who may look, and what a browser may do with what it gets."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from sweyard_cli.ui.app import make_app
from sweyard_cli.ui.assets import load_assets
from sweyard_cli.ui.directories import Directories
from sweyard_cli.ui.sources import Sources

TOKEN = "right"


@pytest.fixture
def client(make_run: Callable[..., Path]) -> TestClient:
    return TestClient(make_app(Sources(Directories(make_run())), TOKEN), follow_redirects=False)


@pytest.mark.parametrize("path", ["/", "/api/runs", "/api/news", "/static/app.js", "/api/runs/_/run/attempts"])
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Cookie": "sweyard-12345678=right"}])
def test_without_the_token_nothing_is_shown(client: TestClient, path: str, headers: dict[str, str]) -> None:
    response = client.get(path, headers=headers)
    assert response.status_code == 401
    assert "Access token" in response.text


@pytest.mark.parametrize(
    ("path", "kind"), [("/static/app.css", "text/css"), ("/favicon.ico", "image/svg+xml"), ("/healthz", "text/plain")]
)
def test_what_the_request_for_a_token_is_made_of_needs_none(client: TestClient, path: str, kind: str) -> None:
    response = client.get(path)
    assert (response.status_code, response.headers["content-type"].partition(";")[0]) == (200, kind)


def test_the_token_is_taken_from_a_header_or_once_from_the_address(client: TestClient) -> None:
    assert client.get("/api/runs", headers={"Authorization": f"bearer {TOKEN}"}).status_code == 200
    assert client.get("/?token=wrong").status_code == 401
    signed_in = client.get(f"/?token={TOKEN}&a=b")
    assert (signed_in.status_code, signed_in.headers["location"]) == (303, "/?a=b")
    assert re.search(r"HttpOnly; Path=/; SameSite=strict", signed_in.headers["set-cookie"])
    assert client.get("/api/runs").status_code == 200


def test_signing_in_leads_to_no_other_host(client: TestClient) -> None:
    assert client.get(f"http://testserver//evil.example/?token={TOKEN}").headers["location"] == "/evil.example/"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_nothing_but_reading_is_answered(client: TestClient, method: str) -> None:
    assert client.request(method, "/api/runs", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 405


@pytest.mark.parametrize("path", ["/", "/api/runs", "/api/runs/_/none", "/static/app.css", "/nowhere", "/healthz"])
def test_every_answer_carries_the_policy(client: TestClient, path: str) -> None:
    headers = client.get(path, headers={"Authorization": f"Bearer {TOKEN}"}).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "require-trusted-types-for 'script'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "path",
    [
        "/static/..%2f..%2fapp.py",
        "/static/../app.py",
        "/static/%2fetc%2fpasswd",
        "/api/runs/_/..%2f..",
        "/api/runs/_/../figures",
        "/api/runs/_/%2fetc/figures",
        "/api/runs/_/run%00/figures",
    ],
)
def test_no_path_leads_out_of_what_was_found(client: TestClient, path: str) -> None:
    assert client.get(path, headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 404


def test_the_page_is_whole_without_a_network_and_makes_no_markup_of_text() -> None:
    """The policy would stop it; this says where."""
    assets = load_assets()
    for path, asset in assets.items():
        text = asset.content.decode().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|//[a-z]+\.[a-z]", text), path
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(|new Function|srcdoc", text
        ), path
        named = re.findall(r"[\"'(]/static/([^\"')]+)", text)
        assert set(named) <= assets.keys(), path
    assert not re.search(r"<script>|\son\w+=|\sstyle=", assets["index.html"].content.decode())


def test_what_a_browser_has_already_is_not_sent_again(client: TestClient) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    etag = client.get("/static/app.css", headers=headers).headers["etag"]
    assert client.get("/static/app.css", headers={**headers, "If-None-Match": etag}).status_code == 304
