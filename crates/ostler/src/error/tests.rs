use model::hosted::FaultCode;

use super::*;

#[test]
fn exit_codes_are_unique_and_every_code_has_one() {
    let numbers: Vec<u8> = EXIT_TABLE.iter().map(|exit| exit.code).collect();
    assert_eq!(numbers, (0..=17).collect::<Vec<u8>>());
    for code in [
        "INVALID_INPUT",
        "AMBIGUOUS_ID",
        "SESSION_NOT_FOUND",
        "INCOMPLETE",
        "NOT_DELIVERED",
        "BLOCKED",
        "TURN_FAILED",
    ] {
        assert!(EXIT_TABLE.iter().any(|exit| exit.codes.contains(code)), "{code}");
    }
    for code in FaultCode::ALL {
        let listed =
            EXIT_TABLE.iter().any(|exit| exit.codes.split(", ").any(|one| one == code.as_str()));
        assert!(listed, "{}", code.as_str());
    }
}
