//! The parts of an escape sequence (`CSI`, `DCS`, `OSC`): what the parser gives to the terminal.

use serde::{Deserialize, Serialize};

/// How a string sequence ended: an answer ends the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Bell,
    StringTerminator,
}

impl End {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            End::Bell => "\x07",
            End::StringTerminator => "\x1b\\",
        }
    }
}

/// The parts of a `CSI` or `DCS` sequence.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sequence {
    /// `<`, `=`, `>` or `?` before the parameters, else 0.
    pub(crate) marker: u8,
    /// The last byte between parameters and final byte (`$`, space, `!` …), else 0.
    pub(crate) intermediate: u8,
    pub(crate) last: u8,
    pub(crate) params: Vec<Param>,
    pub(crate) broken: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Param {
    pub(crate) value: Option<u16>,
    /// Follows a colon: belongs to the parameter before it.
    pub(crate) sub: bool,
}

impl Sequence {
    const MAX_PARAMS: usize = 64;

    pub(crate) fn clear(&mut self) {
        self.params.clear();
        (self.marker, self.intermediate, self.last, self.broken) = (0, 0, 0, false);
    }

    pub(crate) fn digit(&mut self, byte: u8) {
        if self.params.is_empty() {
            self.params.push(Param::default());
        }
        if let Some(param) = self.params.last_mut() {
            let value = param.value.unwrap_or(0);
            param.value = Some(value.saturating_mul(10).saturating_add(u16::from(byte - b'0')));
        }
    }

    pub(crate) fn separator(&mut self, sub: bool) {
        if self.params.is_empty() {
            self.params.push(Param::default());
        }
        if self.params.len() < Self::MAX_PARAMS {
            self.params.push(Param { value: None, sub });
        } else {
            self.broken = true;
        }
    }

    pub(crate) fn params(&self) -> &[Param] {
        &self.params
    }

    /// The parameter at `index`; absent and zero both mean `default`.
    pub(crate) fn count(&self, index: usize) -> usize {
        self.value(index, 1).max(1)
    }

    pub(crate) fn value(&self, index: usize, default: u16) -> usize {
        let param = self.params.iter().filter(|param| !param.sub).nth(index);
        usize::from(param.and_then(|param| param.value).unwrap_or(default))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = u16> {
        self.params.iter().filter(|param| !param.sub).map(|param| param.value.unwrap_or(0))
    }
}
