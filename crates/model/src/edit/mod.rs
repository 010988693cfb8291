//! Format-preserving edits of others' documents: by insertions and removals, never by writing them anew,
//! so that comments, order and indentation stay as they are.

pub mod layout;
pub mod splice;

/// What is wrong with a file's content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// It cannot be parsed.
    #[error("line {line}, column {column}: {reason}")]
    Syntax {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// In the parser's words.
        reason: String,
    },
    /// It is not what its owner would understand.
    #[error("{0}")]
    Shape(String),
}

impl From<jsonc_parser::errors::ParseError> for EditError {
    fn from(error: jsonc_parser::errors::ParseError) -> Self {
        Self::Syntax {
            line: error.line_display(),
            column: error.column_display(),
            reason: error.kind().to_string(),
        }
    }
}

impl EditError {
    pub fn wrong_shape(reason: impl Into<String>) -> Self {
        Self::Shape(reason.into())
    }
}
