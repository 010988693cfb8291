//! Agents' transcripts.

use std::path::Path;
use std::sync::Arc;

use adapters::{ALL_ADAPTERS, TranscriptSource, files};

use crate::scratch;

/// No adapter panics on a transcript of any bytes, wherever its agent keeps them.
pub fn transcript(bytes: &[u8]) {
    scratch::with(|directory| {
        let root: Arc<Path> = std::fs::canonicalize(directory).expect("its path").into();
        for name in ["session.jsonl", "session.json"] {
            let path = root.join(name);
            std::fs::write(&path, bytes).expect("the file");
            let stamp = files::stamp_path(&path).expect("its stamp");
            for adapter in ALL_ADAPTERS {
                let source =
                    TranscriptSource::from_file("session", &root, path.clone(), stamp, "fuzz");
                let _ = adapter.read_digest(&source);
                let _ = adapter.read_conversation(&source, 0, &mut |_| {});
            }
        }
    });
}
