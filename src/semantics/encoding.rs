//! Content codings (RFC 9110 §8.4.1) and what a client says about them in Accept-Encoding (§12.5.3).

/// A content coding that a file may have beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// Brotli (RFC 7932).
    Br,
    /// Zstandard (RFC 8878).
    Zstd,
    /// Gzip (RFC 1952); `x-gzip` is the same (RFC 9110 §8.4.1.3).
    Gzip,
}

/// In the order of the server's preference: of equal weights the smaller answer.
const ALL: [Coding; 3] = [Coding::Br, Coding::Zstd, Coding::Gzip];
/// Weights are thousandths (§12.4.2).
const WEIGHT_MAX: u16 = 1000;

impl Coding {
    /// Its name in Content-Encoding.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Coding::Br => "br",
            Coding::Zstd => "zstd",
            Coding::Gzip => "gzip",
        }
    }

    /// What follows a file's name in the name of its sidecar.
    #[must_use]
    pub fn ending(self) -> &'static str {
        match self {
            Coding::Br => ".br",
            Coding::Zstd => ".zst",
            Coding::Gzip => ".gz",
        }
    }

    /// What an entity tag ends in, inside its quotes.
    #[must_use]
    pub fn tag_suffix(self) -> &'static str {
        match self {
            Coding::Br => "-br",
            Coding::Zstd => "-zst",
            Coding::Gzip => "-gz",
        }
    }
}

/// Whether `name` ends as the name of a sidecar does: such a file has none of its own.
#[must_use]
pub fn is_sidecar_name(name: &[u8]) -> bool {
    ALL.iter().any(|coding| {
        let ending = coding.ending().as_bytes();
        name.len().checked_sub(ending.len()).is_some_and(|at| name[at..].eq_ignore_ascii_case(ending))
    })
}

/// The codings that a client would rather have than identity, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    order: [Coding; 3],
    count: usize,
}

impl Wanted {
    /// None: identity.
    pub const NOTHING: Wanted = Wanted { order: ALL, count: 0 };

    /// Reads all values of Accept-Encoding of one request as the one list that they are (§5.3).
    ///
    /// A client that sends none might take anything, and one whose list breaks the grammar may mean
    /// anything: both get identity. So does one that takes nothing at all (`identity;q=0`, `*;q=0`):
    /// 406 is allowed and helps nobody (§15.5.7).
    #[must_use]
    pub fn of<'a>(values: impl Iterator<Item = &'a [u8]>) -> Wanted {
        let mut weights = Weights::default();
        for value in values {
            for element in value.split(|byte| *byte == b',').map(trim).filter(|element| !element.is_empty()) {
                if weights.add(element).is_none() {
                    return Wanted::NOTHING;
                }
            }
        }
        weights.wanted()
    }

    /// The same as a number, different for all that differ: two bits a coding, 0 for none.
    #[must_use]
    pub fn code(&self) -> u8 {
        self.codings().iter().fold(0, |code, coding| code << 2 | (*coding as u8 + 1))
    }

    /// The codings, the best first.
    #[must_use]
    pub fn codings(&self) -> &[Coding] {
        &self.order[..self.count]
    }
}

/// What a list says so far.
#[derive(Default)]
struct Weights {
    codings: [Option<u16>; 3],
    identity: Option<u16>,
    any: Option<u16>,
}

impl Weights {
    /// One element: `codings [ weight ]`. `None` when it is none.
    fn add(&mut self, element: &[u8]) -> Option<()> {
        let (name, weight) = match memchr::memchr(b';', element) {
            None => (element, WEIGHT_MAX),
            Some(at) => (trim(&element[..at]), weight(trim(&element[at + 1..]))?),
        };
        if name.is_empty() || !name.iter().all(|byte| is_token_byte(*byte)) {
            return None;
        }
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        let slot = match () {
            () if is("br") => &mut self.codings[0],
            () if is("zstd") => &mut self.codings[1],
            () if is("gzip") || is("x-gzip") => &mut self.codings[2],
            () if is("identity") => &mut self.identity,
            () if is("*") => &mut self.any,
            () => return Some(()),
        };
        // Named twice: the smaller weight, so that what was excluded stays so.
        *slot = Some(slot.map_or(weight, |known| known.min(weight)));
        Some(())
    }

    fn wanted(&self) -> Wanted {
        // Identity that is not named is acceptable, and liked less than anything that is.
        let identity = self.identity.or(self.any).unwrap_or(0);
        let weight_of = |coding: Coding| self.codings[coding as usize].or(self.any).unwrap_or(0);
        let mut wanted = Wanted::NOTHING;
        // Stable: equal weights stay in the server's order.
        wanted.order.sort_by_key(|coding| std::cmp::Reverse(weight_of(*coding)));
        let is_better = |coding: &&Coding| weight_of(**coding) > 0 && weight_of(**coding) >= identity;
        wanted.count = wanted.order.iter().take_while(is_better).count();
        wanted
    }
}

/// `q=` and a qvalue (§12.4.2), in thousandths.
pub(super) fn weight(parameter: &[u8]) -> Option<u16> {
    let [b'q' | b'Q', b'=', value @ ..] = parameter else { return None };
    let (whole, fraction) = match value {
        [whole] => (whole, &[] as &[u8]),
        [whole, b'.', fraction @ ..] if fraction.len() <= 3 => (whole, fraction),
        _ => return None,
    };
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = fraction.iter().chain(b"000").take(3);
    let thousandths = digits.fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'));
    match whole {
        b'0' => Some(thousandths),
        b'1' if thousandths == 0 => Some(WEIGHT_MAX),
        _ => None,
    }
}

/// Without OWS (§5.6.3) at both ends: space and tab, nothing else.
pub(super) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// `tchar` (§5.6.2).
pub(super) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[&str], expected: &str) {
        let wanted = Wanted::of(values.iter().map(|value| value.as_bytes()));
        let names: Vec<&str> = wanted.codings().iter().map(|coding| coding.name()).collect();
        assert_eq!(names.join(" "), expected, "{values:?}");
    }

    /// Case C01. `contains("gzip")` takes `gzip;q=0` for a wish and `gzipx` for a coding.
    #[test]
    fn accept_encoding_is_a_grammar() {
        check(&[], "");
        check(&[""], "");
        check(&["gzip"], "gzip");
        check(&["gzip;q=0"], "");
        check(&["gzip ; q=0.000"], "");
        check(&["br;q=0, gzip"], "gzip");
        check(&["gzip;q=0.5, br;q=1"], "br gzip");
        check(&["gzip;q=1, br;q=0.5"], "gzip br");
        check(&["*"], "br zstd gzip");
        check(&["*;q=0"], "");
        check(&["*;q=0, gzip"], "gzip");
        check(&["*, br;q=0"], "zstd gzip");
        check(&["*;q=0.2, gzip;q=0.3"], "gzip br zstd");
        check(&["identity;q=0, gzip"], "gzip");
        check(&["identity;q=0, *;q=0"], "");
        check(&["identity, gzip;q=0.5"], "");
        check(&["identity;q=0.5, gzip;q=0.5"], "gzip");
        check(&["identity;q=0.5, gzip;q=0.4, br;q=0.6"], "br");
        check(&["identity;q=0"], "");
        check(&["GZIP"], "gzip");
        check(&["x-gzip"], "gzip");
        check(&["X-GZip;Q=0.001"], "gzip");
        check(&["gzipx"], "");
        check(&["broccoli"], "");
        check(&["gzip, deflate, br, zstd"], "br zstd gzip");
        check(&["gzip,,\t, br"], "br gzip");
        check(&["gzip", "br"], "br gzip");
        check(&["gzip, gzip;q=0"], "");
        check(&["gzip, x-gzip;q=0"], "");
    }

    #[test]
    fn a_broken_list_means_identity() {
        check(&["br;q=2"], "");
        check(&["gzip, br;q=2"], "");
        check(&["br;q=2", "gzip"], "");
        check(&[";;,"], "");
        check(&["gzip;q"], "");
        check(&["gzip;q="], "");
        check(&["gzip;q=1.001"], "");
        check(&["gzip;q=1.000"], "gzip");
        check(&["gzip;q=0.0001"], "");
        check(&["gzip;q=0."], "");
        check(&["gzip;q=1."], "gzip");
        check(&["gzip;q=.5"], "");
        check(&["gzip;q=-1"], "");
        check(&["gzip;q=+0.5"], "");
        check(&["gzip;level=9"], "");
        check(&["gzip;q=1;q=1"], "");
        check(&["gzip br"], "");
        check(&["gzip\u{b}"], "");
        check(&["\"gzip\""], "");
    }

    #[test]
    fn a_sidecar_is_known_by_its_ending() {
        for (name, expected) in
            [("app.js.gz", true), ("a.BR", true), ("x.tar.zst", true), ("gz", false), ("a.gzip", false)]
        {
            assert_eq!(is_sidecar_name(name.as_bytes()), expected, "{name}");
        }
    }
}
