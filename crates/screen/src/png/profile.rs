//! What a picture looks like: colours and scale, as data.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::palette::Theme;

/// Changes when the same screen and profile would give other pixels.
const RENDERER_VERSION: u32 = 1;

/// How a screen is drawn. Users may write their own in the configuration; what they leave out is as in
/// `reference-dark`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    #[serde(default)]
    pub name: String,
    /// A cell is 8 by 16 pixels times this.
    #[serde(default = "Profile::default_scale")]
    pub scale: u8,
    #[serde(default)]
    pub theme: Theme,
}

impl Profile {
    pub const MAX_SCALE: u8 = 4;

    fn default_scale() -> u8 {
        1
    }

    pub fn reference_dark() -> Profile {
        Profile { name: "reference-dark".to_owned(), scale: 1, theme: Theme::DARK }
    }

    pub fn reference_light() -> Profile {
        Profile { name: "reference-light".to_owned(), scale: 1, theme: Theme::LIGHT }
    }

    /// The profiles that are always there.
    pub fn find_reference(name: &str) -> Option<Profile> {
        [Profile::reference_dark(), Profile::reference_light()]
            .into_iter()
            .find(|profile| profile.name == name)
    }

    /// Equal exactly when the profiles draw equal pixels.
    pub fn hash(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(format!("ostler renderer {RENDERER_VERSION} scale {}\n", self.scale()));
        let theme = &self.theme;
        let colors = [theme.foreground, theme.background, theme.cursor];
        for color in colors.iter().chain(&theme.ansi) {
            hash.update(color);
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(crate) fn scale(&self) -> usize {
        usize::from(self.scale.clamp(1, Self::MAX_SCALE))
    }
}
