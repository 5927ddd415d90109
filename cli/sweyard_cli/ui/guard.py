"""Guard: who may look, and what a browser may do with what it gets.

Nothing that a sandbox wrote is trusted. The page makes its elements from text alone; should it ever fail to, the policy
forbids inline scripts, scripts and styles from elsewhere, connections to elsewhere, frames and, by trusted types,
turning text into markup at all.
"""

import hashlib
import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
PARAMETER = "token"
OPEN_PATHS = ("/healthz", "/static/app.css", "/favicon.ico")
"""Without a secret in them: for a kubelet, and for the page that asks for the token, whose icon browsers look for."""
_SIGN_IN = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>sweyard</title><link rel="stylesheet" href="/static/app.css"></head>
<body class="sign-in"><main><h1>sweyard</h1>
<form action="/"><label for="token">Access token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<button>Open</button></form>
<p><code>sweyard ui</code> printed a link that has it; on a cluster it is in the Secret that the chart names.</p>
</main></body></html>
"""


class Guard:
    """ASGI middleware: reads alone, by whoever has the token. `token` None leaves that to who stands before it."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app = app
        self._token = token
        # Cookies do not know ports: two pages on one machine must not sign each other out.
        self._cookie = f"sweyard-{_digest(token or '')[:8]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self._refusal(scope)
        await (answer or self._app)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        """None for a request that may go on."""
        if scope["method"] not in ("GET", "HEAD"):
            return Response("this page only reads\n", 405, {"Allow": "GET, HEAD"})
        if self._token is None or scope["path"] in OPEN_PATHS:
            return None
        query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        if PARAMETER in query:
            return self._sign_in(scope["path"], query)
        if self._knows(Headers(scope=scope)):
            return None
        return HTMLResponse(_SIGN_IN, 401)

    def _sign_in(self, path: str, query: dict[str, str]) -> Response:
        """The token leaves the address, and with it the browser's history."""
        if not self._is_token(query.pop(PARAMETER)):
            return HTMLResponse(_SIGN_IN, 401)
        # A path of two slashes would be another host's address.
        target = "/" + path.lstrip("/\\")
        answer = RedirectResponse(f"{target}?{urlencode(query)}" if query else target, 303)
        answer.set_cookie(self._cookie, self._token or "", httponly=True, samesite="strict")
        return answer

    def _knows(self, headers: Headers) -> bool:
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._is_token(bearer.strip()):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return cookie is not None and self._is_token(cookie.value)

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(_digest(text), _digest(self._token or ""))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
