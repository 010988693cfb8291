//! The page's files, embedded: plain ES modules, a stylesheet, the font of the pictures.
//!
//! Their path carries a hash of all of them, so that browsers keep them for good and a page of another version
//! is told from this one.

use std::borrow::Cow;

use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use model::hex;
use sha2::{Digest, Sha256};

use crate::api::{ApiReply, ReplyBody};

macro_rules! asset {
    ($name:literal, $kind:literal) => {
        ($name, $kind, include_bytes!(concat!("../../web/", $name)).as_slice())
    };
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Name, type and content of every file.
fn list_assets() -> Vec<(&'static str, &'static str, &'static [u8])> {
    let mut assets = vec![
        asset!("style.css", "text/css; charset=utf-8"),
        asset!("icon.svg", "image/svg+xml"),
        ("mono.ttf", "font/ttf", flows::terminal::screen::png::text_font()),
    ];
    macro_rules! scripts {
        ($($name:literal),* $(,)?) => {
            assets.extend([$(
                ($name, SCRIPT, include_bytes!(concat!("../../web/", $name)).as_slice()),
            )*]);
        };
    }
    scripts!(
        "access.js",
        "api.js",
        "app.js",
        "charts.js",
        "clean.js",
        "disk.js",
        "dom.js",
        "overview.js",
        "play.js",
        "reply.js",
        "screen.js",
        "search.js",
        "session.js",
        "socket.js",
        "talk.js",
        "terminal.js",
        "usage.js",
        "views.js",
        "words.js",
    );
    assets
}

const SHELL: &str = include_str!("../../web/index.html");

/// Paths of the page, beside `/`; each gives the same document, which reads nothing.
const PAGES: [&str; 5] = ["/search", "/usage", "/disk", "/clean", "/access"];

/// A script without the lines that hold nothing but a comment: a seventh of it are types and reasons, which no browser
/// reads.
fn strip_comment_lines(script: &str) -> String {
    let mut stripped = String::with_capacity(script.len());
    let mut in_block = false;
    for line in script.lines() {
        let text = line.trim();
        let begins = text.starts_with("/**");
        let is_one_block = begins && text.find("*/") == Some(text.len() - 2);
        if in_block || (begins && !text.contains("*/")) {
            in_block = !text.ends_with("*/");
        } else if !is_one_block && !text.starts_with("//") {
            stripped.push_str(line);
            stripped.push('\n');
        }
    }
    stripped
}

/// The files as they are served.
#[derive(Debug)]
pub(super) struct AssetTable {
    assets: Vec<(&'static str, &'static str, Cow<'static, [u8]>)>,
    /// The hash of all of them.
    pub(super) version: String,
    shell: String,
}

impl AssetTable {
    pub(super) fn build() -> Self {
        let assets: Vec<_> = list_assets()
            .into_iter()
            .map(|(name, kind, bytes)| match std::str::from_utf8(bytes) {
                Ok(script) if kind == SCRIPT => {
                    (name, kind, Cow::Owned(strip_comment_lines(script).into_bytes()))
                }
                _ => (name, kind, Cow::Borrowed(bytes)),
            })
            .collect();
        let mut hash = Sha256::new();
        hash.update(SHELL);
        for (name, _, bytes) in &assets {
            hash.update(name);
            hash.update(bytes);
        }
        let version = hex::to_hex(&hash.finalize()[..8]);
        let shell = SHELL.replace("VERSION", &version);
        Self { assets, version, shell }
    }

    /// The file or page of a path.
    pub(super) fn answer(&self, path: &str) -> Option<ApiReply> {
        if path == "/" || path.starts_with("/s/") || PAGES.contains(&path) {
            let body = self.shell.clone().into_bytes();
            return Some(file_reply("text/html; charset=utf-8", "no-cache", body));
        }
        let name = path.strip_prefix("/assets/")?.strip_prefix(self.version.as_str())?;
        let name = name.strip_prefix('/')?;
        let (_, kind, bytes) = self.assets.iter().find(|(one, ..)| *one == name)?;
        Some(file_reply(kind, "public, max-age=31536000, immutable", bytes.to_vec()))
    }
}

fn file_reply(kind: &'static str, cache: &'static str, body: Vec<u8>) -> ApiReply {
    let mut reply = Response::new(ReplyBody::from(body));
    *reply.status_mut() = StatusCode::OK;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache));
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_40_only_files_of_the_table_are_served() {
        let table = AssetTable::build();
        let path = |name: &str| format!("/assets/{}/{name}", table.version);
        assert!(table.answer(&path("app.js")).is_some());
        assert!(table.answer(&path("mono.ttf")).is_some());
        for wrong in [
            path("../app.js"),
            path(""),
            path("app.js/"),
            path("APP.JS"),
            path("%61pp.js"),
            "/assets/app.js".to_owned(),
            "/assets//app.js".to_owned(),
            "/etc/passwd".to_owned(),
            format!("/assets/{}app.js", table.version),
        ] {
            assert!(table.answer(&wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn the_page_is_small() {
        let table = AssetTable::build();
        let is_first = |name: &str| table.shell.contains(&format!("{}/{name}\"", table.version));
        let first = table.assets.iter().filter(|(name, ..)| is_first(name) && *name != "icon.svg");
        let bytes: usize = first.clone().map(|(.., bytes)| bytes.len()).sum();
        assert!(first.count() <= 9);
        assert!(bytes <= 90_000, "{bytes} bytes of script and style");
    }

    #[test]
    fn lines_of_comments_are_not_served_and_everything_else_is() {
        let script = "// What it is.\n/** @type {any} */\nlet a = 1; // kept\n/**\n * More.\n */\n\
            \x20 /** @type {b} */ b: \"// text\",\nconst c = `/** ${a} */`;\n";
        let served =
            "let a = 1; // kept\n  /** @type {b} */ b: \"// text\",\nconst c = `/** ${a} */`;\n";
        assert_eq!(strip_comment_lines(script), served);
        for (name, kind, bytes) in list_assets().into_iter().filter(|(_, kind, _)| *kind == SCRIPT)
        {
            let served = strip_comment_lines(std::str::from_utf8(bytes).unwrap());
            assert!(served.len() * 2 > bytes.len(), "{name} of {kind} is nearly all comment");
        }
    }
}
