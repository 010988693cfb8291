//! Rows 34 to 39 and 52: the records.

use std::fs;

use testkit::access::{ID, Sessions, boottime_s, now_s, rfc3339};

use super::{kept, listed, run};

#[test]
fn row_34_without_a_record_it_is_unknown() {
    let sessions = Sessions::expired();
    fs::remove_file(sessions.file(ID, "meta.json")).unwrap();
    assert_eq!(listed(&sessions, "")["state"], "unknown");
    kept(&sessions, "SKIP_UNKNOWN");
}

#[test]
fn row_35_what_cannot_be_parsed_is_malformed() {
    let whole = fs::read(Sessions::expired().file(ID, "meta.json")).unwrap();
    let cases: [Vec<u8>; 5] = [
        whole[..whole.len() / 2].to_vec(),
        b"{\"id\": \"\xff\xfe\"}".to_vec(),
        vec![b' '; 1024 * 1024],
        "[".repeat(8000).into_bytes(),
        Vec::new(),
    ];
    for bytes in cases {
        let sessions = Sessions::expired();
        sessions.put(ID, "meta.json", bytes);
        kept(&sessions, "SKIP_MALFORMED");
        assert_eq!(listed(&sessions, "")["reason"], "SKIP_MALFORMED");
    }
}

#[test]
fn row_36_another_id_than_its_directory() {
    let sessions = Sessions::expired();
    sessions.edit(ID, |meta| meta["id"] = "s-alpha02".into());
    kept(&sessions, "SKIP_INVALID");
}

#[test]
fn row_37_broken_rules() {
    let breaks: [(&str, serde_json::Value); 6] = [
        ("expires_at", rfc3339(now_s() - 5000).into()),
        ("ttl_s", 601.into()),
        ("ttl_s", 0.into()),
        ("key_path", "/root/.ssh/id_ed25519".into()),
        ("schema", 2.into()),
        ("keys", serde_json::json!([{ "fingerprint": "MD5:00", "type": "ssh-rsa" }])),
    ];
    for (key, value) in breaks {
        let sessions = Sessions::expired();
        sessions.edit(ID, |meta| meta[key] = value);
        kept(&sessions, "SKIP_INVALID");
    }
}

#[test]
fn row_38_created_in_the_future() {
    let sessions = Sessions::expired();
    sessions.edit(ID, |meta| {
        meta["created_at"] = rfc3339(now_s() + 86_400).into();
        meta["expires_at"] = rfc3339(now_s() + 86_400 + 600).into();
    });
    let one = listed(&sessions, "");
    assert_eq!(
        (one["state"].as_str(), one["reason"].as_str()),
        (Some("unknown"), Some("SKIP_CLOCK"))
    );
    kept(&sessions, "SKIP_CLOCK");
}

#[test]
fn row_39_clocks_that_disagree() {
    let sessions = Sessions::expired();
    // As if the wall clock had jumped by a day: it is long over, and 500 s are left since boot.
    sessions.edit(ID, |meta| meta["expires_boottime_s"] = (boottime_s() + 500).into());
    let one = listed(&sessions, "");
    assert_eq!(
        (one["state"].as_str(), one["note"].as_str()),
        (Some("active"), Some("clock-disagrees"))
    );
    kept(&sessions, "SKIP_CLOCK");
    let sessions = Sessions::expired();
    // And back: 500 s are left by the wall clock, and none since boot.
    sessions.ends_in(ID, 500);
    sessions.edit(ID, |meta| meta["expires_boottime_s"] = (boottime_s() - 5000).max(0).into());
    kept(&sessions, "SKIP_CLOCK");
}

#[test]
fn row_52_labels_and_comments_are_escaped() {
    let sessions = Sessions::expired();
    sessions.edit(ID, |meta| {
        meta["label"] = "red \u{1b}[31m alert\u{7}".into();
        meta["keys"][0]["comment"] = "\u{1b}]0;title\u{7}".into();
    });
    for line in ["list", "show s-alpha01"] {
        let text = run(&sessions, line).exits(0).stdout;
        assert!(!text.contains(['\u{1b}', '\u{7}']), "{text:?}");
        assert!(text.contains("red \\x1b[31m alert\\x07"), "{text}");
    }
    let text = run(&sessions, "show s-alpha01").stdout;
    assert!(text.contains("\\x1b]0;title\\x07"), "{text}");
}

#[test]
fn a_stop_that_is_about_another_process_is_invalid() {
    let sessions = Sessions::expired();
    sessions.mark_stopped(ID);
    sessions.edit(ID, |meta| meta["agent"]["start"] = 1.into());
    kept(&sessions, "SKIP_INVALID");
    sessions.put(ID, "stop.json", "not json");
    kept(&sessions, "SKIP_MALFORMED");
    let sessions = Sessions::expired();
    sessions.put(
        ID,
        "stop.json",
        format!(r#"{{"stopped_at":"{}","pid":2}}"#, rfc3339(now_s() + 9000)),
    );
    kept(&sessions, "SKIP_CLOCK");
}
