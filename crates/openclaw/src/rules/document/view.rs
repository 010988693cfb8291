//! What one entry says.

use std::borrow::Cow;
use std::fmt;

use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::EntryFault;
use crate::rules::key::is_session_id;
use model::time::Time;

/// The fields of an entry that matter here. A field of an unexpected type is absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EntryView<'a> {
    /// The session behind the key now.
    pub session_id: Option<Cow<'a, str>>,
    /// Its transcript, if the entry says so.
    pub session_file: Option<Cow<'a, str>>,
    /// When the entry was last changed.
    pub updated_at: Option<Time>,
    /// How its last run ended, or that it runs.
    pub status: Option<Cow<'a, str>>,
    /// Where it takes place.
    pub chat_type: Option<Cow<'a, str>>,
    /// Where it began.
    pub origin_chat_type: Option<Cow<'a, str>>,
    /// What it was called.
    pub label: Option<Cow<'a, str>>,
    /// What it is shown as.
    pub display_name: Option<Cow<'a, str>>,
    pub model: Option<Cow<'a, str>>,
    pub model_provider: Option<Cow<'a, str>>,
    /// All tokens so far.
    pub total_tokens: Option<u64>,
    /// Tokens of the context.
    pub context_tokens: Option<u64>,
    /// Whether the last run was broken off.
    pub aborted: bool,
    /// The session that it belongs to.
    pub spawned_by: Option<Cow<'a, str>>,
    /// The prompts that it refers to.
    pub prompts: Vec<Cow<'a, str>>,
    /// The files of its compactions.
    pub checkpoints: Vec<Cow<'a, str>>,
}

/// What an entry says, and why it is none.
pub(super) fn read_entry(raw: &str) -> (EntryView<'_>, Option<EntryFault>) {
    let mut view = EntryView::default();
    if !raw.starts_with('{') {
        return (view, Some(EntryFault::NotAnObject));
    }
    let mut json = serde_json::Deserializer::from_str(raw);
    if json.deserialize_map(Fields(&mut view)).is_err() {
        return (EntryView::default(), Some(EntryFault::NotAnObject));
    }
    let bad = view.session_id.as_deref().is_some_and(|id| !is_session_id(id));
    let fault = bad.then_some(EntryFault::SessionId);
    (view, fault)
}

/// Reads the fields of one entry.
struct Fields<'d, 'a>(&'d mut EntryView<'a>);

impl<'a> Visitor<'a> for Fields<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an entry")
    }

    fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<(), M::Error> {
        let view = self.0;
        while let Some(name) = map.next_key::<BorrowedText<'a>>()? {
            match &*name.0 {
                "sessionId" => {
                    view.session_id = map.next_value::<Scalar<'a>>()?.into_nonempty_text();
                }
                "sessionFile" => {
                    view.session_file = map.next_value::<Scalar<'a>>()?.into_nonempty_text();
                }
                "updatedAt" => view.updated_at = map.next_value::<Scalar<'a>>()?.into_time(),
                "status" => view.status = map.next_value::<Scalar<'a>>()?.into_text(),
                "chatType" => view.chat_type = map.next_value::<Scalar<'a>>()?.into_text(),
                "origin" => {
                    view.origin_chat_type = map.next_value::<Inner<'a>>()?.take_text("chatType");
                }
                "label" => view.label = map.next_value::<Scalar<'a>>()?.into_nonempty_text(),
                "displayName" => {
                    view.display_name = map.next_value::<Scalar<'a>>()?.into_nonempty_text();
                }
                "model" => view.model = map.next_value::<Scalar<'a>>()?.into_nonempty_text(),
                "modelProvider" => {
                    view.model_provider = map.next_value::<Scalar<'a>>()?.into_nonempty_text();
                }
                "totalTokens" => view.total_tokens = map.next_value::<Scalar<'a>>()?.into_count(),
                "contextTokens" => {
                    view.context_tokens = map.next_value::<Scalar<'a>>()?.into_count()
                }
                "abortedLastRun" => {
                    view.aborted = matches!(map.next_value()?, Scalar::Bool(true));
                }
                "spawnedBy" => view.spawned_by = map.next_value::<Scalar<'a>>()?.into_text(),
                "skillsSnapshot" => {
                    view.prompts = map.next_value::<Inner<'a>>()?.take_texts("hash");
                }
                "compactionCheckpoints" => {
                    view.checkpoints = map.next_value::<Inner<'a>>()?.take_texts("sessionFile");
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// A text, borrowed where it holds no escapes.
pub(super) struct BorrowedText<'a>(pub(super) Cow<'a, str>);

impl<'de: 'a, 'a> serde::Deserialize<'de> for BorrowedText<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_any(AnyScalar)? {
            Scalar::Text(text) => Ok(Self(text)),
            _ => Err(serde::de::Error::custom("a text was expected")),
        }
    }
}

/// A simple value, or the fact that it is none.
#[derive(Debug)]
enum Scalar<'a> {
    Text(Cow<'a, str>),
    Number(f64),
    Bool(bool),
    Other,
}

impl<'a> Scalar<'a> {
    fn into_text(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A text that says something.
    fn into_nonempty_text(self) -> Option<Cow<'a, str>> {
        self.into_text().filter(|text| !text.is_empty())
    }

    fn into_time(self) -> Option<Time> {
        match self {
            Self::Number(millis) if millis.abs() < 9e15 => Some(Time::from_millis(millis as i64)),
            _ => None,
        }
    }

    fn into_count(self) -> Option<u64> {
        match self {
            Self::Number(count) if (0.0..9e15).contains(&count) => Some(count as u64),
            _ => None,
        }
    }
}

impl<'de: 'a, 'a> serde::Deserialize<'de> for Scalar<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyScalar)
    }
}

struct AnyScalar;

impl<'a> Visitor<'a> for AnyScalar {
    type Value = Scalar<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_borrowed_str<E>(self, text: &'a str) -> Result<Scalar<'a>, E> {
        Ok(Scalar::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Scalar<'a>, E> {
        Ok(Scalar::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Scalar<'a>, E> {
        Ok(Scalar::Number(number as f64))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Scalar<'a>, E> {
        Ok(Scalar::Number(number as f64))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Scalar<'a>, E> {
        Ok(Scalar::Number(number))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Scalar<'a>, E> {
        Ok(Scalar::Bool(value))
    }

    fn visit_unit<E>(self) -> Result<Scalar<'a>, E> {
        Ok(Scalar::Other)
    }

    fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<Scalar<'a>, M::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }

    fn visit_seq<S: SeqAccess<'a>>(self, mut seq: S) -> Result<Scalar<'a>, S::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }
}

/// The texts inside a value, each with the name of its field.
struct Inner<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Inner<'a> {
    fn take_text(self, name: &str) -> Option<Cow<'a, str>> {
        self.0.into_iter().find(|(field, _)| field == name).map(|(_, text)| text)
    }

    fn take_texts(self, name: &str) -> Vec<Cow<'a, str>> {
        self.0.into_iter().filter(|(field, _)| field == name).map(|(_, text)| text).collect()
    }
}

impl<'de: 'a, 'a> serde::Deserialize<'de> for Inner<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut found = Vec::new();
        deserializer.deserialize_any(Texts { name: None, found: &mut found })?;
        Ok(Self(found))
    }
}

/// Walks through a value. serde_json bounds the depth.
struct Texts<'d, 'a> {
    name: Option<Cow<'a, str>>,
    found: &'d mut Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> serde::de::DeserializeSeed<'a> for Texts<'_, 'a> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Texts<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_borrowed_str<E>(self, text: &'a str) -> Result<(), E> {
        self.found.extend(self.name.map(|name| (name, Cow::Borrowed(text))));
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.found.extend(self.name.map(|name| (name, Cow::Owned(text.to_owned()))));
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(name) = map.next_key::<BorrowedText<'a>>()? {
            map.next_value_seed(Texts { name: Some(name.0), found: self.found })?;
        }
        Ok(())
    }

    fn visit_seq<S: SeqAccess<'a>>(self, mut seq: S) -> Result<(), S::Error> {
        while seq.next_element_seed(Texts { name: None, found: self.found })?.is_some() {}
        Ok(())
    }
}
