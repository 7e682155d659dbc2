//! Flamegraphs: the same folded stacks give the same bytes.

use inferno::flamegraph::color::{BackgroundColor, Color, MultiPalette};
use inferno::flamegraph::{self, Options, Palette};

use crate::Refusal;
use crate::profile::stacks::Folded;

/// What the colours mean, for the page.
pub const LEGEND: &str = "orange: kernel, yellow: Rust, red: C and the rest";

/// An SVG of its own, with zoom and search; nothing in it is fetched from anywhere.
///
/// # Errors
/// There is no stack to draw.
pub fn draw(folded: &Folded, title: &str, unit: &str) -> Result<String, Refusal> {
    let mut options = Options::default();
    options.title = title.to_owned();
    options.count_name = unit.to_owned();
    // Java's palette knows `_[k]` and `::`, which Rust's does not tell apart from C.
    options.colors = Palette::Multi(MultiPalette::Java);
    options.bgcolors = Some(BackgroundColor::Flat(Color { r: 0xfa, g: 0xfa, b: 0xf7 }));
    options.deterministic = true;
    options.min_width = 0.05;
    let lines: Vec<String> = folded.lines().collect();
    if lines.is_empty() {
        return Err(Refusal::new(format!("no stack to draw for: {title}")));
    }
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut svg)
        .map_err(|error| Refusal::new(format!("flamegraph: {error}")))?;
    // The drawing's comments name web pages; the file shall name none.
    let mut svg = String::from_utf8_lossy(&svg).into_owned();
    while let Some(from) = svg.find("<!--") {
        let to = svg[from..].find("-->").map_or(svg.len(), |to| from + to + 3);
        svg.replace_range(from..to, "");
    }
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::stacks::Frame;

    #[test]
    fn the_same_stacks_give_the_same_bytes() {
        let frame =
            |symbol: &str, object: &str| Frame { symbol: symbol.to_owned(), object: object.to_owned() };
        let mut folded = Folded::default();
        folded.add(
            &["scalws"],
            &[frame("tcp_sendmsg", "[kernel.kallsyms]"), frame("scalws::serve", "scalws")],
            3,
        );
        let svg = draw(&folded, "on CPU", "samples").unwrap();
        assert_eq!(svg, draw(&folded, "on CPU", "samples").unwrap());
        assert!(svg.contains("tcp_sendmsg (") && svg.contains("scalws::serve"));
        assert!(!svg.contains("<!--"));
        assert!(draw(&Folded::default(), "nothing", "samples").is_err());
    }
}
