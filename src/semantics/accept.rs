//! Accept (RFC 9110 §12.5.1), as far as a choice between HTML and JSON, or between the two forms of
//! metrics, needs it.

use crate::semantics::encoding::{is_token_byte, trim, weight};

/// Weight of a range without one (§12.4.2), in thousandths.
const WEIGHT_MAX: u16 = 1000;

/// Whether a client would rather have `application/json` than `text/html`.
///
/// For each of the two the most specific range counts, whatever the weights of the others. The greater
/// weight wins; of equal weights the one that is named more exactly, because `application/json, */*` is
/// what programs send that want JSON; of those HTML. A client that sends no Accept, one whose list breaks
/// the grammar, and one that takes neither get HTML: 406 helps nobody (§15.5.7).
#[must_use]
pub fn prefers_json<'a>(values: impl Iterator<Item = &'a [u8]>) -> bool {
    let mut kinds = [Kind::new("text", "html"), Kind::new("application", "json")];
    let is_list = each_range(values, |range| kinds.iter_mut().for_each(|kind| kind.hear(range)));
    let [html, json] = kinds.map(|kind| kind.best.unwrap_or_default());
    is_list && json.weight > 0 && (json.weight, json.rank) > (html.weight, html.rank)
}

/// Hears each range of the lists; `false` where one breaks the grammar (RFC 9110 §5.6.1: empty elements do not).
fn each_range<'a>(values: impl Iterator<Item = &'a [u8]>, mut hear: impl FnMut(&Range<'a>)) -> bool {
    for value in values {
        let mut rest = value;
        while !rest.is_empty() {
            let Some((element, tail)) = split_element(rest) else { return false };
            rest = tail;
            let element = trim(element);
            if element.is_empty() {
                continue;
            }
            let Some(range) = Range::parse(element) else { return false };
            hear(&range);
        }
    }
    true
}

/// Whether a client asks for `application/openmetrics-text` by name, and likes it as much as `text/plain`.
/// Parameters beside the weight (`version`, `escaping`) are for a client that can read more than one form
/// of it. A list that breaks the grammar asks for nothing.
#[must_use]
pub fn prefers_openmetrics<'a>(values: impl Iterator<Item = &'a [u8]>) -> bool {
    let (mut open, mut plain) = (0, 0);
    let is_list = each_range(values, |range| {
        let is = |main: &[u8], sub: &[u8]| {
            range.main.eq_ignore_ascii_case(main) && range.sub.eq_ignore_ascii_case(sub)
        };
        if is(b"application", b"openmetrics-text") {
            open = range.weight.max(open);
        } else if is(b"text", b"plain") {
            plain = range.weight.max(plain);
        }
    });
    is_list && open > 0 && open >= plain
}

/// Up to the next comma that is not in a quoted string, and what follows it. `None` where a string does
/// not end.
fn split_element(list: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut at = 0;
    while let Some(byte) = list.get(at) {
        match byte {
            b',' => return Some((&list[..at], &list[at + 1..])),
            b'"' => at += quoted_length(&list[at..])?,
            _ => at += 1,
        }
    }
    Some((list, &[]))
}

/// Length of the quoted string (§5.6.4) at the start of `text`, with its quotes.
fn quoted_length(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// One media range with its weight.
struct Range<'a> {
    main: &'a [u8],
    sub: &'a [u8],
    /// Has `charset=utf-8`, which both kinds are in.
    has_charset: bool,
    /// Has a parameter that neither kind has.
    has_others: bool,
    weight: u16,
}

impl<'a> Range<'a> {
    /// `type/subtype *( ";" parameter )`. A parameter is a token, `=`, and a token or a quoted string,
    /// without space in between (§5.6.6); behind the weight stand none.
    fn parse(element: &'a [u8]) -> Option<Range<'a>> {
        let end = memchr::memchr(b';', element).unwrap_or(element.len());
        let (name, mut rest) = element.split_at(end);
        let name = trim(name);
        let (main, sub) = name.split_at(memchr::memchr(b'/', name)?);
        let sub = &sub[1..];
        let is_range = is_token(main) && is_token(sub) && (main != b"*" || sub == b"*");
        if !is_range {
            return None;
        }
        let mut range = Range { main, sub, has_charset: false, has_others: false, weight: WEIGHT_MAX };
        while let Some((b';', tail)) = rest.split_first() {
            let (parameter, tail) = split_parameter(trim(tail))?;
            rest = trim(tail);
            if parameter.is_empty() {
                continue;
            }
            if let [b'q' | b'Q', b'=', ..] = parameter {
                range.weight = weight(parameter)?;
                return rest.is_empty().then_some(range);
            }
            let (name, value) = parameter.split_at(memchr::memchr(b'=', parameter)?);
            let value = &value[1..];
            if !is_token(name) || !(is_token(value) || value.starts_with(b"\"")) {
                return None;
            }
            let value =
                value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value);
            let is_utf8 = name.eq_ignore_ascii_case(b"charset") && value.eq_ignore_ascii_case(b"utf-8");
            *(if is_utf8 { &mut range.has_charset } else { &mut range.has_others }) = true;
        }
        rest.is_empty().then_some(range)
    }
}

/// A parameter and what follows it, from its `;` on.
fn split_parameter(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b';' => break,
            b'"' => {
                at += quoted_length(&text[at..])?;
                break;
            }
            _ => at += 1,
        }
    }
    let (parameter, rest) = text.split_at(at);
    // White space before a `;` is no part of it.
    Some((trim(parameter), rest))
}

fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| is_token_byte(*byte))
}

/// One of the two, with the most specific range that names it.
struct Kind {
    main: &'static str,
    sub: &'static str,
    best: Option<Liking>,
}

#[derive(Clone, Copy, Default)]
struct Liking {
    /// 1 for `*/*` to 4 for a type with a parameter.
    rank: u8,
    weight: u16,
}

impl Kind {
    fn new(main: &'static str, sub: &'static str) -> Kind {
        // Without the field everything is liked alike: as if nothing was.
        Kind { main, sub, best: None }
    }

    fn hear(&mut self, range: &Range<'_>) {
        let (is_any, is_any_sub) = (range.main == b"*", range.sub == b"*");
        let is_mine = (is_any || range.main.eq_ignore_ascii_case(self.main.as_bytes()))
            && (is_any_sub || range.sub.eq_ignore_ascii_case(self.sub.as_bytes()))
            && !range.has_others;
        if !is_mine {
            return;
        }
        let rank = match () {
            () if range.has_charset => 4,
            () if !is_any_sub => 3,
            () if !is_any => 2,
            () => 1,
        };
        let new = Liking { rank, weight: range.weight };
        match &mut self.best {
            Some(best) if best.rank > rank => {}
            // Named twice: the smaller weight, so that what was excluded stays so.
            Some(best) if best.rank == rank => best.weight = best.weight.min(range.weight),
            best => *best = Some(new),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[&str], expected: bool) {
        assert_eq!(prefers_json(values.iter().map(|value| value.as_bytes())), expected, "{values:?}");
    }

    #[test]
    fn the_most_specific_range_counts_and_then_its_weight() {
        check(&[], false);
        check(&[""], false);
        check(&["*/*"], false);
        check(&["text/html"], false);
        check(&["application/json"], true);
        check(&["APPLICATION/Json ; Q=0.1"], true);
        check(&["application/*"], true);
        check(&["application/json;q=0"], false);
        check(&["application/json;q=0, */*"], false);
        check(&["text/html;q=0.9, application/json"], true);
        check(&["application/json;q=0.9, text/html"], false);
        check(&["application/json, text/html"], false);
        check(&["application/json, */*"], true);
        check(&["application/json;q=0.5, */*"], false);
        check(&["application/json, text/javascript, */*; q=0.01"], true);
        check(&["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"], false);
        check(&["text/html;q=0, */*"], true);
        check(&["text/*;q=0.2, */*;q=0.1, application/json;q=0.15"], false);
        check(&["text/*;q=0.1", "application/json;q=0.15"], true);
        check(&["application/json, application/json;q=0"], false);
        check(&["application/json+x, application/jsonx"], false);
        check(&["text/plain;note=\"application/json\""], false);
        check(&["text/plain;note=\"a,application/json\", text/html"], false);
        check(&["text/plain;note=\"\\\",\" , application/json"], true);
        check(&["application/json;profile=x"], false);
        check(&["application/json;charset=utf-8"], true);
        check(&["application/json;charset=\"UTF-8\";q=0.5, text/html;q=0.4"], true);
        check(&["text/html;charset=utf-8;q=0.2, text/html, application/json;q=0.5"], true);
        check(&[",, application/json ,"], true);
    }

    #[test]
    fn openmetrics_is_for_those_who_name_it() {
        let prefers = |value: &str| prefers_openmetrics([value.as_bytes()].into_iter());
        for (value, expected) in [
            ("", false),
            ("*/*", false),
            ("application/openmetrics-text", true),
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
                true,
            ),
            ("application/openmetrics-text;q=0.1, text/plain", false),
            ("application/openmetrics-text;q=0", false),
            ("application/openmetrics-text;version=1.0.0;q=2", false),
            ("text/plain;note=\"application/openmetrics-text\"", false),
        ] {
            assert_eq!(prefers(value), expected, "{value}");
        }
    }

    #[test]
    fn a_broken_list_means_html() {
        for broken in [
            "application/json;q=2",
            "application/json;q=0.1234",
            "application/json;q",
            "application/json;q=1;x=1",
            "application/json;q = 1",
            "application/json;a",
            "application/json;=a",
            "application/json;a=\"b",
            "application/json;a=\"b\"c",
            "application/json x",
            "application",
            "*/json, application/json",
            "/json, application/json",
            "application/, application/json",
            "application/json, \"",
            "application/json, \"\\",
        ] {
            check(&[broken], false);
        }
    }
}
