//! Accept-Encoding (RFC 9110 §12.5.3, §12.4.2): which codings are tried, the best first.

use super::tags::trim;

/// Coding, the ending of a sidecar, what its tag ends in: in the order of our preference (ADR 0017).
pub const CODINGS: [(&str, &str, &str); 3] =
    [("br", ".br", "-br"), ("zstd", ".zst", "-zst"), ("gzip", ".gz", "-gz")];

/// Numbers of [`CODINGS`] that a request would take rather than identity.
pub fn order(lines: &[&[u8]]) -> Vec<usize> {
    let value = lines.join(&b","[..]);
    let mut named: Vec<(String, u32)> = Vec::new();
    for element in value.split(|byte| *byte == b',').map(trim).filter(|element| !element.is_empty()) {
        // A list that is none means identity (ADR 0017).
        let Some((name, weight)) = coding_and_weight(element) else { return Vec::new() };
        // Named twice, as is said nowhere: the smaller weight, so that what was excluded stays so.
        match named.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = weight.min(*known),
            None => named.push((name, weight)),
        }
    }
    let find = |name: &str| named.iter().find(|(known, _)| known == name).map(|(_, weight)| *weight);
    // "*" is every coding that is not named, identity too.
    let any = find("*");
    // Not named and not excluded identity is acceptable; what is named is liked better (ADR 0017).
    let identity = find("identity").or(any).unwrap_or(0);
    let weight = |number: usize| find(CODINGS[number].0).or(any).unwrap_or(0);
    let mut order: Vec<usize> =
        (0..CODINGS.len()).filter(|number| weight(*number) > 0 && weight(*number) >= identity).collect();
    order.sort_by_key(|number| (1000 - weight(*number), *number));
    order
}

/// codings [ weight ], in lower case and thousandths.
fn coding_and_weight(element: &[u8]) -> Option<(String, u32)> {
    let text = std::str::from_utf8(element).ok()?;
    let (name, weight) = match text.split_once(';') {
        None => (text, 1000),
        Some((name, parameter)) => {
            let parameter = parameter.trim_matches([' ', '\t']);
            let value = parameter.strip_prefix("q=").or_else(|| parameter.strip_prefix("Q="))?;
            (name.trim_matches([' ', '\t']), qvalue(value)?)
        }
    };
    let is_tchar = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(is_tchar) {
        return None;
    }
    let name = name.to_ascii_lowercase();
    // §8.4.1.3
    Some((if name == "x-gzip" { "gzip".to_owned() } else { name }, weight))
}

/// ( "0" [ "." 0*3DIGIT ] ) / ( "1" [ "." 0*3("0") ] )
fn qvalue(text: &str) -> Option<u32> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let thousandths = format!("{fraction:0<3}").parse().ok()?;
    match (whole, thousandths) {
        ("0", thousandths) => Some(thousandths),
        ("1", 0) => Some(1000),
        _ => None,
    }
}
