//! `record export --format gif|webm|mp4`: pictures that move, and video by a real ffmpeg.

use std::process::Command;

use super::stage::{Name, Stage};

/// A session that is over, with a mark in it.
fn marked_session(stage: &Stage) -> String {
    let id = stage.script("printf 'first\\n'; read -r line; printf 'second %s\\n' \"$line\"");
    stage.ok(&["wait", &id, "--text", "first"]);
    stage.ok(&["mark", &id, "half = way; # 1"]);
    stage.ok(&["type", &id, "x"]);
    stage.ok(&["send-keys", &id, "Enter"]);
    stage.ok(&["wait", &id, "--exit"]);
    id
}

fn probe(path: &str, what: &[&str]) -> String {
    let output = Command::new("ffprobe").args(["-v", "error"]).args(what).arg(path).output();
    let output = output.expect("the tests of video need ffmpeg");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_gif_is_the_same_whenever_it_is_made_and_players_read_it() {
    let stage = Stage::new(Name::Ostler);
    let id = marked_session(&stage);
    let out = stage.home.join("out.gif");
    let out = out.to_str().unwrap();
    let first = stage.ok(&["record", "export", &id, "--format", "gif", "-o", out]);
    let again = stage.ok(&["record", "export", &id, "--format", "gif"]);
    assert_eq!(first["sha256"], again["sha256"]);
    let told = probe(out, &["-show_entries", "stream=codec_name,width,height", "-of", "csv=p=0"]);
    assert_eq!(told.trim(), "gif,640,384");
    let faster = stage.ok(&["record", "export", &id, "--format", "gif", "--speed", "4"]);
    assert!(faster["bytes"].as_u64().unwrap() <= first["bytes"].as_u64().unwrap());
    for wrong in [["--speed", "0"], ["--from", "soon"], ["--to", "0"]] {
        let args = [&["record", "export", &id, "--format", "gif"], &wrong[..]].concat();
        assert_eq!(stage.run(&args).code, 2, "{wrong:?}");
    }
}

#[test]
fn a_video_has_its_marks_as_chapters_under_both_names() {
    for name in [Name::Ostler, Name::AgentTty] {
        let stage = Stage::new(name);
        let id = marked_session(&stage);
        let out = stage.home.join("out.webm");
        let out = out.to_str().unwrap();
        stage.ok(&["record", "export", &id, "--format", "webm", "--out", out]);
        let told =
            probe(out, &["-show_entries", "stream=codec_name,width,height", "-of", "csv=p=0"]);
        assert_eq!(told.trim(), "vp9,640,384");
        let chapters = probe(out, &["-show_chapters", "-of", "json"]);
        assert!(chapters.contains("half = way; # 1"), "{chapters}");
    }
}

#[test]
fn without_ffmpeg_it_says_what_to_install() {
    let stage = Stage::new(Name::Ostler);
    let id = marked_session(&stage);
    let empty = stage.home.directory("empty");
    let mut command = stage.command();
    command.env("PATH", &empty).args(["record", "export", &id, "--format", "mp4", "--json"]);
    let ran = testkit::run::ran(&mut command);
    assert_eq!((ran.code, ran.error().as_str()), (7, "EXPORT_ERROR"), "{ran:?}");
    assert!(ran.message().contains("ffmpeg") && ran.message().contains("--format gif"), "{ran:?}");
    // Nothing is left of the attempt.
    let left: Vec<_> = std::fs::read_dir(stage.directory(&id).join("artifacts")).unwrap().collect();
    assert!(
        left.iter().flatten().all(|entry| !entry.file_name().to_string_lossy().ends_with("tmp"))
    );
}
