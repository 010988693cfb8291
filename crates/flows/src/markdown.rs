//! Markdown into blocks (CommonMark with tables), for pages that build nodes and never HTML.
//!
//! HTML in it stays text. A link keeps its address only if it is `http` or `https`; an image becomes
//! its description, so that nothing is ever loaded.

use model::conversation::{ConversationEntry, ConversationRole};
use model::wire::{BlockTalkEntry, TextBlock, TextSpan};
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use crate::redact::{SecretKinds, redact};

/// How much of one entry is shown.
const MAX_ENTRY_CHARS: usize = 64 << 10;

/// How deep lists and quotations are followed; what is deeper is dropped into the level above.
const MOST_DEPTH: usize = 12;

/// Whether secrets of a conversation are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TalkSecrets {
    Masked,
    Shown,
}

/// An entry of a conversation for a page, in blocks.
pub fn to_talk_entry(
    number: usize,
    entry: &ConversationEntry,
    secrets: TalkSecrets,
) -> BlockTalkEntry {
    let (text, cut) = cut_text(&entry.text);
    let (text, masked) = match secrets {
        TalkSecrets::Masked => redact(text),
        TalkSecrets::Shown => (text.to_owned(), SecretKinds::new()),
    };
    let blocks = match entry.role {
        ConversationRole::User | ConversationRole::Assistant => parse_markdown(&text),
        _ => vec![TextBlock::Plain { text }],
    };
    BlockTalkEntry {
        number,
        at: entry.at,
        role: entry.role,
        tool: entry.tool.clone(),
        subagent: entry.subagent.clone(),
        blocks,
        cut,
        masked: masked.values().sum(),
    }
}

fn cut_text(text: &str) -> (&str, usize) {
    match text.char_indices().nth(MAX_ENTRY_CHARS) {
        Some((end, _)) => (&text[..end], text[end..].chars().count()),
        None => (text, 0),
    }
}

/// The blocks of a text.
pub fn parse_markdown(text: &str) -> Vec<TextBlock> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    let mut builder =
        BlockBuilder { open: vec![OpenBlock::Document(Vec::new())], ..BlockBuilder::default() };
    for event in Parser::new_ext(text, options) {
        builder.take_event(event);
    }
    while builder.open.len() > 1 {
        builder.close_block();
    }
    match builder.open.pop() {
        Some(OpenBlock::Document(blocks)) => blocks,
        _ => Vec::new(),
    }
}

/// A block that has begun.
enum OpenBlock {
    Document(Vec<TextBlock>),
    Quote(Vec<TextBlock>),
    List(Option<u64>, Vec<Vec<TextBlock>>),
    Item(Vec<TextBlock>),
    Paragraph(Vec<TextSpan>),
    Heading(u8, Vec<TextSpan>),
    Code(Option<String>, String),
    Table(Vec<Vec<Vec<TextSpan>>>),
    Row(Vec<Vec<TextSpan>>),
    Cell(Vec<TextSpan>),
}

#[derive(Default)]
struct BlockBuilder {
    open: Vec<OpenBlock>,
    bold: usize,
    italic: usize,
    strike: usize,
    links: Vec<Option<String>>,
}

impl BlockBuilder {
    fn take_event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.begin_tag(tag),
            Event::End(tag) => self.end_tag(tag),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => {
                self.add_text(&text, false);
            }
            Event::Code(text) => self.add_text(&text, true),
            Event::SoftBreak => self.add_text("\n", false),
            Event::HardBreak => self.add_text("\n", false),
            Event::Rule => self.put_block(TextBlock::Rule),
            Event::TaskListMarker(done) => self.add_text(if done { "[x] " } else { "[ ] " }, false),
            _ => {}
        }
    }

    fn begin_tag(&mut self, tag: Tag<'_>) {
        let is_deep = self.open.len() >= 2 * MOST_DEPTH;
        match tag {
            Tag::Strong => self.bold += 1,
            Tag::Emphasis => self.italic += 1,
            Tag::Strikethrough => self.strike += 1,
            Tag::Link { dest_url, .. } => self.links.push(safe_link(&dest_url)),
            Tag::Image { .. } => self.add_text("image: ", false),
            _ if is_deep => self.open.push(OpenBlock::Paragraph(Vec::new())),
            Tag::Paragraph | Tag::HtmlBlock => self.open.push(OpenBlock::Paragraph(Vec::new())),
            Tag::Heading { level, .. } => {
                self.open.push(OpenBlock::Heading(heading_number(level), Vec::new()));
            }
            Tag::BlockQuote(_) => self.open.push(OpenBlock::Quote(Vec::new())),
            Tag::CodeBlock(kind) => {
                let language = match kind {
                    CodeBlockKind::Fenced(words) => {
                        words.split_whitespace().next().map(str::to_owned)
                    }
                    CodeBlockKind::Indented => None,
                };
                self.open.push(OpenBlock::Code(language, String::new()));
            }
            Tag::List(start) => self.open.push(OpenBlock::List(start, Vec::new())),
            Tag::Item => self.open.push(OpenBlock::Item(Vec::new())),
            Tag::Table(_) => self.open.push(OpenBlock::Table(Vec::new())),
            Tag::TableHead | Tag::TableRow => self.open.push(OpenBlock::Row(Vec::new())),
            Tag::TableCell => self.open.push(OpenBlock::Cell(Vec::new())),
            _ => self.open.push(OpenBlock::Paragraph(Vec::new())),
        }
    }

    fn end_tag(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Strong => self.bold = self.bold.saturating_sub(1),
            TagEnd::Emphasis => self.italic = self.italic.saturating_sub(1),
            TagEnd::Strikethrough => self.strike = self.strike.saturating_sub(1),
            TagEnd::Link => drop(self.links.pop()),
            TagEnd::Image => {}
            _ => {
                // Text of a tight list stands in its item without a paragraph around it.
                if matches!(tag, TagEnd::Item | TagEnd::BlockQuote(_))
                    && matches!(self.open.last(), Some(OpenBlock::Paragraph(_)))
                {
                    self.close_block();
                }
                self.close_block();
            }
        }
    }

    fn add_text(&mut self, text: &str, code: bool) {
        let span = TextSpan {
            text: text.to_owned(),
            bold: self.bold > 0,
            italic: self.italic > 0,
            strike: self.strike > 0,
            code,
            link: self.links.iter().rev().find_map(Clone::clone),
        };
        match self.open.last_mut() {
            Some(OpenBlock::Code(_, code)) => code.push_str(text),
            Some(
                OpenBlock::Paragraph(spans) | OpenBlock::Heading(_, spans) | OpenBlock::Cell(spans),
            ) => push_span(spans, span),
            _ => self.open.push(OpenBlock::Paragraph(vec![span])),
        }
    }

    fn close_block(&mut self) {
        if self.open.len() < 2 {
            return;
        }
        let Some(block) = self.open.pop() else { return };
        match block {
            OpenBlock::Document(blocks) | OpenBlock::Quote(blocks) => {
                self.put_block(TextBlock::Quote { blocks });
            }
            OpenBlock::List(start, items) => self.put_block(TextBlock::List { start, items }),
            OpenBlock::Paragraph(spans) if spans.is_empty() => {}
            OpenBlock::Paragraph(spans) => self.put_block(TextBlock::Paragraph { spans }),
            OpenBlock::Heading(level, spans) => self.put_block(TextBlock::Heading { level, spans }),
            OpenBlock::Code(language, text) => self.put_block(TextBlock::Code { language, text }),
            OpenBlock::Table(rows) => self.put_block(TextBlock::Table { rows }),
            OpenBlock::Item(blocks) => match self.open.last_mut() {
                Some(OpenBlock::List(_, items)) => items.push(blocks),
                _ => blocks.into_iter().for_each(|block| self.put_block(block)),
            },
            OpenBlock::Row(cells) => {
                if let Some(OpenBlock::Table(rows)) = self.open.last_mut() {
                    rows.push(cells);
                }
            }
            OpenBlock::Cell(spans) => {
                if let Some(OpenBlock::Row(cells)) = self.open.last_mut() {
                    cells.push(spans);
                }
            }
        }
    }

    fn put_block(&mut self, block: TextBlock) {
        // A paragraph that text opened by itself ends where a block begins.
        while matches!(self.open.last(), Some(OpenBlock::Paragraph(_))) && self.open.len() > 1 {
            self.close_block();
        }
        match self.open.last_mut() {
            Some(
                OpenBlock::Document(blocks) | OpenBlock::Quote(blocks) | OpenBlock::Item(blocks),
            ) => blocks.push(block),
            Some(OpenBlock::List(_, items)) => items.push(vec![block]),
            _ => {}
        }
    }
}

/// Adds a span; one of the same style goes on.
fn push_span(spans: &mut Vec<TextSpan>, span: TextSpan) {
    match spans.last_mut() {
        Some(last)
            if (TextSpan { text: String::new(), ..last.clone() })
                == (TextSpan { text: String::new(), ..span.clone() }) =>
        {
            last.text.push_str(&span.text);
        }
        _ => spans.push(span),
    }
}

fn safe_link(url: &str) -> Option<String> {
    let lower = url.trim_start().to_ascii_lowercase();
    let is_web = lower.starts_with("http://") || lower.starts_with("https://");
    (is_web && !url.contains(char::is_control)).then(|| url.trim().to_owned())
}

const fn heading_number(level: HeadingLevel) -> u8 {
    match level {
        HeadingLevel::H1 => 1,
        HeadingLevel::H2 => 2,
        HeadingLevel::H3 => 3,
        HeadingLevel::H4 => 4,
        HeadingLevel::H5 => 5,
        HeadingLevel::H6 => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(blocks: &[TextBlock]) -> String {
        let spans = |spans: &[TextSpan]| spans.iter().map(|span| span.text.clone()).collect();
        let text = |block: &TextBlock| -> String {
            match block {
                TextBlock::Plain { text } | TextBlock::Code { text, .. } => text.clone(),
                TextBlock::Paragraph { spans: inner } | TextBlock::Heading { spans: inner, .. } => {
                    spans(inner)
                }
                TextBlock::List { items, .. } => items.iter().map(|item| words(item)).collect(),
                TextBlock::Quote { blocks } => words(blocks),
                TextBlock::Table { rows } => {
                    rows.iter().flatten().map(|cell| spans(cell)).collect::<String>()
                }
                TextBlock::Rule => String::new(),
            }
        };
        blocks.iter().map(text).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn blocks_are_what_the_text_says() {
        let blocks = parse_markdown(
            "# A *b*\n\n1. one\n2. two\n   - in\n\n```rust\nfn x() {}\n```\n> q\n\n| a | b |\n|---|---|\n| c | `d` |\n\n---\n",
        );
        assert!(matches!(&blocks[0], TextBlock::Heading { level: 1, spans } if spans[1].italic));
        let TextBlock::List { start: Some(1), items } = &blocks[1] else { panic!("{blocks:?}") };
        assert_eq!(items.len(), 2);
        assert!(matches!(&items[1][1], TextBlock::List { start: None, .. }), "{items:?}");
        let TextBlock::Code { language, text } = &blocks[2] else { panic!("{blocks:?}") };
        assert_eq!((language.as_deref(), text.as_str()), (Some("rust"), "fn x() {}\n"));
        assert!(matches!(&blocks[3], TextBlock::Quote { .. }));
        let TextBlock::Table { rows } = &blocks[4] else { panic!("{blocks:?}") };
        assert!(rows[1][1][0].code);
        assert_eq!(blocks[5], TextBlock::Rule);
    }

    #[test]
    fn row_57_html_is_text_and_links_lead_only_to_the_web() {
        let hostile = "<script>alert(1)</script>\n\n[x](javascript:alert(1)) [y](https://a.example/) \
                       ![i](http://evil.example/p.png) <svg onload=x>";
        let blocks = parse_markdown(hostile);
        let said = words(&blocks);
        for part in ["<script>", "</script>", "<svg onload=x>", "image: i"] {
            assert!(said.contains(part), "{part} in {said}");
        }
        let text = format!("{blocks:?}");
        assert!(!text.contains("javascript"), "{text}");
        assert!(!text.contains("evil.example"), "{text}");
        assert!(text.contains("https://a.example/"), "{text}");
    }

    #[test]
    fn secrets_are_masked_and_long_texts_cut() {
        let key = format!("sk-ant-api03-{}", "a1B2".repeat(24));
        let entry = ConversationEntry::new(None, ConversationRole::User, format!("use {key}"));
        let talk = to_talk_entry(3, &entry, TalkSecrets::Masked);
        assert_eq!((talk.number, talk.masked), (3, 1));
        assert!(!format!("{talk:?}").contains(&key), "{talk:?}");
        let shown = to_talk_entry(3, &entry, TalkSecrets::Shown);
        assert!(shown.masked == 0 && format!("{shown:?}").contains(&key), "{shown:?}");
        let long = ConversationEntry::new(None, ConversationRole::Result, "é".repeat(70_000));
        assert_eq!(to_talk_entry(1, &long, TalkSecrets::Masked).cut, 70_000 - MAX_ENTRY_CHARS);
    }

    proptest::proptest! {
        #[test]
        fn any_text_becomes_blocks(text in "[-*_`#>|\\[\\]()!<a \n~1.]{0,200}") {
            let _ = parse_markdown(&text);
        }
    }
}
