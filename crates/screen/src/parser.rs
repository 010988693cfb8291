//! The escape sequence state machine: bytes in, calls on [`Term`] out.
//!
//! It follows the published DEC parser states, with UTF-8 in place of 8-bit controls. All of its state
//! is plain data: a keyframe taken in the middle of a sequence resumes in the middle of it.

use serde::{Deserialize, Serialize};

use crate::sequence::{End, Sequence};
use crate::term::Term;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
enum ParserState {
    #[default]
    Ground,
    Escape,
    /// Parameters of `CSI`, or of `DCS` before its data.
    Params(Intro),
    Osc,
    Dcs,
    /// `SOS`, `PM`, `APC`: read to their end and dropped.
    Skip,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Intro {
    Csi,
    Dcs,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Parser {
    state: ParserState,
    sequence: Sequence,
    /// Data of the string being read; longer ones are dropped whole.
    string: Vec<u8>,
    too_long: bool,
    /// The beginning of a character whose end has not come yet.
    utf8: Vec<u8>,
}

impl Parser {
    const MAX_STRING: usize = 8 << 10;

    pub(crate) fn advance(&mut self, bytes: &[u8], term: &mut Term) {
        let mut rest = bytes;
        // While more than this is left, looking for a flood again would be in vain.
        let mut look_at = rest.len();
        while let Some(&byte) = rest.first() {
            if rest.len() <= look_at && self.is_between_characters() && term.can_flood() {
                let flood = term.take_flood(rest);
                look_at = rest.len() - flood.seen;
                if flood.taken > 0 {
                    rest = &rest[flood.taken..];
                    continue;
                }
            }
            rest = match self.state {
                ParserState::Ground => self.parse_ground(byte, rest, term),
                ParserState::Osc | ParserState::Dcs | ParserState::Skip => {
                    self.parse_string(rest, term)
                }
                ParserState::Escape => {
                    self.parse_escape(byte, term);
                    &rest[1..]
                }
                ParserState::Params(intro) => {
                    self.parse_params(byte, intro, term);
                    &rest[1..]
                }
            };
        }
    }

    fn is_between_characters(&self) -> bool {
        self.state == ParserState::Ground && self.utf8.is_empty()
    }

    fn parse_ground<'a>(&mut self, byte: u8, rest: &'a [u8], term: &mut Term) -> &'a [u8] {
        if !self.utf8.is_empty() {
            return self.continue_character(byte, rest, term);
        }
        match byte {
            0x20..=0x7e => {
                let end = rest.iter().position(|b| !(0x20..=0x7e).contains(b));
                let (text, rest) = rest.split_at(end.unwrap_or(rest.len()));
                term.print_ascii(text);
                rest
            }
            0x80.. => {
                let end = rest.iter().position(u8::is_ascii);
                let (text, after) = rest.split_at(end.unwrap_or(rest.len()));
                self.print_characters(text, end.is_none(), term);
                after
            }
            _ => {
                self.execute_control(byte, term);
                &rest[1..]
            }
        }
    }

    /// Prints a run of non-ASCII bytes; `open` says that its last character may still be completed.
    fn print_characters(&mut self, bytes: &[u8], open: bool, term: &mut Term) {
        for chunk in bytes.utf8_chunks() {
            chunk.valid().chars().for_each(|c| term.print_char(c));
            let bad = chunk.invalid();
            if bad.is_empty() {
                continue;
            }
            let is_last = bad.as_ptr_range().end == bytes.as_ptr_range().end;
            if open && is_last && is_incomplete(bad) {
                self.utf8.extend_from_slice(bad);
            } else {
                term.print_char(char::REPLACEMENT_CHARACTER);
            }
        }
    }

    fn continue_character<'a>(&mut self, byte: u8, rest: &'a [u8], term: &mut Term) -> &'a [u8] {
        self.utf8.push(byte);
        if let Ok(text) = std::str::from_utf8(&self.utf8) {
            text.chars().for_each(|c| term.print_char(c));
            self.utf8.clear();
            return &rest[1..];
        }
        if is_incomplete(&self.utf8) {
            return &rest[1..];
        }
        // What was pending is not a character; `byte` starts something new.
        self.utf8.clear();
        term.print_char(char::REPLACEMENT_CHARACTER);
        rest
    }

    /// Controls act in the middle of a sequence too, as in every terminal.
    fn execute_control(&mut self, byte: u8, term: &mut Term) {
        match byte {
            0x1b => {
                self.sequence.clear();
                self.state = ParserState::Escape;
            }
            0x18 | 0x1a => self.state = ParserState::Ground,
            0x00..0x20 => term.execute_control(byte),
            _ => {}
        }
    }

    fn parse_escape(&mut self, byte: u8, term: &mut Term) {
        match byte {
            0x00..0x20 => self.execute_control(byte, term),
            0x20..=0x2f => self.sequence.intermediate = byte,
            0x30..=0x7e if self.sequence.intermediate != 0 => {
                self.state = ParserState::Ground;
                term.dispatch_escape(self.sequence.intermediate, byte);
            }
            b'[' => self.state = ParserState::Params(Intro::Csi),
            b'P' => self.state = ParserState::Params(Intro::Dcs),
            b']' => self.begin_string(ParserState::Osc),
            b'X' | b'^' | b'_' => self.begin_string(ParserState::Skip),
            0x30..=0x7e => {
                self.state = ParserState::Ground;
                term.dispatch_escape(0, byte);
            }
            _ => {}
        }
    }

    fn parse_params(&mut self, byte: u8, intro: Intro, term: &mut Term) {
        let sequence = &mut self.sequence;
        match byte {
            0x00..0x20 => self.execute_control(byte, term),
            b'0'..=b'9' if sequence.intermediate == 0 => sequence.digit(byte),
            b';' | b':' if sequence.intermediate == 0 => sequence.separator(byte == b':'),
            b'<'..=b'?' if sequence.params.is_empty() && sequence.marker == 0 => {
                sequence.marker = byte;
            }
            0x20..=0x2f => sequence.intermediate = byte,
            0x40..=0x7e => {
                sequence.last = byte;
                if intro == Intro::Dcs {
                    self.begin_string(ParserState::Dcs);
                    return;
                }
                self.state = ParserState::Ground;
                if !self.sequence.broken {
                    term.dispatch_csi(&self.sequence);
                }
            }
            0x30..=0x3f => sequence.broken = true,
            _ => {}
        }
    }

    fn begin_string(&mut self, state: ParserState) {
        self.state = state;
        self.string.clear();
        self.too_long = false;
    }

    fn parse_string<'a>(&mut self, bytes: &'a [u8], term: &mut Term) -> &'a [u8] {
        let ends = |byte: &u8| matches!(byte, 0x07 | 0x18 | 0x1a | 0x1b);
        let stop = bytes.iter().position(ends);
        let (data, rest) = bytes.split_at(stop.unwrap_or(bytes.len()));
        self.collect_string(data);
        let Some(&byte) = rest.first() else { return rest };
        match (byte, self.state) {
            (0x07, ParserState::Osc) => self.end_string(End::Bell, term),
            (0x07, _) => self.collect_string(&[byte]),
            (0x1b, _) => {
                self.end_string(End::StringTerminator, term);
                self.execute_control(byte, term);
            }
            _ => self.state = ParserState::Ground,
        }
        &rest[1..]
    }

    fn collect_string(&mut self, data: &[u8]) {
        if self.state == ParserState::Skip || self.too_long {
            return;
        }
        if self.string.len() + data.len() > Self::MAX_STRING {
            self.too_long = true;
            self.string = Vec::new();
        } else {
            self.string.extend_from_slice(data);
        }
    }

    fn end_string(&mut self, end: End, term: &mut Term) {
        let state = std::mem::replace(&mut self.state, ParserState::Ground);
        if self.too_long {
            return;
        }
        match state {
            ParserState::Osc => term.dispatch_osc(&self.string, end),
            ParserState::Dcs if !self.sequence.broken => {
                term.dispatch_dcs(&self.sequence, &self.string)
            }
            _ => {}
        }
    }
}

/// Whether more bytes could make this a character.
fn is_incomplete(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes)
        .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
}
