//! `OSC` strings: title, colours, prompt marks.

use super::Term;
use crate::contract::{PromptMark, ScreenEvent};
use crate::palette::{self, ColorSlot};
use crate::sequence::End;

impl Term {
    pub(crate) fn dispatch_osc(&mut self, data: &[u8], end: End) {
        let text = String::from_utf8_lossy(data);
        let (number, rest) = text.split_once(';').unwrap_or((&text, ""));
        match number {
            "0" | "2" => self.set_title(rest.chars().filter(|c| !c.is_control()).collect()),
            "4" => self.palette_colors(rest, end),
            "10" | "11" | "12" => self.dynamic_colors(number, rest, end),
            "104" => self.reset_palette(rest),
            "110" => self.set_color(ColorSlot::Foreground, None),
            "111" => self.set_color(ColorSlot::Background, None),
            "112" => self.set_color(ColorSlot::Cursor, None),
            "133" => self.record_prompt_mark(rest),
            _ => {}
        }
    }

    pub(crate) fn set_title(&mut self, title: String) {
        self.effects.events.retain(|event| !matches!(event, ScreenEvent::Title(_)));
        self.effects.events.push(ScreenEvent::Title(title.clone()));
        self.title = title;
    }

    fn set_color(&mut self, slot: ColorSlot, color: Option<[u8; 3]>) {
        self.effects.dirty = true;
        self.palette.set_color(slot, color);
    }

    /// `4;index;spec` in pairs; `?` asks.
    fn palette_colors(&mut self, rest: &str, end: End) {
        let mut fields = rest.split(';');
        while let (Some(index), Some(spec)) = (fields.next(), fields.next()) {
            let Ok(index) = index.parse::<u8>() else { continue };
            self.set_or_report_color(ColorSlot::Indexed(index), &format!("4;{index}"), spec, end);
        }
    }

    /// `10;spec;spec…`: each further colour is for the next number.
    fn dynamic_colors(&mut self, number: &str, rest: &str, end: End) {
        let slots = [
            ("10", ColorSlot::Foreground),
            ("11", ColorSlot::Background),
            ("12", ColorSlot::Cursor),
        ];
        let from = slots.iter().position(|(name, _)| *name == number).unwrap_or(0);
        for ((name, slot), spec) in slots[from..].iter().zip(rest.split(';')) {
            self.set_or_report_color(*slot, name, spec, end);
        }
    }

    fn set_or_report_color(&mut self, slot: ColorSlot, name: &str, spec: &str, end: End) {
        if spec == "?" {
            self.report_color(slot, name, end);
        } else if let Some(color) = palette::parse_color_spec(spec) {
            self.set_color(slot, Some(color));
        }
    }

    fn reset_palette(&mut self, rest: &str) {
        self.effects.dirty = true;
        if rest.is_empty() {
            self.palette.reset_indexed();
        }
        for index in rest.split(';').filter_map(|index| index.parse().ok()) {
            self.palette.set_color(ColorSlot::Indexed(index), None);
        }
    }

    /// A prompt begins in the first column, after any output.
    fn begin_fresh_line(&mut self) {
        if self.cursor.col > 0 || self.cursor.wrap_pending {
            self.carriage_return();
            self.line_feed();
        }
    }

    fn record_prompt_mark(&mut self, rest: &str) {
        let mut fields = rest.split(';');
        let mark = match fields.next() {
            Some("A") => {
                self.begin_fresh_line();
                PromptMark::Prompt
            }
            Some("B") => PromptMark::Command,
            Some("C") => PromptMark::Output,
            Some("D") => PromptMark::End { exit: fields.next().and_then(|code| code.parse().ok()) },
            _ => return,
        };
        self.effects.events.push(ScreenEvent::Mark(mark));
    }
}
