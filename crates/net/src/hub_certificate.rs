//! The hub's TLS certificate: a CA of the fleet's own, and one certificate that it signs. The CA is pinned by every
//! member and never changes; the certificate is issued anew when the hub starts and its time is almost over.

use std::sync::Arc;
use std::time::Duration;

use model::helper::{HelperFailure, HelperFailureKind};
use model::time::Time;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::ServerCertVerifier;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{RootCertStore, crypto};

use crate::failure::internal_failure;
use crate::fleet_files::FleetDir;

/// The CA, which members pin, and its key.
pub const AUTHORITY: &str = "ca.pem";
pub const AUTHORITY_KEY: &str = "ca.key";

/// What the hub shows, and its key.
pub const HUB_CERTIFICATE: &str = "hub.pem";
pub const HUB_CERTIFICATE_KEY: &str = "hub.key";

/// How long before its end a certificate is issued anew.
pub const RENEWAL_DAYS: u64 = 30;

/// How far ahead the end of a certificate is looked for.
const MOST_DAYS: u64 = 366;

fn authority_params() -> Result<CertificateParams, rcgen::Error> {
    let mut ca = CertificateParams::new(Vec::new())?;
    ca.distinguished_name.push(DnType::CommonName, "ostler fleet");
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(ca)
}

fn sign_for_hub(
    authority: &KeyPair,
    key: &KeyPair,
    names: Vec<String>,
) -> Result<Certificate, rcgen::Error> {
    let params = authority_params()?;
    let issuer = Issuer::from_params(&params, authority);
    let mut hub = CertificateParams::new(names)?;
    hub.distinguished_name.push(DnType::CommonName, "ostler hub");
    hub.signed_by(key, &issuer)
}

/// Makes the CA and the hub's certificate.
pub fn make_certificates(dir: &FleetDir, names: Vec<String>) -> Result<(), HelperFailure> {
    let failed = |error: rcgen::Error| internal_failure(&error);
    let authority = KeyPair::generate().map_err(failed)?;
    let issued = authority_params().and_then(|ca| ca.self_signed(&authority)).map_err(failed)?;
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = sign_for_hub(&authority, &key, names).map_err(failed)?;
    dir.write(AUTHORITY, issued.pem().as_bytes())?;
    dir.write(AUTHORITY_KEY, authority.serialize_pem().as_bytes())?;
    dir.write(HUB_CERTIFICATE_KEY, key.serialize_pem().as_bytes())?;
    dir.write(HUB_CERTIFICATE, certificate.pem().as_bytes())
}

/// Issues the hub's certificate anew with the same CA, so that no member notices.
pub fn renew_certificate(
    dir: &FleetDir,
    name: &str,
    names: Vec<String>,
    now: Time,
) -> Result<(), HelperFailure> {
    let failed = |reason: String| {
        HelperFailure::new(
            HelperFailureKind::Refused,
            format!("the hub's certificate cannot be issued anew: {reason}"),
            format!("{} must be the key of {AUTHORITY}", dir.path().join(AUTHORITY_KEY).display()),
        )
    };
    let read_key = |name: &str| {
        let pem = dir.read(name)?.unwrap_or_default();
        let key = KeyPair::from_pem(&String::from_utf8_lossy(&pem));
        key.map_err(|error| failed(format!("{name}: {error}")))
    };
    // The key stays: a new one beside an old certificate, if this is killed between, would be of no use.
    let signed = sign_for_hub(&read_key(AUTHORITY_KEY)?, &read_key(HUB_CERTIFICATE_KEY)?, names);
    let certificate = signed.map_err(|error| failed(error.to_string()))?;
    let pinned = read_certificate_file(dir, AUTHORITY).map_err(failed)?;
    // Somebody may have put a CA of their own there.
    days_until_refused(pinned, certificate.der(), name, now).map_err(failed)?;
    dir.write(HUB_CERTIFICATE, certificate.pem().as_bytes())
}

fn read_certificate_file(dir: &FleetDir, name: &str) -> Result<CertificateDer<'static>, String> {
    let pem = dir.read(name).map_err(|failure| failure.message)?;
    let pem = pem.ok_or_else(|| format!("{} is missing", dir.path().join(name).display()))?;
    CertificateDer::from_pem_slice(&pem).map_err(|error| error.to_string())
}

/// For how many more days members accept what the hub shows under a name: none if that is longer than a year.
pub fn days_of_certificate(dir: &FleetDir, name: &str, now: Time) -> Result<Option<u64>, String> {
    let certificate = read_certificate_file(dir, HUB_CERTIFICATE)?;
    days_until_refused(read_certificate_file(dir, AUTHORITY)?, &certificate, name, now)
}

fn days_until_refused(
    authority: CertificateDer<'static>,
    certificate: &CertificateDer<'_>,
    name: &str,
    now: Time,
) -> Result<Option<u64>, String> {
    let mut roots = RootCertStore::empty();
    roots.add(authority).map_err(|error| error.to_string())?;
    let provider = Arc::new(crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
    let verifier = verifier.map_err(|error| error.to_string())?;
    let name = ServerName::try_from(name).map_err(|error| error.to_string())?;
    let today = Duration::from_millis(u64::try_from(now.as_millis()).unwrap_or(0));
    let check = |days: u64| {
        let at = UnixTime::since_unix_epoch(today + Duration::from_secs(days * 86_400));
        verifier.verify_server_cert(certificate, &[], &name, &[], at).map(|_| ())
    };
    check(0).map_err(|error| error.to_string())?;
    if check(MOST_DAYS).is_ok() {
        return Ok(None);
    }
    // It holds on the first day and not on the last.
    let (mut good, mut bad) = (0, MOST_DAYS);
    while bad - good > 1 {
        let middle = good.midpoint(bad);
        match check(middle).is_ok() {
            true => good = middle,
            false => bad = middle,
        }
    }
    Ok(Some(good))
}
