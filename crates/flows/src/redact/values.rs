//! Whether a value is a secret, by the name it has and by how it looks (its entropy).

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Quoted,
    /// `NAME=value`, as in an environment.
    Assigned,
    /// After a colon or with blanks around, and nothing behind it on its line.
    LastOnLine,
    /// The same, among other words.
    Loose,
}

/// What a name says about its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Promise {
    /// A password: of any length and look.
    Password,
    /// A secret that a machine made.
    Secret,
    /// It may be one.
    Maybe,
    /// It is none.
    Nothing,
}

/// Parts of names whose values are no secrets, even if the rest of the name suggests it.
const HARMLESS_NAMES: &[&str] = &[
    "public",
    "pubkey",
    "cachekey",
    "primarykey",
    "foreignkey",
    "partitionkey",
    "sortkey",
    "keyid",
    "accesskeyid",
    "fingerprint",
    "tokens",
    "tokencount",
    "tokenlimit",
    "tokenizer",
    "tokentype",
    "keyword",
    "keyboard",
    "keybinding",
    "keymap",
    "keystroke",
    "keypress",
    "keydown",
    "keyup",
    "keyframe",
    "author",
    "authority",
    "monkey",
    "bypass",
    "compass",
    "passenger",
    "passed",
    "passing",
    "passthrough",
    "passes",
    "tokenexpir",
    "passwordlength",
    "passwordmin",
    "secretname",
    "keyname",
    "tokenname",
    "keypath",
    "keyfile",
    "tokenfile",
    "passwordfile",
    "secretref",
    "secretkeyref",
    "apikeysource",
    "idempotencykey",
    "objectkey",
    "s3key",
    "translationkey",
    "authmethod",
    "authtype",
    "authmode",
    "authprovider",
    "tokenurl",
    "authurl",
    "tokenendpoint",
];

/// Words that stand in the place of a value in code, types and documentation.
const HARMLESS_VALUES: &[&str] = &[
    "string",
    "str",
    "text",
    "char",
    "varchar",
    "bool",
    "boolean",
    "int",
    "integer",
    "number",
    "any",
    "unknown",
    "void",
    "null",
    "nil",
    "none",
    "undefined",
    "true",
    "false",
    "required",
    "optional",
    "yes",
    "no",
    "on",
    "off",
    "hidden",
    "secret",
    "secrets",
    "password",
    "passwd",
    "token",
    "tokens",
    "key",
    "keys",
    "auth",
    "value",
    "example",
    "changeme",
    "redacted",
    "masked",
    "default",
    "empty",
    "missing",
    "invalid",
    "valid",
    "incorrect",
    "wrong",
    "expired",
    "disabled",
    "enabled",
    "set",
    "unset",
    "bytes",
    "vec",
    "option",
    "self",
    "this",
    "input",
    "prompt",
    "env",
    "basic",
    "bearer",
    "digest",
    "oauth",
    "oauth2",
    "jwt",
    "apikey",
    "api-key",
    "sha256",
    "md5",
    "user",
    "username",
    "passphrase",
    "credentials",
    "credential",
    "enter",
    "ctrl",
    "escape",
    "admin",
    "root",
    "write",
    "read",
    "not",
    "is",
    "the",
    "a",
    "an",
    "for",
    "and",
    "or",
    "in",
    "to",
    "of",
    "const",
    "let",
    "var",
    "new",
    "await",
    "async",
    "return",
    "function",
    "uuid",
    "varbinary",
    "blob",
    "pub",
    "static",
];

/// Whether what stands after `name` is a secret.
pub(super) fn is_secret(name: &str, value: &str, form: Form) -> bool {
    let value = value.trim();
    if value.is_empty() || is_placeholder(value) || is_path_or_link(value) {
        return false;
    }
    match promise_of(name) {
        Promise::Nothing => false,
        Promise::Password if is_passphrase(name) => true,
        Promise::Password => match form {
            // One or two blanks among other signs are a password's; more are a sentence's.
            Form::Quoted | Form::Assigned => {
                let blanks = value.matches(' ').count();
                !is_code(value) && (blanks == 0 || (blanks <= 2 && !is_wordy(value)))
            }
            Form::LastOnLine => !is_code(value) && !value.contains(' '),
            Form::Loose => !is_code(value) && !is_wordy(value),
        },
        Promise::Secret => {
            let is_pair = name.to_ascii_lowercase().contains("cred") && is_user_and_password(value);
            let is_basic = is_encoded_pair(value);
            let is_cookie = squeeze(name).ends_with("cookie") && value.contains('=');
            let is_set = form == Form::Assigned && value.len() >= 8 && !is_wordy(value);
            !is_code(value)
                && (is_pair || is_basic || is_cookie || is_set || looks_random(value, 8))
        }
        Promise::Maybe => {
            !is_code(value)
                && !is_hash(value)
                && looks_random(value, 16)
                && !value.starts_with("AAAA")
        }
    }
}

/// Whether the value of that name may have blanks in it.
pub(super) fn is_passphrase(name: &str) -> bool {
    squeeze(name).ends_with("passphrase")
}

/// The letters and digits of a name in lower case.
fn squeeze(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

fn promise_of(name: &str) -> Promise {
    // Only the last parts of a long dotted name belong to the value.
    let name = name.rsplit(['/', ' ']).next().unwrap_or(name);
    let squeezed = squeeze(name);
    let has = |words: &[&str]| words.iter().any(|word| squeezed.contains(word));
    let last = name.rsplit(['_', '-', '.']).next().unwrap_or(name).to_ascii_lowercase();
    if has(HARMLESS_NAMES) || squeezed.len() > 64 || matches!(squeezed.as_str(), "pwd" | "oldpwd") {
        return Promise::Nothing;
    }
    let is_pass = matches!(last.as_str(), "pass" | "pw" | "pwd") || squeezed.ends_with("pass");
    if is_pass || has(&["password", "passwd", "passphrase", "passcode", "userpwd", "dbpwd"]) {
        return Promise::Password;
    }
    let named = [
        "secret",
        "apikey",
        "accesskey",
        "privatekey",
        "accountkey",
        "sharedkey",
        "signingkey",
        "encryptionkey",
        "masterkey",
        "sessionkey",
        "servicekey",
        "token",
        "credential",
        "authkey",
        "deploykey",
        "sasskey",
        "hmackey",
        "webhookkey",
        "licensekey",
        "licencekey",
        "presharedkey",
    ];
    if has(&named) || last == "auth" || last == "cookie" || squeezed == "authorization" {
        return Promise::Secret;
    }
    if has(&["key", "auth", "cred", "pass", "cookie", "pwd"]) {
        Promise::Maybe
    } else {
        Promise::Nothing
    }
}

/// Whether it stands for a value instead of being one.
pub(super) fn is_placeholder(value: &str) -> bool {
    let lower = value.trim_matches(['"', '\'', '`', '*']).to_ascii_lowercase();
    let is_masked =
        value.chars().all(|c| matches!(c, '*' | 'x' | 'X' | '.' | '•' | '-' | '_' | '?'));
    is_masked
        || HARMLESS_VALUES.contains(&lower.as_str())
        || value.starts_with(['$', '<', '{', '%', '['])
        || value.contains("${")
        || value.contains("{{")
        || value.contains("[redacted]")
        || lower.starts_with("your")
        || lower.starts_with("process.env")
        || lower.starts_with("os.environ")
        || lower.starts_with("env.")
        || lower.starts_with("xxx")
}

/// Whether it is a piece of a program: a call, a member, a path of names.
fn is_code(value: &str) -> bool {
    let is_name = |part: &str| {
        let mut chars = part.chars();
        chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
            && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
            && is_wordy(part)
    };
    value.starts_with(['&', '(', '!'])
        || value.contains("::")
        || value.contains("=>")
        || value.contains("->")
        || (value.contains('(')
            && value
                .split('(')
                .next()
                .is_some_and(|head| !head.is_empty() && head.split('.').all(is_name)))
        || value.contains("[\"")
        || value.contains("['")
        || (value.contains('.') && value.split('.').all(is_name))
        || (value.contains('_') && is_name(value) && speaks_of_secrets(value))
}

/// Whether a name in the place of a value is a variable that holds the secret.
fn speaks_of_secrets(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    ["key", "secret", "token", "pass", "auth", "cred"].iter().any(|word| lower.contains(word))
}

fn is_path_or_link(value: &str) -> bool {
    let is_path = ["/", "./", "../", "~/", "file:", "http://", "https://"]
        .iter()
        .any(|start| value.starts_with(start));
    let ends = [
        ".json", ".pem", ".txt", ".key", ".pub", ".toml", ".yaml", ".yml", ".rs", ".ts", ".js",
        ".py", ".md", ".go", ".env", ".html", ".css", ".lock",
    ];
    (is_path && value.split('/').all(is_wordy_part_of_path))
        || ends.iter().any(|end| value.ends_with(end))
}

fn is_wordy_part_of_path(part: &str) -> bool {
    is_wordy(part) || part.contains(['{', '$', ':', '@', '%', '?', '~']) || is_hash(part)
}

/// Whether it is made of words and small numbers, as names and versions are.
fn is_wordy(value: &str) -> bool {
    value.split(['-', '_', '.', '/', ':', ' ', '+', '@']).all(is_word)
}

/// Letters in one case (or each word with a capital), and at most four digits behind them.
fn is_word(part: &str) -> bool {
    let letters = part.trim_end_matches(|c: char| c.is_ascii_digit());
    if part.len() - letters.len() > 4 || letters.len() > 40 {
        return false;
    }
    if !letters.chars().all(|c| c.is_ascii_alphabetic()) {
        return false;
    }
    let upper = letters.chars().filter(char::is_ascii_uppercase).count();
    // CamelCase has a few capitals among many letters; random letters have as many of each.
    upper == letters.len() || upper * 3 <= letters.len() || letters.len() <= 3
}

/// A hash, a commit, a UUID: what names a thing and opens nothing.
fn is_hash(value: &str) -> bool {
    let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_uuid =
        value.len() == 36 && value.split('-').count() == 5 && value.split('-').all(is_hex);
    let has_algorithm = ["sha1-", "sha256-", "sha384-", "sha512-", "sha256:", "md5:"]
        .iter()
        .any(|it| value.starts_with(it));
    is_uuid
        || has_algorithm
        || (is_hex(value) && matches!(value.len(), 7..=12 | 32 | 40 | 56 | 64 | 96 | 128))
}

/// `name:password`, as credentials are written.
fn is_user_and_password(value: &str) -> bool {
    value.split_once(':').is_some_and(|(user, password)| {
        !user.is_empty()
            && password.len() >= 3
            && !password.starts_with('/')
            && !value.contains(' ')
    })
}

/// Whether it is `name:password` in base64, as in Docker's configuration.
fn is_encoded_pair(value: &str) -> bool {
    use base64::Engine;

    let decoded = base64::engine::general_purpose::STANDARD.decode(value).ok();
    decoded.and_then(|bytes| String::from_utf8(bytes).ok()).is_some_and(|text| {
        value.len() >= 8 && is_user_and_password(&text) && text.chars().all(|c| !c.is_control())
    })
}

/// Whether it looks as if a machine had made it: no words, several kinds of characters, entropy.
pub(super) fn looks_random(value: &str, at_least: usize) -> bool {
    let value = value.trim_end_matches(['=', ',', ';', ')', '.']);
    let is_token = |byte: u8| byte.is_ascii_graphic() && !b"\"'`<>(){}[]|\\".contains(&byte);
    if value.len() < at_least || !value.bytes().all(is_token) || is_wordy(value) {
        return false;
    }
    let kinds = [u8::is_ascii_digit, u8::is_ascii_lowercase, u8::is_ascii_uppercase]
        .iter()
        .filter(|is| value.bytes().any(|byte| is(&byte)))
        .count();
    let enough = if value.len() < 16 { 2.5 } else { 2.8 };
    kinds >= 2 && entropy(value) >= enough
}

/// Shannon's entropy of the bytes, in bits a byte.
fn entropy(value: &str) -> f64 {
    let mut counts = [0u32; 256];
    for byte in value.bytes() {
        counts[usize::from(byte)] += 1;
    }
    let length = value.len() as f64;
    let of = |count: &u32| {
        let share = f64::from(*count) / length;
        -share * share.log2()
    };
    counts.iter().filter(|count| **count > 0).map(of).sum()
}
