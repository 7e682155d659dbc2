//! Content types of file names: the table of `mime_guess`, a few corrections, charsets for text.

/// What `mime_guess` 2.0.5 has wrong or lacks for today's web.
const OVERRIDES: [(&str, &str); 15] = [
    ("html", "text/html; charset=utf-8"),
    ("htm", "text/html; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"), // RFC 9239
    ("json", "application/json"),              // RFC 8259 §8.1: always UTF-8, no parameter
    ("map", "application/json"),
    ("webmanifest", "application/manifest+json"),
    ("wasm", "application/wasm"), // streaming compilation asks for exactly this
    ("ts", "text/plain; charset=utf-8"), // TypeScript, not MPEG
    ("md", "text/markdown; charset=utf-8"),
    ("avif", "image/avif"),
    ("ico", "image/x-icon"),
    ("woff2", "font/woff2"),
    ("gz", "application/gzip"),
    ("zst", "application/zstd"), // RFC 8878 §7.2
];

/// What a name without a known ending gets (RFC 9110 §8.3 leaves it to the sender).
pub const UNKNOWN: &str = "application/octet-stream";

/// Content type of a file by the ending of its name.
#[must_use]
pub fn of_name(name: &[u8]) -> std::borrow::Cow<'static, str> {
    let Some(ending) = ending(name) else { return UNKNOWN.into() };
    if let Some((_, mime)) = OVERRIDES.iter().find(|(known, _)| ending.eq_ignore_ascii_case(known)) {
        return (*mime).into();
    }
    match mime_guess::from_ext(ending).first_raw() {
        Some(mime) if mime.starts_with("text/") => format!("{mime}; charset=utf-8").into(),
        Some(mime) => mime.into(),
        None => UNKNOWN.into(),
    }
}

/// Whether content of this type is compressed as it is: a coding would make it larger.
#[must_use]
pub fn is_compressed(content_type: &str) -> bool {
    const FORMATS: [&str; 16] = [
        "font/woff",
        "font/woff2",
        "application/font-woff",
        "application/font-woff2",
        "application/epub+zip",
        "application/gzip",
        "application/java-archive",
        "application/vnd.android.package-archive",
        "application/vnd.rar",
        "application/x-7z-compressed",
        "application/x-bzip2",
        "application/x-compressed",
        "application/x-rar-compressed",
        "application/x-xz",
        "application/zip",
        "application/zstd",
    ];
    // Pictures without a compression of their own.
    const PLAIN_IMAGES: [&str; 3] = ["image/svg+xml", "image/x-icon", "image/bmp"];
    const FAMILIES: [&str; 4] = [
        "video/",
        "audio/",
        "application/vnd.openxmlformats-officedocument.",
        "application/vnd.oasis.opendocument.",
    ];
    let is_image = content_type.starts_with("image/") && !PLAIN_IMAGES.contains(&content_type);
    is_image
        || FORMATS.contains(&content_type)
        || FAMILIES.iter().any(|family| content_type.starts_with(family))
}

fn ending(name: &[u8]) -> Option<&str> {
    let name = name.rsplit(|byte| *byte == b'/').next()?;
    let dot = name.iter().rposition(|byte| *byte == b'.')?;
    std::str::from_utf8(&name[dot + 1..]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_have_types_and_text_has_a_charset() {
        for (name, mime) in [
            ("a/index.HTML", "text/html; charset=utf-8"),
            ("app.mjs", "text/javascript; charset=utf-8"),
            ("a.css", "text/css; charset=utf-8"),
            ("a.txt", "text/plain; charset=utf-8"),
            ("a.svg", "image/svg+xml"),
            ("a.png", "image/png"),
            ("a.wasm", "application/wasm"),
            ("a.tar.gz", "application/gzip"),
            ("a.d/README", UNKNOWN),
            ("LICENSE", UNKNOWN),
            ("a.\u{fffd}", UNKNOWN),
        ] {
            assert_eq!(of_name(name.as_bytes()), mime, "{name}");
        }
    }

    #[test]
    fn what_is_compressed_already_is_known_by_its_type() {
        for (name, expected) in [
            ("a.html", false),
            ("a.js", false),
            ("a.json", false),
            ("a.svg", false),
            ("a.ico", false),
            ("a.wasm", false),
            ("a.ttf", false),
            ("README", false),
            ("a.png", true),
            ("a.jpg", true),
            ("a.webp", true),
            ("a.mp4", true),
            ("a.mp3", true),
            ("a.zip", true),
            ("a.gz", true),
            ("a.tgz", true),
            ("a.zst", true),
            ("a.7z", true),
            ("a.xz", true),
            ("a.bz2", true),
            ("a.rar", true),
            ("a.jar", true),
            ("a.woff", true),
            ("a.woff2", true),
            ("a.docx", true),
            ("a.odt", true),
        ] {
            assert_eq!(
                is_compressed(&of_name(name.as_bytes())),
                expected,
                "{name}: {}",
                of_name(name.as_bytes())
            );
        }
    }
}
