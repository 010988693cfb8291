//! No adapter panics on a transcript of any bytes, wherever its agent keeps them.
#![no_main]

use std::path::PathBuf;

use adapters::{ALL, Source, files};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let directory = tempfile::tempdir().expect("a directory");
    let root: std::sync::Arc<std::path::Path> =
        std::fs::canonicalize(directory.path()).expect("its path").into();
    for name in ["session.jsonl", "session.json"] {
        let path: PathBuf = root.join(name);
        std::fs::write(&path, bytes).expect("the file");
        let stamp = files::stamp(&path).expect("its stamp");
        for adapter in ALL {
            let source = Source::file("session", &root, path.clone(), stamp, "fuzz");
            let _ = adapter.digest(&source);
            let _ = adapter.converse(&source, 0, &mut |_| {});
        }
    }
});
