//! Long pastes that an agent puts into a file of its own: its record names the file instead of the text.

use std::path::Path;

use adapters::TranscriptSource;

/// What a record stands for that is nothing but the name of such a file. Only a file in the conversation's own directory
/// is read: a record may say anything.
pub(super) fn read_pasted(
    agent: &str,
    source: &TranscriptSource,
    recorded: &str,
) -> Option<String> {
    let (front, back) = adapters::by_id(agent)?.control_table()?.paste_reference?;
    let (path, rest) = recorded.trim().strip_prefix(front)?.split_once(back)?;
    if rest.contains('<') || !rest.ends_with("/>") {
        return None;
    }
    let path = std::fs::canonicalize(Path::new(path)).ok()?;
    if !path.starts_with(source.path.parent()?) {
        return None;
    }
    let (bytes, _) = adapters::files::read_document(&source.root, &path).ok()?;
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn row_04_a_record_that_names_the_agents_own_file_is_that_text_and_no_other_file_is_read() {
        let home = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(home.path()).unwrap();
        let own = root.join("session-state/one");
        std::fs::create_dir_all(own.join("files")).unwrap();
        std::fs::write(own.join("events.jsonl"), "{}\n").unwrap();
        std::fs::write(own.join("files/paste-1.txt"), "a long text\nof many lines\n").unwrap();
        std::fs::write(root.join("secret"), "of somebody else").unwrap();
        let path = own.join("events.jsonl");
        let source = TranscriptSource {
            id: "one".into(),
            parent: None,
            title: None,
            name: None,
            started_at: None,
            root: Arc::from(root.as_path()),
            stamp: adapters::files::stamp_path(&path).unwrap(),
            path,
            beside: Vec::new(),
            bytes: None,
            format: "copilot-events",
        };
        let read = |agent: &str, path: &Path, more: &str| {
            let record =
                format!("<pasted_content file=\"{}\" size=\"1 KB\" />{more}", path.display());
            read_pasted(agent, &source, &record)
        };
        let pasted = own.join("files/paste-1.txt");
        let text = Some("a long text\nof many lines\n".to_owned());
        assert_eq!(read("copilot", &pasted, ""), text);
        assert_eq!(read("copilot", &pasted, " and more"), None, "that is another text");
        assert_eq!(read("copilot", &root.join("secret"), ""), None);
        assert_eq!(read("copilot", &own.join("files/../../../secret"), ""), None);
        assert_eq!(read("claude-code", &pasted, ""), None, "it keeps no such files");
        assert_eq!(read_pasted("copilot", &source, "a long text"), None);
    }
}
