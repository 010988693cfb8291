//! How a JSON document is laid out: where a new member goes, how it is indented, and which commas
//! and blanks go with one that is removed.

use std::ops::Range;

use super::splice::{Splices, line_ending};

/// A value to write.
#[derive(Clone, Debug)]
pub enum JsonNode {
    Text(String),
    Number(u32),
    Object(Vec<(String, JsonNode)>),
    Array(Vec<JsonNode>),
}

impl JsonNode {
    /// The same as a value to compare with.
    pub fn to_value(&self) -> serde_json::Value {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Number(number) => (*number).into(),
            Self::Object(members) => {
                members.iter().map(|(key, node)| (key.clone(), node.to_value())).collect()
            }
            Self::Array(elements) => elements.iter().map(Self::to_value).collect(),
        }
    }
}

/// Where an object or a list stands, and what is in it.
#[derive(Debug)]
pub struct JsonContainer {
    pub range: Range<usize>,
    pub children: Vec<Range<usize>>,
}

impl JsonContainer {
    /// Between the brackets.
    fn inside_range(&self) -> Range<usize> {
        self.range.start + 1..self.range.end - 1
    }

    /// What stands between the child before `index` and that child, or the end.
    fn gap_before(&self, index: usize) -> Range<usize> {
        let start = match index.checked_sub(1) {
            Some(before) => self.children[before].end,
            None => self.inside_range().start,
        };
        let end = self.children.get(index).map_or(self.inside_range().end, |child| child.start);
        start..end
    }
}

/// The habits of a document.
#[derive(Debug)]
pub struct JsonLayout<'a> {
    text: &'a str,
    pub newline: &'static str,
    unit: String,
}

impl<'a> JsonLayout<'a> {
    pub fn of_text(text: &'a str) -> Self {
        // The first indented line that begins a member shows the habit.
        let indented = text.lines().find_map(|line| {
            let member = line.trim_start();
            let indent = &line[..line.len() - member.len()];
            (member.starts_with('"') && !indent.is_empty()).then(|| indent.to_owned())
        });
        Self { text, newline: line_ending(text), unit: indented.unwrap_or_else(|| "  ".to_owned()) }
    }

    /// A value as text. `indent` is that of the line on which it begins.
    pub fn render_node(&self, node: &JsonNode, indent: &str, compact: bool) -> String {
        let inner = format!("{indent}{}", self.unit);
        let colon = if compact { ":" } else { ": " };
        let (open, close, children): (char, char, Vec<String>) = match node {
            JsonNode::Text(text) => return serde_json::Value::from(text.as_str()).to_string(),
            JsonNode::Number(number) => return number.to_string(),
            JsonNode::Object(members) => {
                let member = |(key, value): &(String, JsonNode)| {
                    let key = serde_json::Value::from(key.as_str());
                    format!("{key}{colon}{}", self.render_node(value, &inner, compact))
                };
                ('{', '}', members.iter().map(member).collect())
            }
            JsonNode::Array(elements) => {
                let element = |element: &JsonNode| self.render_node(element, &inner, compact);
                ('[', ']', elements.iter().map(element).collect())
            }
        };
        if compact || children.is_empty() {
            return format!("{open}{}{close}", children.join(","));
        }
        let line = format!("{}{inner}", self.newline);
        let joined = children.join(&format!(",{line}"));
        format!("{open}{line}{joined}{}{indent}{close}", self.newline)
    }

    /// Adds elements at the end of a list.
    pub fn append_elements(
        &self,
        splices: &mut Splices,
        place: &JsonContainer,
        new: &[JsonNode],
        compact_document: bool,
    ) {
        let compact = self.is_compact(place, compact_document);
        let indent = self.child_indent(place);
        let new = new.iter().map(|node| self.render_node(node, &indent, compact)).collect();
        self.append_texts(splices, place, new, &indent, compact);
    }

    /// Adds members at the end of an object.
    pub fn append_members(
        &self,
        splices: &mut Splices,
        place: &JsonContainer,
        new: Vec<(String, JsonNode)>,
        compact_document: bool,
    ) {
        let compact = self.is_compact(place, compact_document);
        let indent = self.child_indent(place);
        let colon = if compact { ":" } else { ": " };
        let member = |(key, node): (String, JsonNode)| {
            let key = serde_json::Value::from(key);
            format!("{key}{colon}{}", self.render_node(&node, &indent, compact))
        };
        let new = new.into_iter().map(member).collect();
        self.append_texts(splices, place, new, &indent, compact);
    }

    fn append_texts(
        &self,
        splices: &mut Splices,
        place: &JsonContainer,
        new: Vec<String>,
        indent: &str,
        compact: bool,
    ) {
        if new.is_empty() {
            return;
        }
        let gap = place.gap_before(place.children.len());
        let scanned = scan_gap(self.text, gap.clone());
        if let (Some(last), None) = (place.children.last(), scanned.comma) {
            splices.insert(last.end, ",");
        }
        let line = if compact { String::new() } else { format!("{}{indent}", self.newline) };
        let mut text = format!("{line}{}", new.join(&format!(",{line}")));
        if scanned.comma.is_some() {
            text.push(',');
        }
        if !compact && !self.text[scanned.end..gap.end].contains('\n') {
            text.push_str(self.newline);
            text.push_str(self.line_indent(place.range.start));
        }
        splices.insert(scanned.end, text);
    }

    fn is_compact(&self, place: &JsonContainer, compact_document: bool) -> bool {
        if place.children.is_empty() {
            compact_document && !self.text[place.range.clone()].contains('\n')
        } else {
            !self.text[place.range.clone()].contains('\n')
        }
    }

    fn child_indent(&self, place: &JsonContainer) -> String {
        if let Some(child) = place.children.first() {
            let line = self.text[..child.start].rfind('\n').map_or(0, |at| at + 1);
            let before = &self.text[line..child.start];
            if line > place.range.start && before.trim().is_empty() {
                return before.to_owned();
            }
        }
        format!("{}{}", self.line_indent(place.range.start), self.unit)
    }

    /// The blanks at the beginning of the line with this position.
    fn line_indent(&self, at: usize) -> &'a str {
        let line = self.text[..at].rfind('\n').map_or(0, |at| at + 1);
        let rest = &self.text[line..];
        &rest[..rest.len() - rest.trim_start_matches([' ', '\t']).len()]
    }
}

/// Removes the marked children with their commas and the blanks before them. Comments stay.
pub fn remove_children(splices: &mut Splices, text: &str, place: &JsonContainer, marked: &[bool]) {
    let count = place.children.len();
    let comma = |after: usize| scan_gap(text, place.gap_before(after + 1)).comma;
    let trailing = count.checked_sub(1).and_then(comma);
    let last_kept = marked.iter().rposition(|marked| !marked);
    if !marked.is_empty()
        && last_kept.is_none()
        && (0..=count).all(|i| is_plain(text, place.gap_before(i)))
    {
        splices.remove(place.inside_range());
        return;
    }
    let mut next = 0;
    while let Some(first) = (next..count).find(|index| marked[*index]) {
        // Neighbours with nothing but blanks between them go as one: a line break between them ends no
        // comment that stays.
        let goes_too = |index: &usize| marked[*index] && is_plain(text, place.gap_before(*index));
        let last = (first + 1..count).take_while(goes_too).last().unwrap_or(first);
        next = last + 1;
        let (child, end) = (place.children[first].start, place.children[last].end);
        let before = scan_gap(text, place.gap_before(first));
        let rest = text[end..].trim_start_matches([' ', '\t', '\r', ',']);
        // Without its line break a comment would swallow what follows.
        let start =
            if before.in_line_comment && !rest.starts_with('\n') { child } else { before.end };
        splices.remove(start..end);
        let has_successor = last_kept.is_some_and(|kept| kept > last) || trailing.is_some();
        let comma = if has_successor { comma(last) } else { first.checked_sub(1).and_then(comma) };
        if let Some(comma) = comma {
            splices.remove(comma..comma + 1);
        }
    }
}

/// What stands in a gap between values.
struct Scanned {
    comma: Option<usize>,
    /// Where the last of it ends that is not blank.
    end: usize,
    in_line_comment: bool,
}

fn scan_gap(text: &str, gap: Range<usize>) -> Scanned {
    let mut scanned = Scanned { comma: None, end: gap.start, in_line_comment: false };
    let mut at = gap.start;
    while at < gap.end {
        let rest = &text[at..gap.end];
        let length = if rest.starts_with("//") {
            scanned.in_line_comment = true;
            rest.find(['\n', '\r']).unwrap_or(rest.len())
        } else if let Some(comment) = rest.strip_prefix("/*") {
            scanned.in_line_comment = false;
            comment.find("*/").map_or(rest.len(), |end| end + "/**/".len())
        } else if rest.starts_with(',') {
            scanned.comma = Some(at);
            scanned.in_line_comment = false;
            1
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
            continue;
        };
        at += length;
        scanned.end = at;
    }
    scanned
}

/// Whether a gap has nothing but blanks and commas.
fn is_plain(text: &str, gap: Range<usize>) -> bool {
    text[gap].chars().all(|c| c.is_whitespace() || c == ',')
}
