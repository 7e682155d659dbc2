//! Names as they may stand in a page: as text in HTML, and as one segment of a relative URL.

/// Appends `bytes` as text of an HTML document, fit for an attribute in double or single quotes too
/// (HTML §13.1.2.3, §13.1.4). What is no UTF-8, and control characters, of which HTML allows few, become U+FFFD.
pub fn push_html(bytes: &[u8], out: &mut String) {
    for character in String::from_utf8_lossy(bytes).chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            character if character.is_control() => out.push(char::REPLACEMENT_CHARACTER),
            character => out.push(character),
        }
    }
}

/// Appends `./` and `name` as a relative URL of one segment: every byte that is not unreserved
/// (RFC 3986 §2.3) is escaped. The dot keeps a `:` in the first segment from ending a scheme (§4.2), and
/// what comes out needs no escape in HTML.
pub fn push_link(name: &[u8], out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    out.push_str("./");
    for byte in name {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(*byte))
            }
            byte => {
                let digit = |four: u8| char::from(HEX[usize::from(four)]);
                out.extend(['%', digit(byte >> 4), digit(byte & 15)]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_its_text_or_its_segment() {
        let check = |name: &[u8], html: &str, link: &str| {
            let (mut shown, mut href) = (String::new(), String::new());
            push_html(name, &mut shown);
            push_link(name, &mut href);
            assert_eq!((shown.as_str(), href.as_str()), (html, link));
        };
        check(b"a-b_c.txt~", "a-b_c.txt~", "./a-b_c.txt~");
        check(b"\"><script>", "&quot;&gt;&lt;script&gt;", "./%22%3E%3Cscript%3E");
        check(b"a&amp;'b", "a&amp;amp;&#39;b", "./a%26amp%3B%27b");
        check(b"javascript:alert(1)", "javascript:alert(1)", "./javascript%3Aalert%281%29");
        check(b"//evil", "//evil", "./%2F%2Fevil");
        check(b"100%?#", "100%?#", "./100%25%3F%23");
        check(b"a\nb\x1b", "a\u{fffd}b\u{fffd}", "./a%0Ab%1B");
        check(b"caf\xe9", "caf\u{fffd}", "./caf%E9");
        check("\u{e9}\u{85}".as_bytes(), "\u{e9}\u{fffd}", "./%C3%A9%C2%85");
    }
}
