"""Who may ask, and what a browser may do with the answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from taskloom.apps.view.server import application


@pytest.mark.parametrize("path", ["/", "/nowhere", "/static/viewer.css", "/data/none"])
def test_every_response_forbids_scripts_frames_and_guessing_of_types(
    client: TestClient, path: str
) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:8640", "", "169.254.169.254"]
)
def test_a_name_that_was_rebound_to_this_machine_is_refused(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:9999", "[::1]:8640"])
def test_names_of_this_machine_are_answered(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 200


def test_other_sites_may_link_to_a_page_and_not_read_one(client: TestClient) -> None:
    link = {
        "sec-fetch-site": "cross-site",
        "sec-fetch-mode": "navigate",
        "sec-fetch-dest": "document",
    }
    assert client.get("/", headers=link).status_code == 200
    for mode, dest in (("no-cors", "image"), ("cors", "empty"), ("navigate", "iframe")):
        headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": mode, "sec-fetch-dest": dest}
        assert client.get("/", headers=headers).status_code == 403


def test_a_viewer_with_a_token_shows_nothing_without_it(tmp_path: Path) -> None:
    with TestClient(
        application([tmp_path], token="secret"), base_url="http://any.example:80"
    ) as viewer:
        for path in ("/", "/static/viewer.css", "/?token=wrong", "/?token=%FF", "/?token="):
            assert viewer.get(path).status_code == 401
        assert viewer.get("/", headers={"authorization": "Bearer secret"}).status_code == 200
        moved = viewer.get("/suite?name=ctl&token=secret", follow_redirects=False)
        assert moved.status_code == 303
        assert moved.headers["location"] == "/suite?name=ctl"
        assert "HttpOnly" in moved.headers["set-cookie"]
        assert "SameSite=strict" in moved.headers["set-cookie"]
        assert viewer.get("/").status_code == 200


def test_the_token_never_leads_to_another_host(tmp_path: Path) -> None:
    with TestClient(
        application([tmp_path], token="secret"), base_url="http://any.example:80"
    ) as viewer:
        moved = viewer.get("http://any.example//evil.example/?token=secret", follow_redirects=False)
        assert moved.headers["location"] == "/evil.example/"


def test_only_reading_methods_are_answered(client: TestClient) -> None:
    for method in ("PUT", "DELETE", "PATCH"):
        assert client.request(method, "/").status_code == 405
