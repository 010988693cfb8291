//! Redaction: what must go, what must stay.
//!
//! `§` stands in the middle of every secret and is taken out before use, so that no scanner takes
//! this file for a leak. The secret itself stands between `⟦` and `⟧`.

#![allow(clippy::unwrap_used, reason = "a test says what it means with unwrap")]

use std::fmt::Write;

use ostler_flows::redact::redact;

/// The 60 classes that once stayed in, and those that were held.
const CLASSES: &[&str] = &[
    // At the start of a line, after a tab, after a colour.
    "out:\n⟦gh§p_16C7e42F292c6912E7710c838347Ae178B4a⟧",
    "out:\t⟦gh§p_16C7e42F292c6912E7710c838347Ae178B4a⟧",
    "out: \u{1b}[32m⟦gh§p_16C7e42F292c6912E7710c838347Ae178B4a⟧\u{1b}[0m",
    "x\n⟦github_§pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVW⟧",
    "x\n⟦sk-§ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789-_AA⟧",
    "x\t⟦sk-§proj-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789⟧",
    "x\n⟦glp§at-AbCdEfGh12345678_-xY⟧",
    "x\n⟦AKI§AIOSFODNN7EXAMPLE⟧",
    "\u{1b}[1;33m⟦AKI§AIOSFODNN7EXAMPLE⟧",
    "x\n⟦eyJ§hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P⟧",
    // After a name.
    "aws_secret_access_key = ⟦wJalrXUt§nFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY⟧",
    "export AWS_SECRET_ACCESS_KEY=⟦wJalrXUt§nFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY⟧",
    "\"SecretAccessKey\": \"⟦wJalrXUt§nFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY⟧\"",
    "OPENAI_KEY=⟦f3A9§kLm2Qz8xRt5vBn7yWp1c⟧",
    "PRIVATE_KEY=⟦0x4c0883§a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318⟧",
    "passphrase: ⟦correct horse bat§tery staple⟧",
    "credentials=⟦admin:Sw0§rdfish⟧",
    "AccountName=st;AccountKey=⟦Eby8vdM02xNOcqFlqUwJPLlmEtlCDX§J1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq==⟧;EndpointSuffix=x",
    "machine github.com login me password ⟦hun§ter2⟧",
    "machine github.com\n  login me\n  password ⟦hun§ter2⟧\n",
    "Authorization: token ⟦0123456789ab§cdef0123456789abcdef01234567⟧",
    "Cookie: ⟦session=eyJ1§c2VyIjoxfQ; theme=dark; sid=s%3Aabc123⟧",
    "Set-Cookie: ⟦sid=abc§123def456; Path=/; HttpOnly⟧",
    "{\"auths\":{\"ghcr.io\":{\"auth\":\"⟦dXNlcjpz§M2NyM3Rwdw==⟧\"}}}",
    "{\\\"password\\\":\\\"⟦hunt§er2hunter⟧\\\"}",
    "{\\\\\\\"api_key\\\\\\\":\\\\\\\"⟦a1b2§c3d4e5f6g7h8⟧\\\\\\\"}",
    // Passwords that are short or odd.
    "password=⟦hun§ter2⟧",
    "PASSWORD=⟦a,b;§c'd⟧",
    "\"password\": \"⟦it's; a,§b⟧\"",
    "DB_PASS=⟦s3§cr⟧",
    "postgres://app:⟦pa:ss§:w0rd⟧@db.example.org/x",
    "postgres://app:⟦pa/ss§/w0rd⟧@db.example.org/x",
    "redis://:⟦s3cr§etpw⟧@cache:6379/0",
    "https://⟦gh§p_16C7e42F292c6912E7710c838347Ae178B4a⟧@github.com/x/y.git",
    "https://⟦a8F3kd92§LxQ1mN4pZ7rT⟧@git.example.org/x.git",
    "mysql -u root -p⟦hunt§er2⟧ shop",
    "curl -u admin:⟦hunt§er2⟧ https://x.example.org",
    "sshpass -p ⟦hunt§er2⟧ ssh me@host",
    "sshpass -p '⟦hunt§er2⟧' ssh me@host",
    // Formats.
    "⟦sk_li§ve_4eC39HqLyjWDarjtT1zdp7dc⟧",
    "stripe: ⟦whs§ec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw⟧",
    "⟦SG.§ngeVfQFYQlKU0ufo8x5d1A.TwL2iGABf9DHoTf09kqeF8tAmbihYzrnopKc1s5cr⟧",
    "⟦ya2§9.a0AfH6SMBx1234567890abcdefghij⟧",
    "⟦GOCS§PX-AbCdEfGhIjKlMnOpQrStUvWxYz12⟧",
    "⟦hf§_AbCdEfGhIjKlMnOpQrStUvWxYz01234567⟧",
    "⟦pyp§i-AgEIcHlwaS5vcmcCJDAxMjM0NTY3LTg5YWItY2RlZg⟧",
    "⟦dop_§v1_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef⟧",
    "https://⟦hooks.slack.com/serv§ices/T00000000/B00000000/XXXXXXXXyyyyyyyy12345678⟧",
    "⟦xap§p-1-A0123456789-1234567890123-abcdef0123456789⟧",
    "⟦1234567§89:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsawx⟧",
    "⟦hvs§.CAESIJlAbCdEfGhIjKlMnOpQrStUvWxYz⟧",
    "⟦dckr§_pat_AbCdEfGhIjKlMnOpQrStUvWxYz0⟧",
    "⟦AGE-SECRET§-KEY-1QQPZRY9X8GF2TVDW0S3JN54KHCE6MUA7LQQPZRY9X8GF2TVDW0S3JN54K⟧",
    // Keys.
    "⟦-----BEGIN OPENSSH PRIV§ATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ\nAAAAtzc2gtZWQyNTUxOQAAACBz\n⟧",
    "⟦-----BEGIN PGP PRIV§ATE KEY BLOCK-----\nVersion: 2\n\nlQdGBGJ2xYkBEADAbCdEfGhIjKlMn\n-----END PGP PRIVATE KEY BLOCK-----⟧\nend",
    "⟦PuTTY-User-Key-File-2: ssh-ed25519\nEncryption: none\nComment: x\nPublic-Lines: 2\nAAAAC3NzaC1lZDI1NTE5AAAAIPriv§ate\nPrivate-Lines: 1\nAAAAIAbCdEfGhIjKlMnOp\nPrivate-MAC: 0123456789abcdef0123⟧",
    "⟦gh§p_16C7e42F292c69\n12E7710c838347Ae178B4a⟧ next",
    "⟦sk-§ant-api03-AbCdEfGhIjKlMnOpQrStUvWx\nYz0123456789AbCdEf⟧ and on",
    // Held before, and must stay held.
    "use ⟦gh§p_16C7e42F292c6912E7710c838347Ae178B4a⟧ here",
    "id,key\n1,⟦AKI§AIOSFODNN7EXAMPLE⟧,x",
    "⟦-----BEGIN RSA PRIV§ATE KEY-----\nMIIEpAIBAAKCAQEA1234567890abcdef\n-----END RSA PRIVATE KEY-----⟧\nend",
    "https://me:⟦s3cr§et99⟧@example.org/x",
    "PGPASSWORD=⟦s3cr§et99⟧ psql",
    "Authorization: Bearer ⟦abc123§abc123abc123abc⟧",
    "x-api-key: ⟦a1b2c3§d4e5f6g7h8i9⟧",
    "//registry.npmjs.org/:_authToken=⟦a1b2c3§d4-e5f6-47a8-b9c0-d1e2f3a4b5c6⟧",
    "database:\n  password: ⟦s3cr§et99⟧\n  host: x",
];

/// Made after the rules, from other services and other habits.
const HELD_BACK: &[&str] = &[
    "⟦glr§t-t1_AbCdEfGhIjKlMnOpQrSt⟧",
    "\r\n⟦ghs§_16C7e42F292c6912E7710c838347Ae178B4a⟧",
    "Run: docker login -u me -p ⟦dckr§pw99⟧ ghcr.io",
    "docker login --password ⟦Tr0ub§4dor⟧ -u me",
    "redis-cli -h cache -a ⟦f00§bar⟧ ping",
    "mongodb+srv://app:⟦Xk29§dkqP⟧@cluster0.example.net/db",
    "amqp://svc:⟦r4bb§it⟧@mq:5672/",
    "ftp://user:⟦p@ss§w0rd⟧@files.example.org/",
    "wget --http-password=⟦hunt§er2⟧ https://x",
    "openssl rsa -in k.pem -passin pass:⟦hunt§er2⟧",
    "ldapsearch -x -D cn=admin -w ⟦hunt§er2⟧ -b dc=x",
    "7z x a.7z -p⟦hunt§er2⟧",
    "CREATE USER app IDENTIFIED BY '⟦hunt§er2⟧';",
    "ALTER ROLE app WITH PASSWORD '⟦hunt§er2⟧';",
    "spring.datasource.password=⟦Pr0d§!x⟧",
    "TWILIO_AUTH_TOKEN=⟦0123456789ab§cdef0123456789abcdef⟧",
    "clientSecret: \"⟦9Zx8§Q~AbCdEfGhIjKlMnOpQrStUvWxYz01234567⟧\"",
    "PrivateKey = ⟦yAnz5TF+lXXJte14tji3zlM§Nq+hd2rYUIgJBgB3fBmk=⟧",
    "JWT_SECRET='⟦k8Jd72§hQpz0_x⟧'",
    "SECRET_KEY = \"⟦django-insecure-9f$k2§l@x8z!q7w⟧\"",
    "{\"type\":\"x\",\"env\":{\"STRIPE_KEY\":\"⟦rk_te§st_51AbCdEfGhIjKlMn⟧\"}}",
    "{\"headers\":{\"Authorization\":\"Bearer ⟦tok_9§f8e7d6c5b4a39281⟧\"}}",
    "{\"headers\":{\"cookie\":\"⟦sid=9f8§e7d6c5b4a39281; a=b⟧\"}}",
    "{\"password\":\"⟦sword§fish⟧\"}",
    "{\"out\":\"{\\\"token\\\":\\\"⟦9f8e7§d6c5b4a3928170⟧\\\"}\"}",
    "-H 'X-Auth-Token: ⟦9f8e7d6§c5b4a3928170⟧'",
    "--header \"PRIVATE-TOKEN: ⟦9f8e7d6§c5b4a3928170xY⟧\"",
    "https://api.example.org/v1?api_key=⟦9f8e7d6§c5b4a3928170⟧&page=2",
    "https://x.blob.core.windows.net/c?sv=2022&⟦sig=AbCdEfGhIjKlMnOpQrStUvWxYz§0123456789%3D⟧",
    "db.example.org:5432:shop:app:⟦hunt§er2⟧",
    "root:⟦$6$saltsalt$AbCdEfGhIjKlMnOpQrSt§UvWxYz0123456789⟧:19000:0:99999:7:::",
    "⟦xoxb-§123456789012-1234567890123-AbCdEfGhIjKlMnOp⟧",
    "key: ⟦AIza§SyA1234567890abcdefghijklmnopqrstuv⟧",
    "⟦shpat§_0123456789abcdef0123456789abcdef⟧",
    "⟦npm§_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789⟧",
    "⟦tskey-§auth-kAbCdEf1CNTRL-AbCdEfGhIjKlMn⟧",
    "⟦gsk§_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGh⟧",
    "     1\t⟦-----BEGIN EC PRIV§ATE KEY-----\n     2\tMHcCAQEEIAbCdEfGhIjKlMnOpQr\n     3\toAoGCCqGSM49⟧",
    "⟦b3BlbnNzaC1rZXktdjEAAAAA§BG5vbmUAAAAE\nQyNTUxOQAAACBzAbCdEf\n-----END OPENSSH PRIVATE KEY⟧-----",
    "echo ⟦hunt§er2⟧ | sudo -S apt update",
    "smbclient //nas/x -U me%⟦hunt§er2⟧",
    "kubectl create secret generic x --from-literal=password=⟦hunt§er2⟧",
];

/// What is no secret, and what a reader of a transcript needs.
const HARMLESS: &[&str] = &[
    "commit 7bd7ec8f2b6d1c3e4a5b6c7d8e9f0a1b2c3d4e5f",
    "7bd7ec8 Make no index where there is nothing to make one from",
    "Merge: 121c93b d3f8e26",
    "11111111-1111-4111-8111-111111111111",
    "request 3f786850-e387-550f-dab8-36ed7e6dc881 failed",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "\"integrity\": \"sha512-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789+/AbCdEfGhIjKlMnOpQrStUvWxYz==\"",
    "/home/me/.ssh/id_ed25519.pub",
    "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
    "crates/flows/src/redact/rules.rs:120:17: error[E0061]",
    "src/auth/token.rs:1234:12: warning: unused",
    "let token = next();",
    "let token = lexer.next_token()?;",
    "password reset page",
    "The password is wrong.",
    "error: password: must be at least 8 characters",
    "password: String,",
    "password: &str,",
    "password?: string;",
    "pub password: Option<String>,",
    "\"password\": \"string\"",
    "password=$DB_PASSWORD",
    "PASSWORD=${PASSWORD:-}",
    "password = os.environ[\"DB_PASSWORD\"]",
    "password = getpass.getpass()",
    "const token = process.env.GITHUB_TOKEN;",
    "api_key=os.getenv(\"OPENAI_API_KEY\")",
    "apiKey: config.apiKey,",
    "token: self.token.clone(),",
    "Authorization: Bearer ${token}",
    "Authorization: Bearer <token>",
    "headers[\"Authorization\"] = f\"Bearer {token}\"",
    "authorization: basic authentication is used here",
    "Basic understanding of the problem",
    "bearer of the news",
    "curl -u $USER:$PASS https://x",
    "https://user:$PASSWORD@example.org",
    "git@github.com:owner/repo.git",
    "ssh://git@github.com/owner/repo.git",
    "https://github.com/owner/repo/blob/main/src/auth.rs#L10-L20",
    "https://unpkg.com/react@18.2.0/umd/react.js",
    "https://medium.com/@somebody/a-post-about-tokens",
    "http://localhost:3000/@vite/client",
    "http://localhost:8080/path?key=value",
    "input_tokens: 12345, output_tokens: 678",
    "\"max_tokens\": 4096",
    "\"usage\":{\"input_tokens\":10,\"cache_read_input_tokens\":20480}",
    "token_count=123456",
    "tokenizer: cl100k_base",
    "tokens per second: 45.2",
    "key: ArrowDown",
    "\"key\": \"Enter\"",
    "\"keybinding\": \"ctrl+shift+p\"",
    "primary_key=True",
    "primaryKey: \"user_id\"",
    "cache-key: v1-linux-node-20.11.0-7bd7ec8f2b6d1c3e4a5b6c7d8e9f0a1b2c3d4e5f",
    "key: ${{ runner.os }}-cargo-${{ hashFiles('**/Cargo.lock') }}",
    "author: Jane Doe <jane@example.org>",
    "Author: me <me@example.org>",
    "authority = \"example.org\"",
    "passed: 12, failed: 0",
    "test auth::tests::token_expires ... ok",
    "bypass=true",
    "compass: north-north-west",
    "keyword: async",
    "monkey: see",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE1234567890abcdefghijklmnopqrstuvwxyzABCD me@host",
    "SHA256:uNiVztksCsDhcc0u9e8BgrJXVGDU3pqSfmVTfM5dEyc me@host (ED25519)",
    "-----BEGIN CERTIFICATE-----\nMIIDXTCCAkWgAwIBAgIJAKL0UG+mRkSvMA0GCSqGSIb3DQEBCwUAMEUx\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n-----END PUBLIC KEY-----",
    "grep -r 'BEGIN RSA PRIVATE KEY' .",
    "if line.startswith('-----BEGIN PRIVATE KEY-----'):\n    raise ValueError(line)",
    "task-management-and-planning-for-teams",
    "risk-assessment-document-for-the-board",
    "ask-the-user-what-they-want-to-do",
    "desk-lamp",
    "pypi-publish",
    "npm_config_registry=https://registry.example.org",
    "npm run build -- --mode production",
    "mysql -u root -p shop",
    "mysql --host db -P 3306 shop",
    "mkdir -p some/path && cp -p a b",
    "ssh -p 2222 host",
    "docker run -p 8080:80 nginx",
    "tar xzf a.tgz -C out",
    "git log --pretty=format:%H",
    "git rev-parse HEAD",
    "cargo nextest run -p ostler -E 'test(h6)'",
    "fn authenticate(user: &str, password: &str) -> Result<Token, AuthError> {",
    "match token { Token::Ident(name) => name, _ => return None }",
    "self.tokens.push(Token { kind, span });",
    "<input type=\"password\" name=\"password\" required>",
    "type Credentials = { username: string; password: string };",
    "key=lambda x: x[1]",
    "sorted(items, key=str.lower)",
    "for key, value in table.items():",
    "keys: Vec<Key>,",
    "map.insert(key.clone(), value);",
    "PWD=/home/me/project",
    "OLDPWD=/home/me",
    "SSH_AUTH_SOCK=/tmp/ssh-abc/agent.123",
    "secretName: my-app-tls",
    "secretKeyRef: {name: db, key: password}",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
    "id: msg_01XFDUDYJgAACzvnptvVoYEL",
    "toolu_01A09q90qw90lq917835lq9",
    "session 20250101_123456_abcdef started",
    "version = \"1.18.33\"",
    "model: claude-opus-5-5-20260101",
    "Password:",
    "Enter passphrase (empty for no passphrase):",
    "token=***",
    "API_KEY=your-api-key-here",
    "TOKEN=<your token>",
    "secret: [redacted]",
    "credentials: include",
    "fetch(url, { credentials: 'same-origin' })",
    "auth: none",
    "authMethod=publickey",
    "passwordless login is enabled",
    "tokenize(text)",
    "10.0.0.1:5432",
    "2026-11-15T10:00:00.000Z",
    "U2FsdGVkX1 is how salted text begins",
];

/// A case as it is used, and the secret in it.
fn case(text: &str) -> (String, String) {
    let text = text.replace('§', "");
    let (before, rest) = text.split_once('⟦').unwrap();
    let (secret, after) = rest.split_once('⟧').unwrap();
    (format!("{before}{secret}{after}"), secret.to_owned())
}

/// What of a secret is left over: any piece of it that is long enough to help.
fn leaks(redacted: &str, secret: &str) -> bool {
    let pieces = secret.split(|c: char| c.is_whitespace() || "/.:;,=".contains(c));
    let worth =
        |piece: &&str| piece.len() >= 6 && !piece.contains("PRIVATE") && *piece != "services";
    redacted.contains(secret) || pieces.filter(worth).any(|piece| redacted.contains(piece))
}

/// Everything around the secret in plain text must stay, word for word, outside of key blocks.
fn check_all(cases: &[&str]) {
    let mut failed = String::new();
    for text in cases {
        let (plain, secret) = case(text);
        let line = serde_json::json!({"type": "user", "message": {"content": plain}}).to_string();
        let twice = serde_json::json!({"out": line}).to_string();
        let torn = &line[..line.len() - 2];
        for (how, text) in
            [("plain", plain.as_str()), ("json", &line), ("json in json", &twice), ("torn", torn)]
        {
            let (redacted, kinds) = redact(text);
            if leaks(&redacted, &secret) || kinds.is_empty() || !redacted.contains("[redacted]") {
                writeln!(failed, "{how}: {text:?}\n   became {redacted:?}").unwrap();
            }
            if how.starts_with("json") {
                assert!(serde_json::from_str::<serde_json::Value>(&redacted).is_ok(), "{redacted}");
            }
        }
    }
    assert!(failed.is_empty(), "{failed}");
}

#[test]
fn h6_every_class_of_the_report_is_taken_out() {
    assert!(CLASSES.len() >= 60);
    check_all(CLASSES);
}

#[test]
fn h6_what_the_rules_were_not_made_from_is_taken_out() {
    assert!(HELD_BACK.len() >= 40);
    check_all(HELD_BACK);
}

#[test]
fn h6_what_is_no_secret_stays_byte_for_byte() {
    assert!(HARMLESS.len() >= 100);
    let mut failed = String::new();
    for text in HARMLESS {
        let line = serde_json::json!({"type": "user", "message": {"content": text}}).to_string();
        for text in [(*text).to_owned(), line] {
            let (redacted, _) = redact(&text);
            if redacted != text {
                writeln!(failed, "{text:?}\n   became {redacted:?}").unwrap();
            }
        }
    }
    assert!(failed.is_empty(), "{failed}");
}

#[test]
fn h6_letters_written_as_escapes_are_seen() {
    let token = "gh§p_16C7e42F292c6912E7710c838347Ae178B4a".replace('§', "");
    let hidden = token.replacen('g', "\\u0067", 1);
    for line in [format!("{{\"a\":\"x {hidden}\"}}"), format!("{{\"{hidden}\": 1 , \"b\":[2.50]}}")]
    {
        let (redacted, kinds) = redact(&line);
        assert!(!redacted.contains(&token[2..]), "{redacted}");
        assert_eq!(kinds["github-token"], 1);
        assert!(serde_json::from_str::<serde_json::Value>(&redacted).is_ok());
    }
    let (redacted, _) = redact(&format!("{{\"{hidden}\": 1 , \"b\":[2.50]}}"));
    assert_eq!(redacted, "{\"[redacted]\": 1 , \"b\":[2.50]}", "the rest keeps its bytes");
}

#[test]
fn h6_a_text_around_a_secret_stays() {
    let (plain, _) = case("before ⟦gh§p_16C7e42F292c6912E7710c838347Ae178B4a⟧ after\nand on");
    assert_eq!(redact(&plain).0, "before [redacted] after\nand on");
    assert_eq!(
        redact("a\n{\"password\": \"hunter2\", \"n\": 1}\nb").0,
        "a\n{\"password\": \"[redacted]\", \"n\": 1}\nb"
    );
    assert_eq!(redact("https://u:pw1@h/x").0, "https://u:[redacted]@h/x");
    let (redacted, kinds) = redact("[\"x\", {\"password\": [\"hunter2\", \"b\"], \"c\": \"d\"}]");
    assert_eq!(redacted, "[\"x\", {\"password\": [\"[redacted]\", \"[redacted]\"], \"c\": \"d\"}]");
    assert_eq!(kinds["named-value"], 2);
}

proptest::proptest! {
    /// Whatever the text, redaction ends, gives text, and leaves valid JSON valid.
    #[test]
    fn h6_any_text_can_be_redacted(text in "(\\PC|[\\n\"\\\\{}:=@/-]|key|pass|-----BEGIN ){0,60}") {
        let (_, _) = redact(&text);
        let line = serde_json::json!({"password": text, "b": [text.clone()]}).to_string();
        let (redacted, _) = redact(&line);
        proptest::prop_assert!(serde_json::from_str::<serde_json::Value>(&redacted).is_ok());
    }
}
