//! Checks before routing: `Host` against DNS rebinding, `Origin` and `Sec-Fetch-Site` against other pages.
//! And the headers of every answer.

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, CACHE_CONTROL, HOST, HeaderName, HeaderValue, ORIGIN};

use crate::api::{ApiFailure, ApiReply};

/// Which names this server answers to.
#[derive(Debug)]
pub(super) struct HostRules {
    /// Exactly as browsers send them, with the port.
    local: Vec<String>,
    /// Those of a TLS proxy on this machine.
    proxied: Vec<String>,
}

const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    font-src 'self'; img-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// What every answer says, of any kind.
const HEADERS: [(HeaderName, &str); 6] = [
    (HeaderName::from_static("content-security-policy"), CONTENT_POLICY),
    (HeaderName::from_static("x-content-type-options"), "nosniff"),
    (HeaderName::from_static("referrer-policy"), "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
];

/// Puts the headers on an answer; one that says nothing of caches is not kept.
pub(super) fn put_headers(reply: &mut ApiReply) {
    let headers = reply.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

impl HostRules {
    pub(super) fn new(port: u16, hosts: Vec<String>) -> Self {
        let names = ["127.0.0.1", "[::1]", "localhost"];
        let mut local: Vec<String> = names.iter().map(|name| format!("{name}:{port}")).collect();
        if port == 80 {
            local.extend(names.map(str::to_owned));
        }
        let proxied = hosts.into_iter().map(|host| host.to_ascii_lowercase()).collect();
        Self { local, proxied }
    }

    /// The name that a request was sent to, if this server has it. Nothing else is looked at before.
    pub(super) fn check_host<'a>(
        &self,
        headers: &'a HeaderMap,
        authority: Option<&str>,
    ) -> Result<&'a str, ApiFailure> {
        let refused = || {
            ApiFailure::new(
                "FORBIDDEN",
                "this server has another name",
                "open the link that `ostler web` prints; a proxy's name goes into `[web] hosts`",
            )
        };
        let mut given = headers.get_all(HOST).iter();
        let (Some(host), None) = (given.next(), given.next()) else { return Err(refused()) };
        let host = host.to_str().map_err(|_| refused())?;
        let is_known = |name: &str| {
            let lower = name.to_ascii_lowercase();
            self.local.contains(&lower) || self.proxied.contains(&lower)
        };
        if !is_known(host) || authority.is_some_and(|name| name != host) {
            return Err(refused());
        }
        Ok(host)
    }

    /// Whether a call of the API comes from our own page, or from no page at all.
    pub(super) fn check_origin(&self, headers: &HeaderMap, host: &str) -> Result<(), ApiFailure> {
        let refused = || {
            let hint = "only the page that `ostler web` serves may call it from a browser";
            ApiFailure::new("FORBIDDEN", "the call comes from another page", hint)
        };
        let scheme =
            if self.proxied.contains(&host.to_ascii_lowercase()) { "https" } else { "http" };
        for origin in headers.get_all(ORIGIN) {
            let ours = format!("{scheme}://{host}");
            if !origin.as_bytes().eq_ignore_ascii_case(ours.as_bytes()) {
                return Err(refused());
            }
        }
        for site in headers.get_all("sec-fetch-site") {
            if site.as_bytes() != b"same-origin" {
                return Err(refused());
            }
        }
        Ok(())
    }
}

/// The token of a request.
pub(super) fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (given.next(), given.next()) else { return None };
    value.to_str().ok()?.strip_prefix("Bearer ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(given: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = given.iter().map(|(name, value)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        });
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, value);
        }
        headers
    }

    #[test]
    fn row_33_only_our_own_names_are_answered_to() {
        let rules = HostRules::new(7117, vec!["box.example".to_owned()]);
        for host in
            ["127.0.0.1:7117", "[::1]:7117", "localhost:7117", "LocalHost:7117", "box.example"]
        {
            assert!(rules.check_host(&headers(&[("host", host)]), None).is_ok(), "{host}");
        }
        for host in [
            "127.0.0.1",
            "127.0.0.1:7118",
            "evil.example:7117",
            "127.0.0.1:7117.evil.example",
            "user@127.0.0.1:7117",
            "[::1]",
            "::1:7117",
            "0.0.0.0:7117",
            "localhost.:7117",
            "",
            "box.example:443",
            "2130706433:7117",
            "127.1:7117",
        ] {
            assert!(rules.check_host(&headers(&[("host", host)]), None).is_err(), "{host}");
        }
        assert!(rules.check_host(&headers(&[]), None).is_err());
        let two = [("host", "127.0.0.1:7117"), ("host", "127.0.0.1:7117")];
        assert!(rules.check_host(&headers(&two), None).is_err());
        let good = headers(&[("host", "127.0.0.1:7117")]);
        assert!(rules.check_host(&good, Some("evil.example")).is_err());
        assert!(rules.check_host(&good, Some("127.0.0.1:7117")).is_ok());
    }

    #[test]
    fn row_34_only_our_own_page_calls() {
        let rules = HostRules::new(7117, vec!["box.example".to_owned()]);
        let check = |host: &str, given: &[(&'static str, &str)]| {
            rules.check_origin(&headers(given), host).is_ok()
        };
        let here = "127.0.0.1:7117";
        assert!(check(here, &[]));
        assert!(check(
            here,
            &[("origin", "http://127.0.0.1:7117"), ("sec-fetch-site", "same-origin")]
        ));
        assert!(check("box.example", &[("origin", "https://box.example")]));
        for origin in [
            "null",
            "http://127.0.0.1:7118",
            "https://127.0.0.1:7117",
            "http://localhost:7117",
            "http://evil.example",
            "",
            "http://127.0.0.1:7117/",
        ] {
            assert!(!check(here, &[("origin", origin)]), "{origin}");
        }
        for site in ["cross-site", "same-site", "none", ""] {
            assert!(!check(here, &[("sec-fetch-site", site)]), "{site}");
        }
    }
}
